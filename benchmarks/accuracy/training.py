"""Training steps of language models on GPUs: published runs, each model left out in turn."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

TARGETS = {"dense": "8 %", "mixtures": "18 %"}


def score(folder: Path) -> Iterable[Score]:
    """Dense models and mixtures on each architecture; rows that were never fitted stand apart."""
    from fit_training import HELD, Vector, fit, predicted, rows
    from gambrel.llm.training_time import stacks

    data, vector = list(rows(folder)), Vector(stacks())
    shipped = {one.name: one for one in stacks()}
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for model in sorted({row.model for row in data}):
        own = fit([row for row in data if row.model != model], vector)
        for row in (row for row in data if row.model == model):
            kind = "mixtures" if row.parts.mixtures else "dense"
            kind = "GPT-OSS (not fitted)" if model in HELD else kind
            seconds, ends = predicted(row, own), shipped[row.stack]
            runs[row.stack, kind].append(
                Run(
                    name=row.name,
                    measured=row.measured_s,
                    expected=seconds,
                    low=seconds * ends.low,
                    high=seconds * ends.production,
                    sol=row.sol_s,
                )
            )
    for (stack, kind), found in sorted(runs.items()):
        yield Score(
            what=f"training step, {stack}, {kind}",
            runs=found,
            held_out="leave one model out",
            target=TARGETS.get(kind, ""),
        )
