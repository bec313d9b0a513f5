"""PyTorch, ONNX Runtime and LiteRT on processors and boards, each model by the others.

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

NAMES = {
    "pytorch": "eager PyTorch, one and two cores of a Xeon",
    "onnxruntime": "ONNX Runtime, one and two cores of a Xeon",
    "torch-compile": "torch.compile, i9-10940X and i7-12700H",
}
BOARDS = {
    "pytorch": "eager PyTorch, Raspberry Pi 5",
    "onnxruntime": "ONNX Runtime, Raspberry Pi 5",
    "litert": "LiteRT (XNNPACK), Raspberry Pi 4",
}


def score(_: Path) -> Iterable[Score]:
    """By runtime."""
    for found, names in ((fit_cpu.rows(), NAMES), (fit_cpu.boards(), BOARDS)):
        for name, words in names.items():
            own = [r for r in found if r.runtime == name]
            ratios = fit_cpu.left_out(own)
            yield Score(
                what=words,
                runs=[_run(r, r.seconds / float(q)) for r, q in zip(own, ratios, strict=True)],
                held_out="6 folds by model" if name == "torch-compile" else "leave one model out",
            )


def _run(row: fit_cpu.Row, expected: float) -> Run:
    mine = [s for s in packaged().shares if s.runtime == row.runtime]
    here = "xeon" if row.device.id == "cores" else row.device.id
    shares = next(s for s in mine if any(pattern in here for pattern in s.match))
    settings = Settings(precision=row.precision, runtime=row.runtime)
    found = answered(row.bench, Machine(row.device, settings), settings)
    return Run(
        name=f"{row.model} {row.precision} on {row.device.id}",
        measured=row.seconds,
        expected=expected,
        low=expected * shares.low,
        high=expected * shares.high,
        roofline=found.held.time_s,
        sol=None if found.sol_time_s is None else float(found.sol_time_s),
    )
