"""Figures of the items of a table on one of many devices: rows of arrays that read like tuples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gambrel.analysis.measures import Bound

Floats = NDArray[np.float64]
Value = TypeVar("Value")


class _Row(Sequence[Value]):
    """Values one by one, made of an array where somebody asks for them."""

    @cached_property
    def _values(self) -> tuple[Value, ...]:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)


class TimesRow(_Row[float | None]):
    """Seconds of each item; None where unknown.

    Args:
        seconds: The same, not a number where unknown.
    """

    def __init__(self, seconds: Floats) -> None:
        self.seconds = seconds

    @cached_property
    def _values(self) -> tuple[float | None, ...]:
        return tuple([t if t == t else None for t in self.seconds.tolist()])


class LimitsRow(_Row[tuple[str, Bound] | None]):
    """The resource that the time of each item is counted against; None where unknown.

    Args:
        codes: Places among the resources; -1 where unknown.
        resources: Name and class of each.
    """

    def __init__(self, codes: NDArray[np.int64], resources: Sequence[tuple[str, Bound]]) -> None:
        self.codes, self.resources = codes, resources

    @cached_property
    def _values(self) -> tuple[tuple[str, Bound] | None, ...]:
        return tuple([None if c < 0 else self.resources[c] for c in self.codes.tolist()])


def seconds_of(times: Sequence[Any]) -> Floats:
    """Times as an array, not a number where unknown."""
    return times.seconds if isinstance(times, TimesRow) else np.array(times, dtype=float)
