"""All combinations of the values of some axes, in one fixed order; the last axis runs fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gambrel.errors import InputError

#: More points than this are a slip of the pen: at 1e5 points per second, a day of one core is 1e10.
MOST_POINTS = 10**11


@dataclass(frozen=True, slots=True, kw_only=True)
class GridAxis:
    """One thing that varies.

    Attributes:
        name: Of the axis.
        values: All that it takes.
    """

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PointGrid:
    """The combinations of some axes.

    Attributes:
        axes: The last one runs fastest.
    """

    axes: tuple[GridAxis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def places(self, start: int, stop: int) -> dict[str, NDArray[np.int64]]:
        """Of the points from ``start`` to ``stop``, the place of the value on each axis."""
        rest = np.arange(start, stop, dtype=np.int64)
        found = {}
        for axis in reversed(self.axes):
            rest, found[axis.name] = np.divmod(rest, len(axis.values))
        return dict(reversed(found.items()))

    def point(self, index: int) -> dict[str, Any]:
        """The values at one point."""
        found = {}
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            found[axis.name] = axis.values[place]
        return dict(reversed(found.items()))


def check_count(axes: Sequence[tuple[str, int]]) -> int:
    """The number of points of some axes.

    Raises:
        InputError: More than `MOST_POINTS`.
    """
    count = math.prod(n for _, n in axes)
    if count > MOST_POINTS:
        listed = " x ".join(f"{n:,} {name}" for name, n in axes if n > 1)
        raise InputError(
            f"{listed} makes {count:,} points, more than {MOST_POINTS:,}; use fewer values, e.g. "
            "1:1024:x2 instead of 1:1024."
        )
    return count
