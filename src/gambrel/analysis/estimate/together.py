"""Ops of one table on several devices: a formula once for all that take the same constants.

Devices stand in rows and ops in columns of the arrays that a formula sees. Where it treats some of
either otherwise than the others, rows or columns are taken apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from gambrel import roofline
from gambrel.analysis.estimate.batches import Batch, Batches
from gambrel.analysis.estimate.constants import EDGES_S
from gambrel.analysis.estimate.estimates import Estimates, Floats
from gambrel.analysis.estimate.estimator import Estimator
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.formula_input import FormulaInput
from gambrel.analysis.estimate.kinship import LEVELS
from gambrel.analysis.estimate.op_traits import traits_of
from gambrel.analysis.estimate.side_by_side import side_by_side
from gambrel.ops.base import MixedError

_LEVELS: Final = {level: place for place, level in enumerate(LEVELS)}


class _Group(NamedTuple):
    """Devices that take the same constants of the same formula for ops that ask alike.

    Attributes:
        devices: Their places.
        asked: What the formula is asked with, but for view and cost of an op.
        sources: Of each device, the place of its ranges.
    """

    devices: list[int]
    asked: FormulaInput
    sources: list[list[int]]


class Together:
    """The estimates of the ops of a table on several devices.

    Args:
        estimators: Of the devices, none of which was measured itself.
        times: Of each device, the roofline time of each op, s; not a number where unknown.
        batches: The ops.
        moved_bytes: Of each op, what it reads and writes; not a number for one that also sends.
        launches: Of each op, the kernels that it is launched as.
    """

    def __init__(
        self,
        estimators: Sequence[Estimator],
        times: Floats,
        batches: Batches,
        moved_bytes: Floats,
        launches: Sequence[float],
    ) -> None:
        self._estimators, self._batches = estimators, batches
        self._bounds = times
        #: The bounds, but for algorithms with less arithmetic than counted.
        self._floors = self._bounds.copy()
        self._seconds, self._launch, self._latency = (np.zeros_like(self._bounds) for _ in range(3))
        #: Kernels that an op of many is launched as; 1 where its estimate holds all of them.
        self._launches = np.ones_like(self._bounds) * np.array(launches, dtype=float)
        self._sources = np.full(self._bounds.shape, -1)
        self._source_of: dict[Any, int] = {}
        self._machines: dict[tuple[int, ...], Chip] = {}
        self._torch = any(one.torch for one in estimators)
        self._asked: dict[Any, list[_Group]] = {}
        self._ranges: list[list[tuple[float, float, int, int]]] = []
        self._cautions: list[tuple[int, float]] = []
        self.found = Estimates(self._bounds)
        everywhere, bounded = range(len(estimators)), ~np.isnan(self._bounds)
        for batch in batches.all:
            for row, devices in _alike(everywhere, bounded[:, batch.members]):
                if row.all():
                    self._add(batch, devices)
                elif row.any():
                    self._add(batches.divide(batch, row)[0], devices)
        if self._ranges:
            self._finish(moved_bytes)

    def _add(self, batch: Batch, devices: Sequence[int]) -> None:
        try:
            groups = self._groups(batch, devices)
        except MixedError as mixed:
            self._apart(batch, devices, mixed.mask)
            return
        for group in groups:
            try:
                self._fill(batch, group)
            except MixedError as mixed:
                self._apart(batch, group.devices, mixed.mask)

    def _groups(self, batch: Batch, devices: Sequence[int]) -> list[_Group]:
        """Devices that take the same constants of the same formula; kept for ops that ask alike."""
        traits, cost = traits_of(batch.view, torch=self._torch), batch.cost
        key = traits, cost.prunable, tuple(cost.work), tuple(devices)
        if key not in self._asked:
            groups: dict[Any, dict[int, FormulaInput]] = defaultdict(dict)
            for d in devices:
                one = self._estimators[d].formula_of(traits, batch.view, cost)
                if one is not None:  # the groups keep rule and constants, and so their ids
                    groups[one.key][d] = one
            self._asked[key] = [self._group(group) for group in groups.values()]
        return self._asked[key]

    def _group(self, group: dict[int, FormulaInput]) -> _Group:
        return _Group(
            devices=list(group),
            asked=side_by_side(list(group.values()), self._machines),
            sources=[[self._source(d, each)] for d, each in group.items()],
        )

    def _fill(self, batch: Batch, group: _Group) -> None:
        at = np.ix_(group.devices, batch.members)
        task = replace(group.asked.task, view=batch.view, cost=batch.cost)
        one = replace(group.asked, task=task)
        made = one.predicted(self._bounds[at])
        self._seconds[at], self._launch[at] = made.seconds, made.launch
        self._latency[at], self._floors[at] = made.latency, made.floor
        self._sources[at] = group.sources
        if one.rule.form == "torch_recurrent":  # steps that wait for each other
            self._launches[at] = 1.0

    def _source(self, device: int, asked: FormulaInput) -> int:
        """The place of the ranges of a formula on a device."""
        chosen, found = asked.chosen, self.found
        key = device, id(chosen), asked.rule.least  # estimators keep what they chose
        if key not in self._source_of:
            self._source_of[key] = len(self._ranges)
            self._ranges.append(
                [
                    (low, high, _LEVELS[level], found.code(reason))
                    for low, high, level, reason in self._estimators[device].ranges(asked)
                ]
            )
            self._cautions.append((found.code(chosen.caution), chosen.caution_from))
        return self._source_of[key]

    def _finish(self, moved_bytes: Floats) -> None:
        """As `Estimator.estimate`, of all at once, with the launches that ops pay in a kernel."""
        rows, bounds, seconds, launch = self.found, self._floors, self._seconds, self._launch
        rows.known = self._sources >= 0
        bins = np.searchsorted(EDGES_S, seconds)
        low, high, level, reason = np.moveaxis(np.array(self._ranges)[self._sources, bins], 2, 0)
        value, more = np.maximum(bounds, seconds), launch * (self._launches - 1)
        low = np.maximum(self._least(moved_bytes), value * low)
        rows.value = np.maximum(bounds, value + more)
        rows.low = np.maximum(np.minimum(bounds, low), low + more)
        rows.high = np.maximum(bounds, value * high + more)
        rows.launches_s, rows.idle_start_s = launch * self._launches, self._latency
        rows.level, rows.reason = level.astype(int), reason.astype(int)
        text, least_share = np.moveaxis(np.array(self._cautions)[self._sources], 2, 0)
        shares = launch / np.where(seconds > 0, seconds, np.inf)
        rows.caution = np.where(shares >= least_share, text, 0).astype(int)

    def _least(self, moved_bytes: Floats) -> Floats:
        """As `Estimator.least`."""
        above = np.array([[one.above] for one in self._estimators])
        rates = np.array([[one.byte_per_s or np.inf] for one in self._estimators])
        moving = roofline.seconds(moved_bytes, rates)
        cut = np.minimum(self._floors, np.maximum(moving, self._floors / above))
        return np.where(np.isnan(moved_bytes), self._floors, cut)

    def _apart(self, batch: Batch, devices: Sequence[int], mask: Any) -> None:
        """Devices that a formula treats alike; of these the ops that it treats alike."""
        parts = _alike(devices, np.broadcast_to(mask, (len(devices), len(batch.members))))
        if len(parts) > 1:
            for _, some in parts:
                self._add(batch, some)
            return
        for half in self._batches.divide(batch, parts[0][0]):
            self._add(half, devices)


def _alike(devices: Sequence[int], rows: Any) -> list[tuple[Any, list[int]]]:
    """Devices with equal rows of a mask, and the row."""
    found: dict[bytes, tuple[Any, list[int]]] = {}
    for d, row in zip(devices, rows, strict=True):
        found.setdefault(row.tobytes(), (row, []))[1].append(d)
    return list(found.values())
