"""Ops of one table on several devices that predict them one after another: a start, then work.

Devices stand in rows and ops in columns. Figures are those of `OpsEstimator.estimate`, to the last
bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from gambrel.analysis.estimate.batches import Batch, Batches
from gambrel.analysis.estimate.constants import Shares
from gambrel.analysis.estimate.estimates import Estimates, Floats
from gambrel.analysis.estimate.kinship import LEVELS
from gambrel.analysis.estimate.shares import Basis, OpsEstimator, together
from gambrel.ops.base import MixedError

_LEVELS: Final = {level: place for place, level in enumerate(LEVELS)}


def _side_by_side(
    estimators: Sequence[OpsEstimator], work: Iterable[tuple[str, str, bool]]
) -> Iterator[tuple[tuple[int, ...], OpsEstimator]]:
    """Rows of devices that one estimator serves, and that estimator."""
    work = tuple(work)
    classes: list[Shares] = []
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, one in enumerate(estimators):
        if one.shares is None or one.rates is None:
            yield (row,), one
            continue
        alike = replace(one.shares, clock=0.0)  # of a device, and among its rates
        if alike not in classes:
            classes.append(alike)
        kind = one.rates.kind(one.shares.lanes_per_byte, work)
        groups[classes.index(alike), one.inputs is None, kind].append(row)
    for rows in groups.values():
        yield tuple(rows), together([estimators[row] for row in rows])


class OpsTogether:
    """The estimates of the ops of a table on several devices.

    Args:
        estimators: Of the devices.
        times: Of each device, the roofline time of each op, s; not a number where unknown.
        batches: The ops.
        work: Class of work, number format and whether it is prunable, of all ops.
        launches: Of each op, the kernels that it is launched as.
    """

    def __init__(
        self,
        estimators: Sequence[OpsEstimator],
        times: Floats,
        batches: Batches,
        work: Iterable[tuple[str, str, bool]],
        launches: Sequence[float],
    ) -> None:
        self._batches = batches
        self.found = Estimates(times)
        self._work = np.zeros_like(self.found.bounds)
        self._basis = np.full(self._work.shape, -1)
        self._bases: list[Basis] = []
        self._place_of: dict[int, int] = {}  # `_bases` keeps them, and so their ids
        for rows, estimator in _side_by_side(estimators, work):
            for batch in batches.all:
                self._add(rows, batch, estimator)
        if self._bases:
            self._finish(np.array(launches, dtype=float))

    def _add(self, rows: tuple[int, ...], batch: Batch, estimator: OpsEstimator) -> None:
        try:
            known = estimator.work(batch.view, batch.cost)
        except MixedError as mixed:
            for half in self._batches.divide(batch, mixed.mask):
                self._add(rows, half, estimator)
            return
        if known is None:
            return
        work, basis = known
        at = np.ix_(rows, batch.members)
        self._work[at] = work
        self._basis[at] = self._place(basis)

    def _place(self, basis: Basis) -> int:
        if id(basis) not in self._place_of:
            self._place_of[id(basis)] = len(self._bases)
            self._bases.append(basis)
        return self._place_of[id(basis)]

    def _finish(self, launches: Any) -> None:
        """The start, the range and the launches that ops pay in a kernel."""
        rows, bases = self.found, self._bases
        rows.known = self._basis >= 0
        bound = np.where(np.isnan(rows.bounds), 0.0, rows.bounds)
        numbers = np.array([(b.start_s, b.low, b.high) for b in bases])[self._basis]
        start, low, high = np.moveaxis(numbers, 2, 0)
        value = np.maximum(start + self._work, bound)
        launch = np.minimum(start, value)
        low, high = np.maximum(bound, value * low), value * high
        change, several = launch * (launches - 1), launches != 1
        per_second = np.where(value > 0, value, 1.0)
        more_low, more_high = (
            np.where(value > 0, change * end / per_second, change) for end in (low, high)
        )
        rows.value = np.where(several, np.maximum(bound, value + change), value)
        rows.low = np.where(several, np.maximum(np.minimum(bound, low), low + more_low), low)
        rows.high = np.where(several, np.maximum(bound, high + more_high), high)
        rows.launches_s = np.where(several, launch * launches, launch)
        words = np.array([(_LEVELS[b.confidence], rows.code(b.why)) for b in bases])[self._basis]
        rows.level, rows.reason = np.moveaxis(words, 2, 0)
