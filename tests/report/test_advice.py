"""Recommendations in a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gambrel.analysis.advise.recommend import Recommendation
from gambrel.analysis.measures import Bound
from gambrel.report import Options
from gambrel.report.advice import render_recommendations

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
)


def shown(*found: Recommendation, width: int = 200) -> list[str]:
    return render_recommendations(found, Options(width=width)).splitlines()


def test_before_and_after() -> None:
    lines = shown(FASTER, LIMIT)
    assert lines[0] == "Recommendations"
    assert lines[3].split()[:13] == [
        *("precision=int8", "1.60×", "100", "µs", "62.5", "µs", "500", "µs"),
        *("memory", "3", "GiB", "Run", "the"),
    ]
    # The upper limit names no resource.
    assert lines[4].split() == [
        *("fuse", "[all]", "1.25×", "100", "µs", "80", "µs", "80", "µs", "–", "1", "MiB"),
        *("Upper", "limit."),
    ]
    assert lines[5].startswith("Each change was applied to the model and analyzed again")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_fits(width: int) -> None:
    lines = shown(FASTER, LIMIT, width=width)
    # What always stays: 14 + 5 + 8 + 7 columns and three gaps of 2.
    assert max(map(cell_len, lines)) <= max(width, 40)
    assert lines[1].split()[:4] == ["change", "gain", "per", "item"]


def test_none_is_explained() -> None:
    text = " ".join(shown(width=60))
    assert "None: no change of the catalogue makes an item 5 % faster" in text
