"""TPUs, Gaudis, NeuronCores, Tensix, Jetsons, Arc: whole runs that makers and users published.

The rows come with the project (benchmarks/data/accelerators); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_accelerators
from accelerator_classes import CLASSES, Class
from gambrel.analysis.estimate import packaged


def score(_: Path) -> Iterable[Score]:
    """Of each runtime, with the model left out, the device or the source."""
    for one in CLASSES:
        runs = fit_accelerators.runs_of(one)
        yield _score(one, runs, "model")
        if len({r.device for r in runs}) > 1:
            yield _score(one, runs, "device")
        if one.by_source:
            yield _score(one, runs, "source")


def _score(one: Class, runs: Sequence[fit_accelerators.Run], by: str) -> Score:
    ends = next(s for s in packaged().shares if (s.runtime, s.match) == (one.runtime, one.match))
    return Score(
        what=one.name,
        runs=[
            Run(
                name=r.name,
                measured=r.measured_s,
                expected=t,
                low=t * ends.low,
                high=t * ends.high,
                roofline=r.roofline_s,
            )
            for r, t in zip(runs, fit_accelerators.left_out(one, runs, by), strict=True)
        ],
        held_out=f"leave one {by} out",
        family=one.name,
    )
