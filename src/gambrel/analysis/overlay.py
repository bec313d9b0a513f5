"""Measured times beside an analysis: which of its ops took how long in a real run."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from gambrel.analysis.fold import alike, fold
from gambrel.analysis.result import Analysis, OpResult
from gambrel.views import Viewed

#: FLOP may differ by this much: captures of one model count a few scalars differently.
_TOLERANCE = 0.01


class Overlay(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """An analysis with what was measured of it.

    Attributes:
        analysis: What is expected.
        label: Name of the file that holds the measured times.
        hardware: Name of the device that they were measured on; empty where nothing says it.
        measured_time_s: The whole run; None where only ops were measured.
        times_s: One an op of the analysis; None where it was not measured, or is another op there.
        notes: What makes the two hard to compare.
    """

    analysis: Analysis
    label: str
    hardware: str
    measured_time_s: float | None
    times_s: tuple[float | None, ...]
    notes: tuple[str, ...] = ()

    @property
    def matched(self) -> int:
        """Ops with a measured time."""
        return sum(time is not None for time in self.times_s)

    def rows(self) -> list[tuple[OpResult, float | None]]:
        """Ops with their measured time, repeated layers as one row as `fold` makes it."""
        ops = self.analysis.ops
        times = [_sum(self.times_s[i] for i in members) for members in alike(ops)]
        return list(zip(fold(ops), times, strict=True))


def _sum(times: Iterable[float | None]) -> float | None:
    """Seconds of all; None where one of them is unknown."""
    total = 0.0
    for time in times:
        if time is None:
            return None
        total += time
    return total


def times_by_name(
    ops: Iterable[OpResult], measured: Iterable[tuple[str, int, float | None]]
) -> tuple[float | None, ...]:
    """Finds ops by name, and by order among equal names; other work under a name is another op.

    Args:
        ops: Of the analysis.
        measured: Name, FLOP and seconds of each op that ran.
    """
    waiting: dict[str, deque[tuple[int, float | None]]] = defaultdict(deque)
    for name, flops, time_s in measured:
        waiting[name].append((flops, time_s))
    times = []
    for op in ops:
        flops, time_s = waiting[op.name].popleft() if waiting[op.name] else (-1, None)
        times.append(time_s if _same(op.measures.flops, flops) else None)
    return tuple(times)


def _same(expected: int, ran: int) -> bool:
    return abs(expected - ran) <= _TOLERANCE * max(expected, ran)
