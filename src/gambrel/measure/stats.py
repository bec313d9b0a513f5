"""From the times of slices to a figure that doubts itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gambrel.measure.records import UPPER


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A rate out of many slices.

    Attributes:
        value: Upper quantile.
        median: Half of the slices were slower.
        samples: Slices.
        round: Position of the round that it comes from.
        spread: (Best - worst) / best over the rounds.
    """

    value: float
    median: float
    samples: int
    round: int = 0
    spread: float = 0.0


def figure(seconds: Sequence[float] | np.ndarray[Any, Any], work: float) -> Figure:
    """The rate at which slices of equal work ran.

    Args:
        seconds: Time of each slice.
        work: FLOP or bytes in each slice, over all threads.
    """
    rates = work / np.asarray(seconds, dtype=float)
    return Figure(
        value=float(np.quantile(rates, UPPER)),
        median=float(np.median(rates)),
        samples=len(rates),
    )


def best_of(rounds: Sequence[Figure]) -> Figure:
    """The best round, with how far the rounds differ.

    Which physical pages a round gets, where its cores lie and who else is busy only ever make it
    slower than the hardware allows.
    """
    values = [r.value for r in rounds]
    index = int(np.argmax(values))
    best = rounds[index]
    return Figure(
        value=best.value,
        median=best.median,
        samples=best.samples,
        round=index,
        spread=(best.value - min(values)) / best.value,
    )
