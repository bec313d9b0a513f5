"""The power of GPUs while they serve and make images: energy at the measured time.

Each row is the median of many measured runs of one kind; its range is that of the runs of other
kinds and devices about their medians, as `gambrel.analysis.energy` states it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_power


def score(_: Path) -> Iterable[Score]:
    """Watts of a GPU by shares of the design power that rows of the other GPU say."""
    rows = fit_power.read()
    low, high = min(r.low for r in rows), max(r.high for r in rows)
    runs = []
    for row, share in zip(rows, fit_power.left_out(rows), strict=True):
        watts = share * row.tdp_w
        runs.append(
            Run(
                name=f"{row.device}, {row.task}",
                measured=row.share * row.tdp_w,
                expected=watts,
                low=watts * low,
                high=watts * high,
            )
        )
    yield Score(
        what="H100 and B200 serving and making images, energy at the measured time",
        runs=runs,
        held_out="leave one device out",
        target="25 %",
    )
