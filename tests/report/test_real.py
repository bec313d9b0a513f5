"""Every format of real analyses: what the engine yields is what the reports can show."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.report import Options, kind_of, load_analysis, render
from gambrel.report.chart import describe
from tests.report.test_chart import roof_at


@pytest.fixture(scope="module", params=[("resnet50", "a100"), ("resnet50", "h100")])
def analysis(request: pytest.FixtureRequest) -> Analysis:
    model, device = request.param
    found = gambrel.analyze(model, device)
    assert isinstance(found, Analysis)
    return found


def test_loads_without_loss(analysis: Analysis) -> None:
    assert load_analysis(str(render(analysis, "json")).encode()) == analysis


@pytest.mark.parametrize("name", kind_of(Analysis).formats)
def test_renders(analysis: Analysis, name: str) -> None:
    assert len(render(analysis, name)) > 500


@pytest.mark.parametrize("name", ["table", "roofline"])
@pytest.mark.parametrize("width", [80, 200])
def test_fits(analysis: Analysis, name: str, width: int) -> None:
    shown = str(render(analysis, name, Options(width=width)))
    assert max(map(cell_len, shown.splitlines())) <= width


def test_the_whole_lies_under_the_roof(analysis: Analysis) -> None:
    chart = describe(analysis)
    assert chart.total.arithmetic_intensity is not None
    assert chart.total.flop_per_s is not None
    roof = roof_at(chart, chart.total.arithmetic_intensity)
    assert roof is not None
    assert chart.total.flop_per_s <= roof


def test_ops_add_up_in_the_json(analysis: Analysis) -> None:
    data = json.loads(render(analysis, "json"))
    assert sum(op["matrix_flops"] for op in data["ops"]) == data["total"]["matrix_flops"]
    assert sum(k["matrix_flops"] for k in data["by_kind"]) == data["total"]["matrix_flops"]
