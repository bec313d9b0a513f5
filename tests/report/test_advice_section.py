"""Advice in every kind of file: the same changes, and none where there is nothing to improve."""

from __future__ import annotations

import json

import msgspec
import pytest

from gambrel.advise.recommend import advise
from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate.store import load
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.report import Options, load_analysis, render
from gambrel.report.builders.advice import advice_of
from tests.report import samples
from tests.report.test_html import page

ASKED = Options(recommend=True)


@pytest.fixture(scope="module")
def resnet() -> Analysis:
    return analyze(zoo.load("resnet18"), find("a100").device, Settings(calibration=load()))


def test_json_carries_it_and_loads_without(resnet: Analysis) -> None:
    text = str(render(resnet, "json", ASKED))
    told = json.loads(text)["advice"]
    found = advise(resnet, load())
    assert told == json.loads(msgspec.json.encode(found))
    first = told["recommendations"][0]
    numbers = {k for k, v in first.items() if type(v) in (int, float)}
    assert numbers <= set(json.loads(text)["units"])
    assert load_analysis(text.encode()) == resnet
    assert "advice" not in json.loads(render(resnet, "json"))


def test_markdown_lists_it_when_asked(resnet: Analysis) -> None:
    text = str(render(resnet, "markdown", ASKED))
    assert "## Recommendations" in text
    for r in advise(resnet, load()).recommendations:
        assert f"| {r.change} | {r.gain:.2f}× |" in text
    assert "## Recommendations" not in str(render(resnet, "markdown"))
    assert str(render([resnet, resnet], "markdown", ASKED)).count(": Recommendations") == 2


def test_a_page_of_a_small_model_has_it(resnet: Analysis) -> None:
    (view,) = page(resnet).data("views")  # type: ignore[misc, attr-defined]
    tables = [t for t in view["advice"]["tables"] if t["header"][0] == "change"]
    shown = [row[0] for table in tables for row in table["rows"]]
    assert shown == [r.change for r in advise(resnet, load()).recommendations]


def test_a_page_of_a_large_model_says_how_to_get_it(
    resnet: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gambrel.report.html._QUICK", 10)
    (view,) = page(resnet).data("views")  # type: ignore[misc, attr-defined]
    assert view["advice"]["tables"] == []
    assert "--recommend" in view["advice"]["texts"][0]
    (asked,) = page(resnet, recommend=True).data("views")  # type: ignore[misc, attr-defined]
    assert asked["advice"]["tables"]


def test_nothing_where_there_is_no_time_to_improve() -> None:
    unknown = samples.unknown()
    assert advice_of(unknown) is None
    assert json.loads(render(unknown, "json", ASKED))["advice"] is None
    assert "Recommendations" not in str(render(unknown, "markdown", ASKED))
    (view,) = page(unknown, recommend=True).data("views")  # type: ignore[misc, attr-defined]
    assert view["advice"] is None
