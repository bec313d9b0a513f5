"""Factors on a device's expected times from measured runs, and their error on other models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from gambrel.analysis.estimate.adjust import COMPUTE, LAUNCH, MEMORY, PARTS
from gambrel.analysis.estimate.constants import Adjustment
from gambrel.analysis.estimate.tiled_fit import FEW_PULL, MANY, Floats, minimized
from gambrel.analysis.estimate.user_models import held_out_of, range_of

#: More models than this are left out in so many groups.
_FOLDS: Final = 10


def fit_factors(
    runtime: str,
    device: str,
    models: Sequence[str],
    seconds: Sequence[float],
    predict: Callable[[Mapping[str, float], int], float],
) -> Adjustment:
    """The factors that describe measured runs best.

    Args:
        runtime: Id.
        device: Id.
        models: Of each run; those of one are left out together.
        seconds: Measured.
        predict: Factors and index of a run → expected seconds.
    """
    every = range(len(models))
    factors = fitted(every, models, seconds, predict)
    names = list(dict.fromkeys(models))
    ratios = [0.0] * len(models)
    folds = [names[i :: min(_FOLDS, len(names))] for i in range(min(_FOLDS, len(names)))]
    for fold in folds if len(names) > 1 else ():
        others = fitted([i for i in every if models[i] not in fold], models, seconds, predict)
        for i in (i for i in every if models[i] in fold):
            ratios[i] = seconds[i] * (1 / predict(others, i))
    errors = ratios if len(names) > 1 else []
    low, high = range_of(errors, len(names))
    return Adjustment(
        runtime=runtime,
        device=device,
        factors={k: float(f"{v:.4g}") for k, v in factors.items()},
        rows=len(models),
        models=len(names),
        low=low,
        high=high,
        confidence="medium" if len(names) >= MANY else "low",
        held_out=held_out_of(errors, low, high) if errors else None,
    )


def fitted(
    rows: Sequence[int],
    models: Sequence[str],
    seconds: Sequence[float],
    predict: Callable[[Mapping[str, float], int], float],
) -> dict[str, float]:
    """Factors by some of the runs.

    One for all parts from one or two models, a second for launches from three, else all three.
    """
    count = len({models[i] for i in rows})
    if count < 3:
        groups: tuple[tuple[str, ...], ...] = (PARTS,)
    elif count == 3:
        groups = ((COMPUTE, MEMORY), (LAUNCH,))
    else:
        groups = ((COMPUTE,), (MEMORY,), (LAUNCH,))

    def factors(x: Floats) -> dict[str, float]:
        return {
            name: float(np.exp(v)) for names, v in zip(groups, x, strict=True) for name in names
        }

    def residuals(x: Floats) -> Floats:
        tried = factors(x)
        return np.array([np.log(predict(tried, i) / seconds[i]) for i in rows])

    return factors(minimized(residuals, len(groups), FEW_PULL))
