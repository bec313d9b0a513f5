"""The list of built-in models in a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gambrel.capture.zoo import list_models
from gambrel.report import Options, render
from gambrel.report.answers import Models
from gambrel.workload import Symbol, WorkloadSummary

NET = WorkloadSummary(
    name="tinynet",
    aliases=("tiny-net",),
    family="example",
    about="Two layers [not a link](x).",
    parameters=11_689_512,
    flops=3_628_146_688,
    symbols=(Symbol(name="batch", default=1), Symbol(name="seq", default=2048)),
    origin="built by hand",
)
FIXED = WorkloadSummary(
    name="x\x1b[31m[red]",
    aliases=(),
    family="example",
    about="",
    parameters=0,
    flops=0,
    symbols=(),
    origin="",
)


def shown(*rows: WorkloadSummary, width: int = 200) -> list[str]:
    return str(render(Models(models=rows), "table", Options(width=width))).splitlines()


def test_a_line_per_model() -> None:
    lines = shown(NET, FIXED)
    assert lines[0] == "2 models"
    assert lines[4].split()[:8] == [
        *("tinynet", "example", "11.69", "M", "3.628", "G", "batch=1,", "seq=2048")
    ]
    assert lines[4].endswith("Two layers [not a link](x).  built by hand")
    assert lines[5].split() == ["x\\x1b[31m[red]", "example", "0", "0", "fixed"]
    assert lines[6].startswith("FLOP: multiply-accumulate work (FMA = 2)")


def test_narrow_terminals_keep_name_and_work() -> None:
    assert shown(*list_models(), width=40)[2].split() == ["model", "parameters", "FLOP"]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_all_built_in_models_fit(width: int) -> None:
    lines = shown(*list_models(), width=width)
    assert max(map(cell_len, lines)) <= width
    assert lines[4].startswith("resnet18 ")


def test_empty_list_says_how_to_see_all() -> None:
    assert shown() == ["No model matches. Run 'gambrel models list' to see all."]
