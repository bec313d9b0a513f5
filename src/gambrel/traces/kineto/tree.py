"""Intervals nested by time, thread by thread: which op called which, which range holds what."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

#: Stands for "none".
NONE = -1
#: Intervals that are nested at once as objects, which take ten times the memory of arrays.
_AT_ONCE = 1 << 16


class Nest:
    """Intervals of threads, nested.

    Args:
        keys: Number of the thread, by interval.
        starts: When it begins.
        ends: When it ends.
    """

    def __init__(
        self,
        keys: npt.ArrayLike,
        starts: npt.NDArray[Any],
        ends: npt.NDArray[Any],
    ) -> None:
        self._keys = np.asarray(keys, dtype=np.int64)
        #: Intervals by thread and start, an outer one before those that it holds.
        self.order = np.lexsort((-ends, starts, self._keys))
        self._starts, self._ends = starts, ends

    @cached_property
    def parents(self) -> npt.NDArray[np.int64]:
        """The interval around each; `NONE` for the outermost."""
        found = np.full(len(self.order), NONE, dtype=np.int64)
        stack: list[tuple[float, int]] = []
        thread = None
        for low in range(0, len(self.order), _AT_ONCE):
            rows = self.order[low : low + _AT_ONCE]
            around = [NONE] * len(rows)
            columns = (x[rows].tolist() for x in (self._keys, self._starts, self._ends))
            for i, (row, key, start, end) in enumerate(zip(rows.tolist(), *columns, strict=True)):
                if key != thread:
                    stack, thread = [], key
                while stack and stack[-1][0] <= start:
                    stack.pop()
                if stack:
                    around[i] = stack[-1][1]
                stack.append((end, row))
            found[rows] = around
        return found

    @cached_property
    def _threads(self) -> dict[int, tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]:
        """Starts and intervals of each thread, in order."""
        keys = self._keys[self.order]
        cuts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        return {
            int(keys[low]): (self._starts[self.order[low:high]], self.order[low:high])
            for low, high in pairwise(cuts)
            if high > low
        }

    def around(self, keys: npt.ArrayLike, at: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The innermost interval that holds each time; `NONE` where there is none.

        Args:
            keys: Number of the thread, by time.
            at: Times.
        """
        wanted = np.asarray(keys, dtype=np.int64)
        rows = np.full(len(wanted), NONE, dtype=np.int64)
        for key in np.unique(wanted).tolist():
            if key in self._threads:
                mine = np.flatnonzero(wanted == key)
                starts, order = self._threads[key]
                place = np.searchsorted(starts, at[mine], side="right") - 1
                rows[mine] = np.where(place >= 0, order[np.maximum(place, 0)], NONE)
        left = np.flatnonzero(rows != NONE)
        left = left[self._ends[rows[left]] < at[left]]
        while len(left):
            rows[left] = self.parents[rows[left]]
            left = left[rows[left] != NONE]
            left = left[self._ends[rows[left]] < at[left]]
        return rows


def climb(
    rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_], nest: Nest
) -> npt.NDArray[np.int64]:
    """Goes from each interval outwards to the first that is wanted; `NONE` where none is.

    Args:
        rows: Where to begin; `NONE` stays.
        wanted: By interval.
        nest: Of the intervals; nested only when some row has to go outwards.
    """
    rows = rows.copy()
    left = np.flatnonzero(rows != NONE)
    left = left[~wanted[rows[left]]]
    while len(left):
        rows[left] = nest.parents[rows[left]]
        left = left[rows[left] != NONE]
        left = left[~wanted[rows[left]]]
    return rows
