"""Which op of one run is which of another: by name, and by order among equal names."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import msgspec

from gambrel.measure.runs.load import Run, RunPoint
from gambrel.views import Viewed


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """An op in both runs, or in one of them."""

    first: RunPoint | None
    second: RunPoint | None

    @property
    def name(self) -> str:
        """Of either."""
        point = self.second or self.first
        return point.name if point else ""

    @property
    def change_s(self) -> float:
        """Seconds that the second run takes more for it; an op that is not there takes none."""
        return _seconds(self.second) - _seconds(self.first)

    @property
    def ratio(self) -> float | None:
        """Second / first time; None where one is unknown or missing."""
        first, second = _seconds(self.first), _seconds(self.second)
        return second / first if first and second else None


class Pairing(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Two runs, op by op.

    Attributes:
        first: One run.
        second: The other.
        pairs: Ops of both in the order of the second, then those of the first alone.
        warnings: What makes the two hard to compare.
    """

    first: Run
    second: Run
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Second / first time of the whole."""
        if not self.first.total_s or not self.second.total_s:
            return None
        return self.second.total_s / self.first.total_s

    def ranked(self) -> list[Pair]:
        """The largest changes of time first."""
        return sorted(self.pairs, key=lambda p: -abs(p.change_s))


def pair(first: Run, second: Run) -> Pairing:
    """Sets two runs side by side."""
    waiting: dict[str, deque[RunPoint]] = defaultdict(deque)
    for point in first.points:
        waiting[point.name].append(point)
    pairs = [
        Pair(first=waiting[p.name].popleft() if waiting[p.name] else None, second=p)
        for p in second.points
    ]
    pairs += [Pair(first=p, second=None) for rest in waiting.values() for p in rest]
    return Pairing(
        first=first,
        second=second,
        pairs=tuple(pairs),
        warnings=tuple(_warnings(first, second, pairs)),
    )


def _warnings(first: Run, second: Run, pairs: Sequence[Pair]) -> list[str]:
    said = []
    if first.times != second.times:
        said.append(
            f"the times of {first.label} are {first.times} and those of {second.label} "
            f"{second.times}: the difference is not that of the runs alone."
        )
    if first.hardware != second.hardware:
        said.append(
            f"{first.label} is on {first.hardware.name} and {second.label} on "
            f"{second.hardware.name}, or their peaks were measured apart; the roofs drawn are "
            "those of the second."
        )
    both = sum(p.first is not None and p.second is not None for p in pairs)
    if pairs and both < len(pairs) / 2:
        said.append(
            f"only {both} of {len(pairs)} ops have the same name in both runs; compare the whole."
        )
    return said


def _seconds(point: RunPoint | None) -> float:
    return point.time_s or 0.0 if point else 0.0
