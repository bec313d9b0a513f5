"""The evaluator: a cost table held against the roofs of a device.

Everything that shows a time under a runtime is a view of this: the analysis with its table of ops,
sweeps (every value an array of one number per point), comparisons over a catalog, serving steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gambrel import roofline
from gambrel.analysis.costs import CostTable, Item
from gambrel.analysis.measures import Bound
from gambrel.analysis.roofs import Roofs
from gambrel.device.roofs import NETWORK
from gambrel.ops import Cost
from gambrel.ops.base import Engine, Size, total, where

if TYPE_CHECKING:
    from gambrel.analysis.columns import Rates

#: Name and class of a resource.
Resource: TypeAlias = tuple[str, Bound]
#: Resource → seconds that it is busy.
Busy: TypeAlias = dict[Resource, Size]


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A cost table under the roofs of a device, before expected times.

    Attributes:
        busy: Of each item, one execution; empty where many devices are asked for the same table.
        times: Roofline time of each item, one execution, s: in a kernel its part of what keeps the
            kernel's slowest resource busy; None where no roof is known.
        limits: Of each item the resource that its time is counted against; None over arrays, where
            it differs from point to point.
        total_busy: Of each resource, the whole run.
        time_s: Roofline time of the whole; None where no roof is known.
    """

    busy: tuple[Busy, ...]
    times: Sequence[Size | None]
    limits: Sequence[Resource | None]
    total_busy: Busy
    time_s: Size | None

    def no_faster_than(self, sol_time_s: Size | None) -> Evaluation:
        """The same with the whole at the speed of light at least.

        A kernel that is the whole model may have work on two engines at once that the speed of
        light adds up on one (matmuls in fp32 beside others in 16 bits).
        """
        if sol_time_s is None or self.time_s is None or _is_zero(self.time_s):
            return self
        whole = roofline.maximum(self.time_s, sol_time_s)
        longer = whole / self.time_s
        times = tuple(None if t is None else t * longer for t in self.times)
        return msgspec.structs.replace(self, time_s=whole, times=times)


def evaluate_table(table: CostTable, roofs: Roofs) -> Evaluation:
    """Holds a cost table against the roofs of a device.

    Args:
        table: Of the workload under the runtime.
        roofs: Of the device.
    """
    if table.bulk:
        return evaluate_table_on(table, [roofs])[0]
    busy = tuple({} if item.host else busy_of(item.cost, roofs) for item in table.items)
    pooled = not all(_is_zero(item.prefetched_bytes) for item in table.items)
    own = busy
    if pooled:
        pairs = zip(busy, table.items, strict=True)
        own = tuple(_without_prefetched(found, item, roofs) for found, item in pairs)
    alone = [_bound(found) for found in own]
    times = [time_s for time_s, _ in alone]
    limits = [limit for _, limit in alone]
    for members in table.kernels:
        _share_kernel(members, own, times, limits)
    total_busy: Busy = {}
    for found, item in zip(busy, table.items, strict=True):
        for resource, seconds in found.items():
            total_busy[resource] = total_busy.get(resource, 0.0) + seconds * item.count
    if pooled:
        _wait_for_weights(times, limits, table, total_busy, roofs)
    return _evaluation(table, busy, times, limits, total_busy)


def evaluate_table_on(table: CostTable, roofs: Sequence[Roofs]) -> list[Evaluation]:
    """As `evaluate_table`, of all items on many devices at once.

    Args:
        table: Of the workload, made for many devices.
        roofs: Of each device.
    """
    alike: dict[Any, dict[int, Rates]] = defaultdict(dict)
    for i, one in enumerate(roofs):
        rates = table.columns.rates(one)
        alike[tuple(rates)][i] = rates
    found: dict[int, Evaluation] = {}
    for each in alike.values():
        some = [roofs[i] for i in each]
        found |= zip(each, _evaluate_columns(table, some, list(each.values())), strict=True)
    return [found[i] for i in range(len(roofs))]


def _evaluate_columns(
    table: CostTable, roofs: Sequence[Roofs], rates: Sequence[Rates]
) -> list[Evaluation]:
    """On devices with roofs for the same work."""
    import numpy as np

    from gambrel.analysis.columns import slowest_of
    from gambrel.analysis.item_rows import LimitsRow, TimesRow

    columns, memory = table.columns, (roofs[0].memory, roofs[0].memory_bound)
    busy = {key: seconds for key, seconds in columns.busy(rates).items() if seconds.any()}
    if not busy:
        nothing: list[Any] = [None] * len(table.items)
        return [_evaluation(table, (), nothing, nothing, {}) for _ in roofs]
    totals = {
        resource: (seconds * columns.counts).cumsum(axis=1)[:, -1].tolist()
        for resource, seconds in busy.items()
    }
    own = {resource: _where_busy(seconds) for resource, seconds in busy.items()}
    pooled = bool(columns.prefetched_bytes.any())
    if pooled and memory in own:
        left = (own[memory] - columns.ahead(roofs)).clip(0.0)
        own[memory] = _where_busy(busy[memory], left)
    seconds, limits = slowest_of(own, columns.kernels)
    if pooled and memory in own:
        loading = np.array(totals[memory])[:, None]
        columns.wait_for_weights(seconds, limits, loading, list(own).index(memory))
    sums, unknown = columns.run_of(seconds).tolist(), seconds < 0
    seconds, limits = np.where(unknown, np.nan, seconds), np.where(unknown, -1, limits)
    return [
        Evaluation(
            busy=(),
            times=TimesRow(seconds[i]),
            limits=LimitsRow(limits[i], list(own)),
            total_busy={resource: each[i] for resource, each in totals.items()},
            time_s=None if table.on_host or unknown[i].all() else time_s,
        )
        for i, time_s in enumerate(sums)
    ]


def _where_busy(busy: Any, seconds: Any = None) -> Any:
    """Seconds of items that keep a resource busy; negative for those that do not need it."""
    found = (busy if seconds is None else seconds).copy()
    found[busy == 0] = -1.0
    return found


def _evaluation(
    table: CostTable,
    busy: tuple[Busy, ...],
    times: list[Size | None],
    limits: list[Resource | None],
    total_busy: Busy,
) -> Evaluation:
    known = [t * item.count for t, item in zip(times, table.items, strict=True) if t is not None]
    return Evaluation(
        busy=busy,
        times=tuple(times),
        limits=tuple(limits),
        total_busy=total_busy,
        time_s=total(known) if known and not table.on_host else None,
    )


def busy_of(cost: Cost, roofs: Roofs) -> Busy:
    """Seconds that one execution keeps each resource busy."""
    found: Busy = {}
    for (engine, dtype), flops in cost.work.items():
        roof = roofs.least_time_roof(engine, dtype, cost.prunable)
        if roof is not None and not _is_zero(flops):
            key = roof[0], Bound.COMPUTE
            found[key] = found.get(key, 0.0) + roofline.seconds(flops, roof[1])
    moved = cost.read_bytes + cost.write_bytes
    _move(found, (roofs.memory, roofs.memory_bound), moved, roofs.memory_byte_per_s)
    if not _is_zero(cost.link_bytes):
        _move(found, (roofs.link, Bound.NETWORK), cost.link_bytes, roofs.link_byte_per_s)
    if not _is_zero(cost.network_bytes):
        _move(found, (NETWORK, Bound.NETWORK), cost.network_bytes, roofs.network_byte_per_s)
    return found


def _move(found: Busy, key: Resource, nbytes: Size, rate: float | None) -> None:
    if rate is not None and not _is_zero(nbytes):
        found[key] = found.get(key, 0.0) + roofline.seconds(nbytes, rate)


def binding_of(busy: Mapping[Resource, float]) -> Resource | None:
    """The busiest resource; compute wins a tie."""
    best: Resource | None = None
    most = 0.0
    for key, seconds in busy.items():
        ahead = seconds == most and key[1] is Bound.COMPUTE
        if best is None or seconds > most or (ahead and best[1] is not Bound.COMPUTE):
            best, most = key, seconds
    return best


def hides_a_roof(table: CostTable, roofs: Roofs) -> bool:
    """Whether a roof that could decide is unknown: the memory's, or the main engine's.

    Matrix work decides where there is any, else vector work.
    """
    if table.on_host:
        return True
    if roofs.memory_byte_per_s is None and any(_moves(item.cost) for item in table.items):
        return True
    keys = {(*key, item.cost.prunable) for item in table.items for key in item.cost.work}
    main = Engine.MATRIX if any(key[0] is Engine.MATRIX for key in keys) else Engine.VECTOR
    return any(
        roofs.engine_roof(engine.value, dtype, prunable) is None
        for engine, dtype, prunable in keys
        if engine is main
    )


def _moves(cost: Cost) -> bool:
    moved = cost.read_bytes + cost.write_bytes
    return not _is_zero(moved)


def _bound(busy: Busy) -> tuple[Size | None, Resource | None]:
    """The time of the slowest resource, and which it is; over arrays that differs by point."""
    for seconds in busy.values():
        if not isinstance(seconds, (int, float)):
            return roofline.slowest(busy), None
    limit = binding_of(busy)
    return None if limit is None else busy[limit], limit


def _is_zero(value: Size) -> bool:
    return isinstance(value, (int, float)) and not value


def _share_kernel(
    members: tuple[int, ...],
    busy: tuple[Busy, ...],
    times: list[Size | None],
    limits: list[Resource | None],
) -> None:
    """Items of one kernel overlap: each counts with its part of the kernel's slowest resource."""
    whole = _sum(busy[i] for i in members)
    if not all(isinstance(seconds, (int, float)) for seconds in whole.values()):
        _share_points(members, whole, busy, times, limits)
        return
    limit = binding_of(whole)
    if limit is None:
        return
    for i in members:
        times[i] = busy[i].get(limit, 0.0)
        limits[i] = limit


def _share_points(
    members: tuple[int, ...],
    whole: Busy,
    busy: tuple[Busy, ...],
    times: list[Size | None],
    limits: list[Resource | None],
) -> None:
    """As `_share_kernel`, where the slowest resource differs from point to point."""
    import numpy as np

    resources = sorted(whole, key=lambda key: key[1] is not Bound.COMPUTE)
    which = np.argmax(np.stack(np.broadcast_arrays(*(whole[r] for r in resources))), axis=0)
    for i in members:
        shares = [busy[i].get(resource, 0.0) for resource in resources]
        times[i] = np.choose(which, np.broadcast_arrays(which, *shares)[1:])
        limits[i] = None


def _sum(parts: Iterable[Busy]) -> Busy:
    whole: Busy = {}
    for part in parts:
        for resource, seconds in part.items():
            whole[resource] = whole.get(resource, 0.0) + seconds
    return whole


def _without_prefetched(busy: Busy, item: Item, roofs: Roofs) -> Busy:
    """The busy times of a kernel whose weights were loaded before it starts."""
    key = roofs.memory, roofs.memory_bound
    if _is_zero(item.prefetched_bytes) or key not in busy or roofs.memory_byte_per_s is None:
        return busy
    ahead = roofline.seconds(item.prefetched_bytes, roofs.memory_byte_per_s)
    return {**busy, key: roofline.maximum(0.0, busy[key] - ahead)}


def _wait_for_weights(
    times: list[Size | None],
    limits: list[Resource | None],
    table: CostTable,
    total_busy: Busy,
    roofs: Roofs,
) -> None:
    """Where loading all bytes takes longer than the kernels, those with weights wait for them.

    What waits for longer than it runs is limited by where its weights come from.
    """
    memory = roofs.memory, roofs.memory_bound
    loading = total_busy.get(memory, 0.0)
    pairs = zip(times, table.items, strict=True)
    running = total(t * item.count for t, item in pairs if t is not None)
    whole = sum(item.prefetched_bytes * item.count for item in table.items)
    waits: Any = loading > running
    if not isinstance(waits, bool):
        for i, item in enumerate(table.items):
            more = (loading - running) * item.prefetched_bytes / whole
            time_s = 0.0 if times[i] is None else times[i]
            times[i] = time_s if item.host else where(waits, time_s + more, time_s)
        return
    if not waits or not whole:
        return
    for i, item in enumerate(table.items):
        if item.host:
            continue
        wait, alone = (loading - running) * item.prefetched_bytes / whole, times[i] or 0.0
        times[i] = alone + wait
        if wait > alone:
            limits[i] = memory
