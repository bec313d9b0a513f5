"""Results in notebooks: a small chart and table, a data frame, a figure; every kind of result."""

from __future__ import annotations

import base64
import math
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

import gambrel
from gambrel.errors import InputError
from gambrel.measure.profile.analyzer import Printed
from gambrel.report import render
from gambrel.report.registry import KINDS as REGISTERED
from gambrel.views import Viewed
from tests.report import samples
from tests.report.kinds import KINDS

#: Kinds with a picture that needs no browser.
DRAWN = ("Comparison", "Selection", "Sweep", "Plan", "Profiled", "Pairing", "Trend", "Recorded")


class Tags(HTMLParser):
    """Elements of a text, and that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(record: Viewed) -> str:
    bundle = record._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == repr(record)
    assert bundle["text/html"] == record._repr_html_()
    return bundle["text/html"]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_result_is_shown(name: str) -> None:
    record = KINDS[name]()
    if not isinstance(record, Viewed):
        assert isinstance(record, (list, tuple))
        return
    text = shown(record)
    tags = Tags(text)
    assert tags.open == []
    assert not {"script", "style", "link", "iframe"} & set(tags.seen)
    assert len(text) < 600_000
    for picture in re.findall(r'src="([^"]*)"', text):
        head, _, data = picture.partition(",")
        assert head == "data:image/svg+xml;base64"
        ElementTree.fromstring(base64.b64decode(data))


def test_every_registered_record_is_one() -> None:
    import importlib

    for kind in REGISTERED:
        module, _, name = kind.record.partition(":")
        assert issubclass(getattr(importlib.import_module(module), name), Viewed), name


def test_an_analysis_shows_its_answer_chart_and_slowest_ops() -> None:
    text = shown(samples.tiny())
    assert {"p", "img", "table"} <= set(Tags(text).seen)
    assert "Expected: " in text or "Roofline: " in text
    assert "layer1.*.conv2" in text


def test_names_are_text() -> None:
    text = shown(samples.hostile())
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("name", DRAWN)
def test_results_are_drawn_and_tabled(name: str) -> None:
    pytest.importorskip("plotly")
    pytest.importorskip("pandas")
    record = KINDS[name]()
    frame = record.to_dataframe()
    assert len(frame) > 0
    figure = record.plot("a title")
    assert figure.layout.title.text.startswith("a title")
    assert len(figure.data) > 0
    figure.to_json()


def test_a_frame_has_numbers_in_base_units() -> None:
    pytest.importorskip("pandas")
    found = gambrel.compare("resnet18", ["a100", "coral-edge-tpu"], metric="latency")
    frame = found.to_dataframe()
    latency = next(c for c in frame.columns if c.startswith("latency"))
    known = [v for v in frame[latency] if v is not None and not math.isnan(v)]
    rows = [r.figures["latency"].value for r in found.rows]
    assert known == [v for v in rows if v is not None]


def test_bars_have_their_ranges() -> None:
    pytest.importorskip("plotly")
    found = gambrel.compare("resnet18", ["a100", "h100"], metric="latency")
    (bars,) = found.plot().data
    best = min(found.rows, key=lambda row: row.figures["latency"].value or math.inf)
    figure = best.figures["latency"]
    assert bars.x[-1] == figure.value  # the first row is the uppermost
    assert bars.error_x.array[-1] == pytest.approx(figure.high - figure.value)
    assert bars.error_x.arrayminus[-1] == pytest.approx(figure.value - figure.low)


def test_what_has_no_picture_says_so() -> None:
    pytest.importorskip("plotly")
    with pytest.raises(InputError, match="there is no picture of runtime"):
        gambrel.runtimes.runtime("pytorch").plot()


def test_a_printed_text_is_shown_once() -> None:
    text = Printed("a table")
    assert text == "a table"
    assert text._ipython_display_() is None


@pytest.mark.parametrize("name", ["Trend", "TrainingSearch", "Memory", "Advice"])
def test_axes_have_several_values_and_none_twice(name: str) -> None:
    """Narrow axes too; counts are whole."""
    svg = str(render(KINDS[name](), "svg"))
    said = re.findall(r">(\d[^<]*)</text>", svg)
    ends = [text for text in said if re.fullmatch(r"\d+(\.\d+)?( \w+| %)?", text)]
    assert len(ends) >= 3
    if name in ("Trend", "TrainingSearch"):
        assert len(set(ends)) == len(ends)


def test_notebooks_have_no_options_to_type() -> None:
    text = KINDS["Pictures"]()._repr_html_()
    assert "Next: " in text
    assert "--recommend" not in text
