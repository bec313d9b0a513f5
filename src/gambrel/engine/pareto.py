"""Fronts: the points that no other point beats in every objective.

A front can be gathered: the front of several tables is the front of their fronts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from gambrel.engine.tables import PointTable, Words, take

#: Objectives up to which one pass over the sorted rows finds the front.
_SWEPT: Final = 3
#: Rows that are tried first on all others.
_GOOD: Final = 8
#: Flag of the rows that can run; a row that needs more memory than there is stands on no front.
_POSSIBLE: Final = "fits"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One thing to make small, or large.

    Attributes:
        column: Of the table.
        largest: Whether more is better.
    """

    column: str
    largest: bool = False


def front(table: PointTable, objectives: Sequence[Objective], apart: str = "") -> PointTable:
    """The rows that no other row of the same group is at least as good as in all and better in one.

    Rows with an unknown objective, and those that do not fit, are left out. Equal rows all stay.

    Args:
        table: Points.
        objectives: What counts.
        apart: Column of texts whose values are groups; empty for one group.
    """
    values = np.stack([_costs(table, one) for one in objectives], axis=1)
    known = np.isfinite(values).all(axis=1)
    fits = table.get(_POSSIBLE)
    if isinstance(fits, np.ndarray):
        known &= fits != 0
    groups = table.get(apart)
    codes = groups.codes if isinstance(groups, Words) else np.zeros(len(values), np.int32)
    kept = np.zeros(len(values), dtype=bool)
    for code in np.unique(codes[known]):
        own = np.flatnonzero(known & (codes == code))
        kept[own[nondominated(values[own])]] = True
    return take(table, np.flatnonzero(kept))


def _costs(table: PointTable, objective: Objective) -> NDArray[np.float64]:
    values = np.asarray(table[objective.column], dtype=np.float64)
    return -values if objective.largest else values


def nondominated(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of the rows of costs that no other row dominates; equal rows all stay."""
    order = np.lexsort(costs.T[::-1])
    order = order[_beside_the_best(costs[order])]
    if costs.shape[1] <= _SWEPT:
        return np.sort(order[_swept(costs[order])])
    left, places = costs[order], order
    kept = []
    while len(left):
        # The first row in lexicographic order is dominated by none of the rest.
        first = left[0]
        same = (left == first).all(axis=1)
        kept.append(places[same])
        open_ = (left < first).any(axis=1)
        left, places = left[open_], places[open_]
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, dtype=np.int64)


def least(records: Iterable[T], costs: Callable[[T], tuple[float, ...]]) -> tuple[T, ...]:
    """The records that no other beats, by cost; of records with equal costs the first.

    Args:
        records: Any.
        costs: What is to be small, of one record.
    """
    first: dict[tuple[float, ...], T] = {}
    for record in records:
        first.setdefault(costs(record), record)
    keys = sorted(first)
    if not keys:
        return ()
    return tuple(first[keys[i]] for i in nondominated(np.array(keys, dtype=np.float64)))


def _beside_the_best(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that none of a few good ones dominates: most rows of a sweep are far from the front."""
    kept = np.ones(len(costs), dtype=bool)
    if len(costs) <= _GOOD:
        return kept
    ranks = np.argsort(np.argsort(costs, axis=0, kind="stable"), axis=0, kind="stable")
    for place in np.argpartition(ranks.sum(axis=1), _GOOD)[:_GOOD]:
        good = costs[place]
        kept &= (costs < good).any(axis=1) | (costs == good).all(axis=1)
    return kept


def _swept(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of at most three objectives, the rows in lexicographic order that nothing dominates.

    Rows before a row are no worse in the first objective, so it is dominated where one of them is
    no worse in the other two. Of those a staircase is kept: rising in the second objective, falling
    in the third.
    """
    padded = np.zeros((len(costs), _SWEPT))
    padded[:, : costs.shape[1]] = costs
    kept = np.zeros(len(costs), dtype=bool)
    seconds: list[float] = []
    thirds: list[float] = []
    last: list[float] = []
    for row, (first, second, third) in enumerate(padded.tolist()):
        if [first, second, third] == last:
            kept[row] = True
            continue
        at = bisect_right(seconds, second)
        if at and thirds[at - 1] <= third:
            continue
        kept[row] = True
        last = [first, second, third]
        start = bisect_left(seconds, second)
        end = at
        while end < len(seconds) and thirds[end] >= third:
            end += 1
        seconds[start:end], thirds[start:end] = [second], [third]
    return kept
