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
from tests.report.pages import cells, page, tables

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
    data = page(resnet).data
    listed = [t for t in tables(data) if t["columns"][0]["title"] == "change"]
    shown = [text for table in listed for text in cells(data, table, "change")]
    assert shown == [r.change for r in advise(resnet, load()).recommendations]


def test_a_page_of_a_large_model_has_it_where_asked_for(
    resnet: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gambrel.report.page.analyses._QUICK", 10)
    titles = [t["columns"][0]["title"] for t in tables(page(resnet).data)]
    assert "change" not in titles
    asked = page(resnet, recommend=True).data
    assert "change" in [t["columns"][0]["title"] for t in tables(asked)]


def test_nothing_where_there_is_no_time_to_improve() -> None:
    unknown = samples.unknown()
    assert advice_of(unknown) is None
    assert json.loads(render(unknown, "json", ASKED))["advice"] is None
    assert "Recommendations" not in str(render(unknown, "markdown", ASKED))
    titles = [t["columns"][0]["title"] for t in tables(page(unknown, recommend=True).data)]
    assert "change" not in titles
