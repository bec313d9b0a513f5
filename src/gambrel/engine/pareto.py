"""Fronts: the points that no other point beats in every objective.

A front can be gathered: the front of several tables is the front of their fronts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gambrel.engine.tables import PointTable, Words, take


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

    Rows with an unknown objective are left out. Equal rows all stay.

    Args:
        table: Points.
        objectives: What counts.
        apart: Column of texts whose values are groups; empty for one group.
    """
    values = np.stack([_costs(table, one) for one in objectives], axis=1)
    known = np.isfinite(values).all(axis=1)
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
