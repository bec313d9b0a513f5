"""The work and traffic of a cost table as arrays over its items, to be held against many devices.

A device then costs a division for each kind of work instead of one for each op. Figures are those
of the items one by one, to the last bit: sums run in the order of the items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.analysis.measures import Bound
from gambrel.device.roofs import NETWORK

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable
    from gambrel.analysis.roofs import Roofs

Floats = NDArray[np.float64]
#: Name and class of a resource → seconds that each item keeps it busy, a row for each device.
BusyArrays = dict[tuple[str, Bound], Floats]
#: What there is to serve, and name and class of what serves it → its rate.
Rates = dict[tuple[Any, str, Bound], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """A table as arrays, one value for each item.

    Attributes:
        work: (class of work, number format, prunable) → FLOP.
        moved_bytes: Read and written.
        link_bytes: Over the link to peers.
        network_bytes: Over the network.
        prefetched_bytes: Of the bytes read, those that are loaded ahead.
        on_host: Whether the compiler leaves it to the host.
        counts: Executions.
        kernels: A row for each shared kernel: its items, then fillers that point behind the last.
    """

    work: dict[tuple[str, str, bool], Floats]
    moved_bytes: Floats
    link_bytes: Floats
    network_bytes: Floats
    prefetched_bytes: Floats
    on_host: NDArray[np.bool_]
    counts: Floats
    kernels: NDArray[np.int64]

    def rates(self, roofs: Roofs) -> Rates:
        """What serves each kind of work on a device, and how fast, compute first."""
        found: Rates = {}
        for key in self.work:
            if (roof := roofs.least_time_roof(*key)) is not None:
                found[key, roof[0], Bound.COMPUTE] = roof[1]
        moves = (
            ("moved_bytes", roofs.memory, roofs.memory_bound, roofs.memory_byte_per_s),
            ("link_bytes", roofs.link, Bound.NETWORK, roofs.link_byte_per_s),
            ("network_bytes", NETWORK, Bound.NETWORK, roofs.network_byte_per_s),
        )
        for what, resource, bound, rate in moves:
            if rate is not None and getattr(self, what).any():
                found[what, resource, bound] = rate
        return found

    def busy(self, rates: Sequence[Rates]) -> BusyArrays:
        """Seconds that one execution of each item keeps each resource busy: a row for each device.

        Args:
            rates: Of each device, for the same work.
        """
        found: BusyArrays = {}
        for key in rates[0]:
            what, name, bound = key
            work = getattr(self, what) if isinstance(what, str) else self.work[what]
            rate = np.array([one[key] for one in rates])[:, None]
            seconds = np.asarray(roofline.seconds(work, rate))
            before = found.get((name, bound))
            found[name, bound] = seconds if before is None else before + seconds
        return found

    def ahead(self, roofs: Sequence[Roofs]) -> Floats:
        """Seconds that the memory spends on each item before its kernel starts, on each device."""
        rates = np.array([one.memory_byte_per_s for one in roofs], dtype=float)[:, None]
        return np.asarray(roofline.seconds(self.prefetched_bytes, rates))

    def run_of(self, times: Floats) -> Floats:
        """Seconds of the run on each device, from those of its items; negative ones are unknown."""
        return np.asarray((times.clip(0.0) * self.counts).cumsum(axis=1)[:, -1])

    def wait_for_weights(
        self, times: Floats, limits: NDArray[np.int64], loading: Floats, memory: int
    ) -> None:
        """Where loading all bytes takes longer than the kernels, those with weights wait for them.

        Args:
            times: Of each item on each device, s; changed.
            limits: Places of the resources that decide them; changed.
            loading: Seconds in which each device loads all bytes.
            memory: Place of the memory.
        """
        running = self.run_of(times)[:, None]
        whole = (self.prefetched_bytes * self.counts).cumsum()[-1]
        waiting = (loading > running) & ~self.on_host
        wait = (loading - running) * self.prefetched_bytes / whole
        alone = times.clip(0.0)
        times[...] = np.where(waiting, alone + wait, times)
        limits[waiting & (wait > alone)] = memory


def table_columns(table: CostTable) -> TableColumns:
    """The arrays of a table at one point."""
    items = table.items
    costs = [None if item.host else item.cost for item in items]
    keys = dict.fromkeys((*key, c.prunable) for c in costs if c is not None for key in c.work)

    def column(values: Iterable[Any]) -> Floats:
        return np.array(list(values), dtype=float)

    def work(key: tuple[Any, str], prunable: bool) -> Floats:
        return column(
            0 if c is None or c.prunable != prunable else c.work.get(key, 0) for c in costs
        )

    longest = max(map(len, table.kernels), default=0)
    rows = [(*members, *[len(items)] * (longest - len(members))) for members in table.kernels]
    return TableColumns(
        work={(e.value, d, p): work((e, d), p) for e, d, p in keys},
        moved_bytes=column(0 if c is None else c.read_bytes + c.write_bytes for c in costs),
        link_bytes=column(0 if c is None else c.link_bytes for c in costs),
        network_bytes=column(0 if c is None else c.network_bytes for c in costs),
        prefetched_bytes=column(0 if item.host else item.prefetched_bytes for item in items),
        on_host=np.array([item.host for item in items], dtype=bool),
        counts=column(item.count for item in items),
        kernels=np.array(rows, dtype=np.int64).reshape(len(rows), longest),
    )


def slowest_of(busy: BusyArrays, kernels: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """The time of the slowest resource of each item on each device, and the place of that one.

    Times are negative where none is known. Items of one kernel overlap: each counts with its part
    of the kernel's slowest resource.

    Args:
        busy: Resource → seconds of each item on each device, compute first; negative where an item
            needs none.
        kernels: Items of each shared kernel.
    """
    seconds = np.stack(list(busy.values()))
    which = seconds.argmax(axis=0)
    times = np.take_along_axis(seconds, which[None], axis=0)[0]
    if not len(kernels):
        return times, which
    padded = np.pad(seconds, ((0, 0), (0, 0), (0, 1)), constant_values=-1.0)
    parts = padded[:, :, kernels]
    # A running sum adds in the order of the items, as one adds them one by one.
    whole = np.where((parts >= 0).any(axis=3), parts.clip(0.0).cumsum(axis=3)[..., -1], -1.0)
    limit = whole.argmax(axis=0)
    rows, columns = np.nonzero(kernels < seconds.shape[2])
    items = kernels[rows, columns]
    own = seconds.clip(0.0)[:, :, items]
    share = np.take_along_axis(own, limit[:, rows][None], axis=0)[0]
    known = (whole.max(axis=0) >= 0)[:, rows]
    which[:, items] = np.where(known, limit[:, rows], which[:, items])
    times[:, items] = np.where(known, share, times[:, items])
    return times, which
