"""Training steps on TPUs: constants fitted to TPU7x and v6e, each model left out; v5p not fitted.

The rows come with the project (benchmarks/data/tpu); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_tpu
from gambrel.device.catalog import load


def score(_folder: Path) -> Iterable[Score]:
    """By generation; models that are not fitted apart."""
    found: dict[tuple[str, str], list[Run]] = {}
    for row, seconds in fit_tpu.left_out(list(fit_tpu.rows())):
        low, high = fit_tpu.stored(row.device).ends(load(row.device))
        run = Run(
            name=row.name,
            measured=row.measured_s,
            expected=seconds,
            low=max(seconds * low, row.sol_s),
            high=seconds * high,
            roofline=None,
            sol=row.sol_s,
        )
        found.setdefault(_family(row), []).append(run)
    for (what, target), runs in found.items():
        held = "no row of these fitted" if "v5p" in what else "leave one model out"
        yield Score(what=what, runs=runs, held_out=held, family=what, target=target)


def _family(row: fit_tpu.Row) -> tuple[str, str]:
    if row.device == "tpu-v6e":
        return "training step, TPU v6e", ""
    if row.device != fit_tpu.NEWEST:
        return "training step, TPU v5p (not fitted)", "15 to 20 %"
    if row.model in fit_tpu.HELD:
        return "training step, TPU7x, GPT-OSS (not fitted)", ""
    if row.parts.mixtures:
        return "training step, TPU7x, mixtures", "18 %"
    return "training step, TPU7x, dense", "8 %"
