"""Training steps on TPUs: constants fitted to TPU7x, each model left out; v6e and v5p not fitted.

The rows come with the project (benchmarks/data/tpu); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_tpu


def score(_folder: Path) -> Iterable[Score]:
    """By generation; models that are not fitted apart."""
    stack = fit_tpu.base()
    found: dict[tuple[str, str], list[Run]] = {}
    for row, seconds in fit_tpu.left_out(list(fit_tpu.rows())):
        run = Run(
            name=row.name,
            measured=row.measured_s,
            expected=seconds,
            low=max(seconds * stack.low, row.sol_s),
            high=seconds * stack.production,
            roofline=None,
            sol=row.sol_s,
        )
        found.setdefault(_family(row), []).append(run)
    for (what, target), runs in found.items():
        held = "leave one model out" if "TPU7x" in what else "no row of these fitted"
        yield Score(what=what, runs=runs, held_out=held, family=what, target=target)


def _family(row: fit_tpu.Row) -> tuple[str, str]:
    if row.device != fit_tpu.FITTED_ON:
        return "training step, TPU v6e and v5p (not fitted)", "15 to 20 %"
    if row.model in fit_tpu.HELD:
        return "training step, TPU7x, GPT-OSS (not fitted)", ""
    if row.parts.mixtures:
        return "training step, TPU7x, mixtures", "18 %"
    return "training step, TPU7x, dense", "8 %"
