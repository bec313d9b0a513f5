"""The page: its data are the JSON, nothing in them becomes markup, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import msgspec
import pytest

from gambrel.analysis.result import Analysis
from gambrel.report import Options, render
from gambrel.report.chart import BOUND_COLORS, SHAPES, describe
from tests.report import samples

ALL = (samples.tiny, samples.hostile, samples.empty, samples.unknown, samples.estimated)

#: Attributes through which a page loads something.
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction"}
VOID = {"meta", "input", "br", "img", "link"}


class Page(HTMLParser):
    """Collects tags, attributes and the text of each element with an id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = self.style = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif inside == "title":
            self.title += data
        elif inside == "style":
            self.style += data

    def data(self, name: str) -> object:
        return json.loads(next(text for a, text in self.scripts if a.get("id") == name))


def page(analysis: Analysis, **options: object) -> Page:
    return Page(str(render(analysis, "html", Options(**options))))  # type: ignore[arg-type]


@pytest.mark.parametrize("build", ALL)
def test_embedded_data_are_the_json(build: Callable[[], Analysis]) -> None:
    analysis = build()
    shown = page(analysis)
    assert shown.data("analysis") == json.loads(render(analysis, "json"))
    assert shown.open == []


@pytest.mark.parametrize("build", ALL)
def test_embedded_chart_is_the_chart(build: Callable[[], Analysis]) -> None:
    analysis = build()
    (view,) = page(analysis).data("views")  # type: ignore[misc, attr-defined]
    assert view["chart"] == json.loads(msgspec.json.encode(describe(analysis)))
    assert "Speed of light" in [label for label, _, _ in view["cards"]]


@pytest.mark.parametrize("build", ALL)
def test_the_same_markup_whatever_the_names(build: Callable[[], Analysis]) -> None:
    assert [tag for tag, _ in page(build()).tags] == [tag for tag, _ in page(samples.tiny()).tags]


def test_hostile_names_stay_text() -> None:
    text = str(render(samples.hostile(), "html"))
    assert text.count("</script") == 3  # two data blocks and the script
    assert "<img" not in text
    assert page(samples.hostile()).title.startswith("</script><img src=x onerror=alert(1)> on")
    for _, script in Page(text).scripts[:2]:
        assert not set(script) & set("<>&\u2028\u2029")


@pytest.mark.parametrize("build", ALL)
def test_nothing_is_loaded(build: Callable[[], Analysis]) -> None:
    shown = page(build())
    for _, attributes in shown.tags:
        assert not LOADING & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in shown.style
    assert "@import" not in shown.style
    script = shown.scripts[-1][1]
    for loader in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "eval(", "document.write"):
        assert loader not in script
    # The one address in the script is the name of the SVG namespace.
    assert re.findall(r"https?://[^\s\"')]+", script) == ["http://www.w3.org/2000/svg"]


def test_policy_allows_this_script_and_no_other() -> None:
    shown = page(samples.tiny())
    policy = next(
        a["content"] for t, a in shown.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    for text in (shown.scripts[-1][1], shown.style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_script_and_style_know_every_shape_and_bound() -> None:
    shown = page(samples.tiny())
    script = shown.scripts[-1][1]
    assert all(f'"{shape}": "M' in script for shape in (*SHAPES, "star"))
    for bound, (light, dark) in BOUND_COLORS.items():
        assert f"--{bound}: {light}" in shown.style
        assert f"--{bound}: {dark}" in shown.style


def test_several_on_one_page() -> None:
    batches = [samples.build(batch=b) for b in (1, 8, 64)]
    shown = Page(str(render(batches, "html")))
    assert shown.data("analysis") == json.loads(render(batches, "json"))["analyses"]
    rates = [v["throughput"] for v in shown.data("views")]  # type: ignore[attr-defined]
    assert rates == ["31,054 images", "248,432 images", "1,987,454 images"]
    assert shown.title == "tinynet on Round 100: 3 analyses"


def test_title() -> None:
    assert page(samples.tiny(), title="A & B").title == "A & B"


def test_two_thousand_ops_are_all_there() -> None:
    data = page(samples.large()).data("analysis")
    assert len(data["ops"]) == 2000  # type: ignore[index]
