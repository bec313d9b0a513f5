"""From the times of slices to a figure that doubts itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gambrel.measure.records import UPPER, Measurement

#: Rounds between this quantile and its counterpart are most rounds.
MOST: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRate:
    """A rate out of many slices.

    Attributes:
        value: Upper quantile.
        median: Half of the slices were slower.
        samples: Slices.
        round: Position of the round that it comes from.
        spread: How far the rounds are apart, as a share of the value.
    """

    value: float
    median: float
    samples: int
    round: int = 0
    spread: float = 0.0

    def measurement(self, resource: str, mix: str, unit: str, **more: Any) -> Measurement:
        """The figure as a record; ``more`` are further fields of `Measurement`."""
        return Measurement(
            resource=resource,
            mix=mix,
            unit=unit,
            value=self.value,
            median=self.median,
            spread=self.spread,
            samples=self.samples,
            **more,
        )


def figure(seconds: Sequence[float] | np.ndarray[Any, Any], work: float) -> SampledRate:
    """The rate at which slices of equal work ran.

    Args:
        seconds: Time of each slice.
        work: FLOP or bytes in each slice, over all threads.
    """
    rates = work / np.asarray(seconds, dtype=float)
    return SampledRate(
        value=float(np.quantile(rates, UPPER)),
        median=float(np.median(rates)),
        samples=len(rates),
    )


def over_rounds(rounds: Sequence[SampledRate]) -> SampledRate:
    """The mean of the faster half of the rounds, with how far most rounds are apart.

    Interruptions and badly placed pages make rounds slow, so the slower half does not count. What
    remains differs because processors change their clock by the second, with what others do on the
    same chip: the best round would be that of a lucky moment, a mean over the run repeats.

    Args:
        rounds: Of one ceiling, spread over the whole run.
    """
    values = np.array([r.value for r in rounds])
    value = float(np.sort(values)[len(values) // 2 :].mean())
    low, high = np.quantile(values, [1 - MOST, MOST])
    return SampledRate(
        value=value,
        median=float(np.median([r.median for r in rounds])),
        samples=sum(r.samples for r in rounds),
        spread=float(high - low) / value,
    )


def best_of(rounds: Sequence[SampledRate]) -> SampledRate:
    """The best round, with how far the rounds differ.

    Which physical pages a round gets, where its cores lie and who else is busy only ever make it
    slower than the hardware allows.
    """
    values = [r.value for r in rounds]
    index = int(np.argmax(values))
    best = rounds[index]
    return SampledRate(
        value=best.value,
        median=best.median,
        samples=best.samples,
        round=index,
        spread=(best.value - min(values)) / best.value,
    )
