"""PyTorch and ONNX Runtime on one and two cores of Xeons, each model by the others.

The rows come with the project (benchmarks/data/cpu); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_cpu
from gambrel.analysis.estimate import packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, answered

NAMES = {"pytorch": "eager PyTorch", "onnxruntime": "ONNX Runtime"}


def score(_: Path) -> Iterable[Score]:
    """By runtime."""
    found = fit_cpu.rows()
    for name, words in NAMES.items():
        own = [r for r in found if r.runtime == name]
        ratios = fit_cpu.left_out(own)
        yield Score(
            what=f"{words}, one and two cores of a Xeon",
            runs=[_run(r, r.seconds / float(q)) for r, q in zip(own, ratios, strict=True)],
            held_out="leave one model out",
        )


def _run(row: fit_cpu.Row, expected: float) -> Run:
    shares = next(s for s in packaged().shares if s.runtime == row.runtime)
    settings = Settings(precision=row.precision, runtime=row.runtime)
    found = answered(row.bench, Machine(fit_cpu.cores(row.threads), settings), settings)
    return Run(
        name=f"{row.model} {row.precision} on {row.threads}",
        measured=row.seconds,
        expected=expected,
        low=expected * shares.low,
        high=expected * shares.high,
        roofline=found.held.time_s,
        sol=None if found.sol_time_s is None else float(found.sol_time_s),
    )
