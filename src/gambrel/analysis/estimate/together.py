"""Ops of one table on several devices: a formula once for all that take the same constants.

Devices stand in rows and ops in columns of the arrays that a formula sees. Where it treats some of
either otherwise than the others, rows or columns are taken apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gambrel import roofline
from gambrel.analysis.estimate.asked import Asked
from gambrel.analysis.estimate.batches import Batch, Batches
from gambrel.analysis.estimate.constants import EDGES_S
from gambrel.analysis.estimate.estimates import Estimates, Floats
from gambrel.analysis.estimate.estimator import Estimator
from gambrel.analysis.estimate.kinship import LEVELS
from gambrel.analysis.estimate.side_by_side import side_by_side
from gambrel.ops import Cost
from gambrel.ops.base import MixedError, is_zero

_LEVELS: Final = {level: place for place, level in enumerate(LEVELS)}


class Together:
    """The estimates of the ops of a table on several devices.

    Args:
        estimators: Of the devices, none of which was measured itself.
        times: Of each device, the roofline time of each op, s; None where unknown.
        batches: The ops.
        launches: Of each op, the kernels that it is launched as.
    """

    def __init__(
        self,
        estimators: Sequence[Estimator],
        times: Sequence[Sequence[float | None]],
        batches: Batches,
        launches: Sequence[float],
    ) -> None:
        self._estimators, self._batches = estimators, batches
        self._launches = np.array(launches, dtype=float)
        self._above = np.array([[one.above] for one in estimators])
        self._rates = np.array([[one.byte_per_s] for one in estimators], dtype=float)
        self._known_ranges: dict[Any, list[tuple[float, float, int, int]]] = {}
        self.found = Estimates(np.array(times, dtype=float))
        bounded = ~np.isnan(self.found.bounds)
        for batch in batches.all:
            known = np.flatnonzero(bounded[:, batch.members].all(axis=1))
            self._add(batch, known.tolist())

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
                self._apart(batch, list(group), mixed.mask)

    def _groups(self, batch: Batch, devices: Sequence[int]) -> list[dict[int, Asked]]:
        """Devices that take the same constants of the same formula."""
        groups: dict[Any, dict[int, Asked]] = defaultdict(dict)
        for d in devices:
            one = self._estimators[d].asked(batch.view, batch.cost)
            if one is not None:  # the groups keep rule and constants, and so their ids
                groups[one.key][d] = one
        return list(groups.values())

    def _fill(self, batch: Batch, group: dict[int, Asked]) -> None:
        """As `Estimator.estimate`, of all at once, with the launches that ops pay in a kernel."""
        at, rows = np.ix_(list(group), batch.members), self.found
        bounds, one = rows.bounds[at], side_by_side(list(group.values()))
        made = one.predicted(bounds)
        ranges = np.array([self._ranges(d, each) for d, each in group.items()])
        bins = np.broadcast_to(np.searchsorted(EDGES_S, made.seconds), bounds.shape)
        low, high, level, reason = np.moveaxis(ranges[np.arange(len(ranges))[:, None], bins], 2, 0)
        least = self._least(batch.cost, bounds, list(group))
        value = np.maximum(bounds, made.seconds)
        # Steps that wait for each other hold all their launches already.
        times = self._launches[list(batch.members)] if one.rule.form != "torch_recurrent" else 1.0
        more, low = made.launch * (times - 1), np.maximum(least, value * low)
        rows.known[at] = True
        rows.value[at] = np.maximum(bounds, value + more)
        rows.low[at] = np.maximum(np.minimum(bounds, low), low + more)
        rows.high[at] = np.maximum(bounds, value * high + more)
        rows.launches_s[at] = made.launch * times
        rows.idle_start_s[at] = made.latency
        rows.level[at], rows.reason[at] = level, reason
        if any(each.chosen.caution for each in group.values()):
            share = made.launch / np.where(made.seconds > 0, made.seconds, np.inf)
            self._warn(batch, group, np.broadcast_to(share, bounds.shape))

    def _ranges(self, device: int, asked: Asked) -> list[tuple[float, float, int, int]]:
        """Of each bin of times the factors, and the places of confidence and reason."""
        key = device, id(asked.chosen), asked.rule.least  # estimators keep what they chose
        if key not in self._known_ranges:
            self._known_ranges[key] = [
                (low, high, _LEVELS[level], self.found.code(reason))
                for low, high, level, reason in self._estimators[device].ranges(asked)
            ]
        return self._known_ranges[key]

    def _least(self, cost: Cost, bounds: Floats, group: list[int]) -> Any:
        """As `Estimator.least`."""
        if (self._above[group] == 1).all() or not is_zero(cost.link_bytes + cost.network_bytes):
            return bounds
        moving = roofline.seconds(cost.read_bytes + cost.write_bytes, self._rates[group])
        return np.minimum(bounds, np.maximum(moving, bounds / self._above[group]))

    def _warn(self, batch: Batch, group: dict[int, Asked], launch_shares: Floats) -> None:
        """As `Chosen.caution_for`."""
        for (d, each), shares in zip(group.items(), launch_shares, strict=True):
            text = self.found.code(each.chosen.caution)
            warned = np.where(shares >= each.chosen.caution_from, text, 0)
            self.found.caution[d, batch.members] = warned

    def _apart(self, batch: Batch, devices: Sequence[int], mask: Any) -> None:
        """Devices that a formula treats alike; of these the ops that it treats alike."""
        rows = np.broadcast_to(mask, (len(devices), len(batch.members)))
        alike: dict[bytes, list[int]] = defaultdict(list)
        for d, row in zip(devices, rows, strict=True):
            alike[row.tobytes()].append(d)
        if len(alike) > 1:
            for some in alike.values():
                self._add(batch, some)
            return
        for half in self._batches.divide(batch, rows[0]):
            self._add(half, devices)
