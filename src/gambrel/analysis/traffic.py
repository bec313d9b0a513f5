"""Traffic beyond the single op: what an ideal fusion would leave, and what crosses a host link."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from msgspec.structs import replace

from gambrel.dtypes import STORED_WEIGHT
from gambrel.ops import Cost, OpView, TensorView
from gambrel.ops.base import Size, as_read, distinct_bytes, minimum, total
from gambrel.roofline import maximum
from gambrel.workload import PERSISTENT, Role, Workload


class IdealTraffic:
    """Bytes that must cross DRAM even if every intermediate stayed on chip.

    Weights, caches and states once (only the touched part: looked-up rows, chosen experts), model
    inputs read once, outputs written once. Feed it every op, then ask for the sum.
    """

    def __init__(self, workload: Workload) -> None:
        tensors = workload.tensors
        persistent = {t.storage for t in tensors if t.role in PERSISTENT}
        self._read_once = persistent | {t.storage for t in tensors if t.role is Role.INPUT}
        self._written_once = persistent | {tensors[i].storage for i in workload.outputs}
        self._copies = {t.storage: t.copies for t in tensors if t.copies != 1}
        self._read: dict[int, Size] = defaultdict(int)
        self._written: dict[int, Size] = defaultdict(int)

    def see(self, view: OpView, cost: Cost) -> Size:
        """Takes in one op.

        Returns:
            The bytes that it is the first to touch, all copies of repeated layers.

        An op that touches only a part of its inputs (``cost.read_bytes`` below their sum) is taken
        to read whole what other ops made and the same share of everything else, unless the cost
        says which part of which.
        """
        read = cost.read_bytes if cost.least_read_bytes is None else cost.least_read_bytes
        return self._mark(
            as_read(view.inputs, cost), read, self._read_once, self._read
        ) + self._mark(view.outputs, cost.write_bytes, self._written_once, self._written)

    def _mark(
        self, tensors: tuple[TensorView, ...], touched: Size, kept: set[int], into: dict[int, Size]
    ) -> Size:
        own = tuple([t for t in tensors if t.storage in kept])
        if not own:
            return 0
        by_storage: dict[int, list[TensorView]] = defaultdict(list)
        for t in own:
            by_storage[t.storage].append(t)
        nbytes = {storage: distinct_bytes(tuple(views)) for storage, views in by_storage.items()}
        new: Size = 0
        outside = distinct_bytes(tuple([t for t in tensors if t.storage not in kept]))
        share = _share(maximum(touched - outside, 0), total(nbytes.values()))
        for storage, views in by_storage.items():
            before = into[storage]
            into[storage] = maximum(before, nbytes[storage] * share)
            stored = STORED_WEIGHT.get(views[0].dtype, 1) if views[0].role == Role.WEIGHT else 1
            new = new + (into[storage] - before) * stored * self._copies.get(storage, 1)
        return new


class OffChip:
    """Traffic of a device whose only known roof off the engine is its host link.

    Model inputs and outputs cross the link; of the weights, the share beyond the on-chip capacity
    is streamed in whenever it is used.

    Args:
        workload: The model.
        weights_bytes: Of all weights.
        capacity_bytes: On-chip memory; None counts every weight as streamed.
    """

    def __init__(self, workload: Workload, weights_bytes: int, capacity_bytes: int | None) -> None:
        resident = min(weights_bytes, capacity_bytes or 0)
        self._streamed = 1 - resident / weights_bytes if weights_bytes else 0.0
        self._outputs = {workload.tensors[i].storage for i in workload.outputs}

    def __call__(self, view: OpView, cost: Cost) -> Cost:
        """The same work, with the bytes that cross the link in place of the eager traffic."""
        weights = tuple(t for t in view.inputs if t.role in {Role.WEIGHT, Role.BUFFER})
        inputs = tuple(t for t in view.inputs if t.role == Role.INPUT)
        outputs = tuple(t for t in view.outputs if t.storage in self._outputs)
        streamed = round(distinct_bytes(weights) * self._streamed)  # the same at every batch
        read = streamed + distinct_bytes(inputs)
        return replace(
            cost, read_bytes=minimum(read, cost.read_bytes), write_bytes=distinct_bytes(outputs)
        )


def _share(part: Size, whole: Size) -> Any:
    if isinstance(whole, (int, float)):
        return minimum(1.0, part / whole) if whole else 0.0
    import numpy as np

    ratio = np.divide(part, whole, out=np.zeros_like(part + whole, dtype=float), where=whole > 0)
    return np.minimum(1.0, ratio)
