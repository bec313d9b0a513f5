"""Classes of devices of which few runs are published, each device by the others of its class.

The rows come with the project (benchmarks/data/few); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_few


def score(_folder: Path) -> Iterable[Score]:
    """Products and networks of each class."""
    rows = fit_few.rows()
    for one in fit_few.CLASSES:
        found: dict[str, list[Run]] = {}
        for row, seconds in fit_few.left_out(one, fit_few.rows_of(one, rows)):
            low, high = (seconds * end for end in one.ends)
            run = Run(
                name=f"{row.model} {row.phase} {row.precision} {row.device}",
                measured=row.seconds,
                expected=seconds,
                low=low,
                high=high,
                roofline=None,
                sol=None,
            )
            kind = "square products" if row.model.startswith("matmul") else "networks"
            found.setdefault(f"{one.name}: {kind}", []).append(run)
        for what, runs in found.items():
            yield Score(what=what, runs=runs, held_out="leave one device out", family=what)
