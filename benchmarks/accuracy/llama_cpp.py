"""llama.cpp on processors, Apple and consumer GPUs: whole runs that people published."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

NAMES = {"apple": "Apple GPUs", "cpu": "processors", "consumer gpu": "GeForce and RTX cards"}


def score(_: Path) -> Iterable[Score]:
    """The rows come with the project: no folder is read."""
    from fit_shares import CLASSES, left_out, runs_of
    from gambrel.analysis.estimate import packaged

    ends = {s.match: s for s in packaged().shares}
    for one in CLASSES:
        runs, shares = runs_of(one), ends[one.match]
        yield Score(
            what=f"llama.cpp, {NAMES[one.match[0]]}",
            runs=[
                Run(
                    name=f"{r.device} {r.model}",
                    measured=r.seconds,
                    expected=t,
                    low=t * shares.low,
                    high=t * shares.high,
                    roofline=float((r.count * r.floor).sum()),
                )
                for r, t in zip(runs, left_out(runs), strict=True)
            ],
            held_out="leave one model out",
        )
