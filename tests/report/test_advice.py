"""Recommendations in a terminal."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from gambrel.advise.recommend import Recommendation
from gambrel.analysis.measures import Bound
from gambrel.report import Options, render
from gambrel.report.answers import Changes

FASTER = Recommendation(
    change="precision=int8",
    about="Run the whole model in this format; check the accuracy on your data.",
    time_before_s=100e-6,
    time_after_s=62.5e-6,
    gain=1.6,
    latency_after_s=500e-6,
    bound_after=Bound.MEMORY,
    memory_after_bytes=3 * 2**30,
    fits_after=True,
    latency_before_s=800e-6,
    confidence="high",
)
LIMIT = Recommendation(
    change="fuse [all]",
    about="Upper limit.",
    time_before_s=100e-6,
    time_after_s=80e-6,
    gain=1.25,
    latency_after_s=80e-6,
    bound_after=None,
    memory_after_bytes=2**20,
    fits_after=None,
    latency_before_s=100e-6,
)
BATCH = Recommendation(
    change="batch=8",
    about="Weights are read once.",
    time_before_s=100e-6,
    time_after_s=50e-6,
    gain=2.0,
    latency_after_s=400e-6,
    bound_after=Bound.COMPUTE,
    memory_after_bytes=2**30,
    fits_after=True,
    effort="batch",
    latency_before_s=100e-6,
)
REST = ("bound", "memory", "confidence")


def shown(*found: Recommendation, width: int = 200) -> list[str]:
    changes = Changes(recommendations=found)
    return str(render(changes, "table", Options(width=width))).splitlines()


def test_before_and_after() -> None:
    lines = shown(FASTER, LIMIT)
    assert lines[:2] == [
        "Recommendations",
        "Best: precision=int8, 1.60× per item by the roofline time",
    ]
    assert lines[3] == "Same model, same batch: every run is faster"
    head = ("change", "gain", "before", "after", "per", "item", "before", "after", *REST)
    assert tuple(lines[4].split()) == head
    assert lines[6].split() == [
        *("precision=int8", "1.60×", "800", "µs", "500", "µs", "100", "µs", "62.5", "µs"),
        *("memory", "3", "GiB", "high"),
    ]
    # The upper limit names no resource.
    assert lines[7].split() == [
        *("fuse", "[all]", "1.25×", "100", "µs", "80", "µs", "100", "µs", "80", "µs", "–"),
        *("1", "MiB", "roofline"),
    ]
    assert lines[8].startswith("Each change was applied to the model and analyzed again")


def test_what_a_change_takes_is_told_once() -> None:
    both = msgspec.structs.replace(FASTER, change="a=1 + batch=8", changes=("a=1", "batch=8"))
    lines = shown(FASTER, BATCH, both, LIMIT)
    told = [line for line in lines if line.startswith("•")]
    assert [line.split(":")[0] for line in told] == [
        "• precision=int8",
        "• batch=8",
        "• fuse [all]",
        "• a=1 + batch=8",
    ]
    known = msgspec.structs.replace(
        both, change="precision=int8 + batch=4", changes=("precision=int8", "batch=4")
    )
    assert len([line for line in shown(FASTER, BATCH, known) if line.startswith("•")]) == 2


def test_a_larger_batch_shows_both_times() -> None:
    lines = shown(FASTER, BATCH)
    at = lines.index("Larger batch: more per second, but each batch takes longer")
    assert lines[at + 3].split()[:10] == [
        *("batch=8", "2.00×", "100", "µs", "400", "µs", "100", "µs", "50", "µs"),
    ]
    narrow = shown(FASTER, BATCH, width=80)
    # Of a larger batch the time per item matters, of the others that of the batch.
    heads = [line.split() for line in narrow if line.startswith("change ")]
    assert ["per" in head for head in heads] == [False, True]


@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_fits(width: int) -> None:
    lines = shown(FASTER, LIMIT, BATCH, width=width)
    assert max(map(cell_len, lines)) <= width
    head = next(line for line in lines if line.startswith("change "))
    assert head.split()[:4] == ["change", "gain", "before", "after"]


def test_none_is_explained() -> None:
    text = " ".join(shown(width=60))
    assert "None: no change of the catalogue makes an item 5 % faster" in text
