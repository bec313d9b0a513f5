"""The work and traffic of a cost table as arrays over its items, to be held against many devices.

A device then costs a division for each kind of work instead of one for each op. Figures are those
of the items one by one, to the last bit: sums run in the order of the items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.analysis.measures import Bound
from gambrel.device.roofs import NETWORK

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable, Item
    from gambrel.analysis.roofs import Roofs

Floats = NDArray[np.float64]
#: Name and class of a resource → seconds that each item keeps it busy.
BusyArrays = dict[tuple[str, Bound], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """A table as arrays, one value for each item.

    Attributes:
        work: (class of work, number format, prunable) → FLOP.
        moved_bytes: Read and written.
        link_bytes: Over the link to peers.
        network_bytes: Over the network.
        prefetched_bytes: Of the bytes read, those that are loaded ahead.
        counts: Executions.
        kernels: A row for each shared kernel: its items, then fillers that point behind the last.
    """

    work: dict[tuple[str, str, bool], Floats]
    moved_bytes: Floats
    link_bytes: Floats
    network_bytes: Floats
    prefetched_bytes: Floats
    counts: Floats
    kernels: NDArray[np.int64]

    def busy(self, roofs: Roofs) -> BusyArrays:
        """Seconds that one execution of each item keeps each resource busy, compute first."""
        found: BusyArrays = {}
        for key, flops in self.work.items():
            if (roof := roofs.least_time_roof(*key)) is not None:
                _add(found, (roof[0], Bound.COMPUTE), flops, roof[1])
        moves = (
            ((roofs.memory, roofs.memory_bound), self.moved_bytes, roofs.memory_byte_per_s),
            ((roofs.link, Bound.NETWORK), self.link_bytes, roofs.link_byte_per_s),
            ((NETWORK, Bound.NETWORK), self.network_bytes, roofs.network_byte_per_s),
        )
        for resource, nbytes, rate in moves:
            if rate is not None and nbytes.any():
                _add(found, resource, nbytes, rate)
        return found

    def ahead(self, roofs: Roofs) -> Floats:
        """Seconds that the memory spends on each item before its kernel starts."""
        assert roofs.memory_byte_per_s is not None  # who asks has seen the memory busy
        return np.asarray(roofline.seconds(self.prefetched_bytes, roofs.memory_byte_per_s))


def table_columns(table: CostTable) -> TableColumns:
    """The arrays of a table at one point."""
    items = table.items

    def column(values: Any) -> Floats:
        return np.array([0 if item.host else values(item) for item in items], dtype=float)

    keys = dict.fromkeys(
        (engine, dtype, item.cost.prunable)
        for item in items
        if not item.host
        for engine, dtype in item.cost.work
    )

    def work(item: Item, engine: Any, dtype: str, prunable: bool) -> Any:
        return item.cost.work.get((engine, dtype), 0) if item.cost.prunable == prunable else 0

    longest = max(map(len, table.kernels), default=0)
    rows = [(*members, *[len(items)] * (longest - len(members))) for members in table.kernels]
    return TableColumns(
        work={
            (e.value, d, p): column(lambda item, e=e, d=d, p=p: work(item, e, d, p))
            for e, d, p in keys
        },
        moved_bytes=column(lambda item: item.cost.read_bytes + item.cost.write_bytes),
        link_bytes=column(lambda item: item.cost.link_bytes),
        network_bytes=column(lambda item: item.cost.network_bytes),
        prefetched_bytes=column(lambda item: item.prefetched_bytes),
        counts=np.array([item.count for item in items], dtype=float),
        kernels=np.array(rows, dtype=np.int64).reshape(len(rows), longest),
    )


def slowest_of(
    busy: BusyArrays, kernels: NDArray[np.int64]
) -> tuple[list[float | None], list[tuple[str, Bound] | None]]:
    """The time of the slowest resource of each item, and which it is; None where none is known.

    Items of one kernel overlap: each counts with its part of the kernel's slowest resource.

    Args:
        busy: Resource → seconds of each item, compute first; negative where an item needs none.
        kernels: Items of each shared kernel.
    """
    resources = list(busy)
    seconds = np.stack(list(busy.values()))
    which = seconds.argmax(axis=0)
    times = seconds[which, np.arange(seconds.shape[1])]
    if len(kernels):
        padded = np.concatenate([seconds, np.full((len(resources), 1), -1.0)], axis=1)
        parts = padded[:, kernels]
        # A running sum adds in the order of the items, as one adds them one by one.
        whole = np.where((parts >= 0).any(axis=2), parts.clip(0.0).cumsum(axis=2)[:, :, -1], -1.0)
        limit = whole.argmax(axis=0)
        rows, columns = np.nonzero((kernels < len(times)) & (whole.max(axis=0) >= 0)[:, None])
        items = kernels[rows, columns]
        which[items] = limit[rows]
        times[items] = seconds[limit[rows], items].clip(0.0)
    return (
        [None if t < 0 else t for t in times.tolist()],
        [None if t < 0 else resources[w] for t, w in zip(times.tolist(), which, strict=True)],
    )


def _add(found: BusyArrays, resource: tuple[str, Bound], work: Floats, rate: float) -> None:
    seconds = np.asarray(roofline.seconds(work, rate))
    found[resource] = found[resource] + seconds if resource in found else seconds
