"""Eager PyTorch on Apple's GPUs, each device by the others (benchmarks/data/apple; no folder)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_apple


def score(_folder: Path) -> Iterable[Score]:
    """Products, and a network's passes and steps."""
    found: dict[str, list[Run]] = {}
    for row, seconds in fit_apple.left_out(fit_apple.rows()):
        kind = "square products" if row.model.startswith("matmul") else "ResNet-50"
        low, high = (seconds * end for end in fit_apple.RANGE)
        run = Run(
            name=f"{row.model} {row.device}",
            measured=row.seconds,
            expected=seconds,
            low=low,
            high=high,
            roofline=None,
            sol=None,
        )
        found.setdefault(f"eager PyTorch, Apple GPUs: {kind}", []).append(run)
    for what, runs in found.items():
        yield Score(what=what, runs=runs, held_out="leave one device out", family=what)
