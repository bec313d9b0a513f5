"""What is to be computed, cut into partitions that are the same in every run."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Final, Protocol

from gambrel.engine.tables import DataField, PointTable

#: Most partitions of a run: a task costs a dask scheduler about 1.6 ms.
MOST_PARTITIONS: Final = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Neighbouring points that are computed and written together.

    Attributes:
        index: Its place among all.
        start: First point.
        stop: One behind the last.
        key: What it holds, as a hash: of the question, the version and the points.
    """

    index: int
    start: int
    stop: int
    key: str

    @property
    def points(self) -> int:
        """How many."""
        return self.stop - self.start


class PointWork(Protocol):
    """Points that can be computed range by range, in any order, in any process.

    It is pickled to other processes, so it holds what is asked rather than what was made of it.
    """

    @property
    def points(self) -> int:
        """How many there are."""
        ...

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns."""
        ...

    @property
    def identity(self) -> bytes:
        """All that the values depend on, the version included."""
        ...

    @property
    def partition_points(self) -> int:
        """Points that make a partition of a few seconds."""
        ...

    def evaluate(self, start: int, stop: int) -> PointTable:
        """The columns of the points from ``start`` to ``stop``."""
        ...


def partitions_of(work: PointWork, *more: str) -> tuple[Partition, ...]:
    """All partitions, in order: the same ones for the same question, whoever computes them.

    Args:
        work: What is asked.
        *more: Texts on which the content depends as well, e.g. a filter.
    """
    points = work.points
    size = max(work.partition_points, math.ceil(points / MOST_PARTITIONS), 1)
    base = identity_of(work, *more)
    return tuple(
        _partition(base, index, start, min(start + size, points))
        for index, start in enumerate(range(0, points, size))
    )


def identity_of(work: PointWork, *more: str) -> str:
    """Hash of all that the content of a run depends on."""
    found = hashlib.sha256(work.identity)
    for text in (*(f"{f.name}:{f.kind}:{f.unit}" for f in work.fields), *more):
        found.update(b"\0" + text.encode())
    return found.hexdigest()


def _partition(base: str, index: int, start: int, stop: int) -> Partition:
    key = hashlib.sha256(f"{base}:{start}:{stop}".encode()).hexdigest()[:16]
    return Partition(index=index, start=start, stop=stop, key=key)
