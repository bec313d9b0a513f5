"""What a model asks for in one number format, and how long that keeps a device busy.

The sums are those of `gambrel.analysis.analyze`, op by op; only the records are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import msgspec

from gambrel.analysis.bounding import Roofs
from gambrel.analysis.estimate import Estimator
from gambrel.analysis.estimate.batches import Batch, batches_of
from gambrel.analysis.estimate.estimator import total
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.fusion import Stack, fused_costs, group, launches, parse_stack
from gambrel.analysis.fusion.measures import one_of, with_launches
from gambrel.analysis.fusion.program import Priced
from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures
from gambrel.analysis.traffic import IdealTraffic
from gambrel.device.roofs import NETWORK
from gambrel.ops import Cost, OpView, is_free
from gambrel.workload import Workload

#: (name, class) of a resource → seconds that it is busy.
Busy: TypeAlias = dict[tuple[str, Bound], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An op, or equal ops.

    Attributes:
        view: Its sizes.
        cost: Of one execution; within a fused kernel of all repeats of the op.
        count: Executions, of which the cost is for one.
        starts: Kernel starts that it pays within its kernel; None where it is a kernel of its own.
        repeat: Repeats that a cost within a fused kernel is of.
    """

    view: OpView
    cost: Cost
    count: int = 1
    starts: int | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What an item asks of the resources of any device, all executions together.

    Attributes:
        work: (class, number format, prunable) and FLOP.
        traffic_bytes: Of the main memory.
        link_bytes: Over the link to the devices of the node.
        network_bytes: Over the network between nodes.
    """

    work: tuple[tuple[tuple[str, str, bool], int], ...]
    traffic_bytes: int
    link_bytes: int
    network_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the model asks for in one number format.

    Attributes:
        items: Distinct ops, or the ops of distinct kernels of a fused stack.
        kernels: Items that share a kernel, by index; empty for eager execution.
        flops: Of the whole, by class of work and number format.
        read_bytes: Of the whole.
        write_bytes: Of the whole.
        ideal_bytes: Traffic with perfect fusion.
        memory_bytes: Footprint.
        unmodelled: Ops without a formula.
        asks: Of each item.
        batches: Items that are predicted together.
    """

    items: tuple[Item, ...]
    kernels: tuple[tuple[int, ...], ...]
    flops: dict[tuple[str, str], int]
    read_bytes: int
    write_bytes: int
    ideal_bytes: float
    memory_bytes: int
    unmodelled: int
    asks: tuple[Ask, ...]
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A demand held against the roofs of a device.

    Attributes:
        total: Work, traffic, bound and expected time of the whole.
        busy: Of each resource, all ops together.
    """

    total: Measures
    busy: Busy

    @property
    def bound(self) -> Bound | None:
        """The resource with the largest busy time; compute wins a tie."""
        return _slowest(self.busy)[1] if self.busy else None

    def floor_s(self, ideal_bytes: float, roofs: Roofs) -> float | None:
        """All resources overlap, and only ideal traffic; None when no roof is known."""
        seconds = [s for (name, _), s in self.busy.items() if name != roofs.memory]
        if roofs.memory_byte_per_s is not None:
            seconds.append(ideal_bytes / roofs.memory_byte_per_s)
        return max(seconds, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A workload at given sizes in one number format, however its ops become kernels.

    Attributes:
        evaluator: Bound to the sizes and the precision.
        priced: Every op with its cost.
        ideal_bytes: Traffic with perfect fusion.
        memory_bytes: Footprint.
    """

    evaluator: Evaluator
    priced: tuple[Priced, ...]
    ideal_bytes: int
    memory_bytes: int


def evaluated(workload: Workload, evaluator: Evaluator) -> Evaluated:
    """Evaluates a workload.

    Args:
        workload: The model.
        evaluator: Bound to sizes and a precision.
    """
    priced = tuple(evaluator.costs())
    ideal = IdealTraffic(workload)
    for op, view, cost in priced:
        if cost is not None and not is_free(op.kind):
            ideal.see(view, cost)
    return Evaluated(
        evaluator=evaluator,
        priced=priced,
        ideal_bytes=round(ideal.total_bytes()),
        memory_bytes=footprint(workload, evaluator, None).total_bytes,
    )


def demand_under(workload: Workload, found: Evaluated, stack: str, *, bulk: bool = False) -> Demand:
    """What an evaluated workload asks for under one stack.

    Args:
        workload: The model.
        found: Of `evaluated`; stacks share it.
        stack: How ops become kernels.
        bulk: Prepare for many devices.
    """
    counted = [(op, view, cost) for op, view, cost in found.priced if not is_free(op.kind)]
    kernels: tuple[tuple[int, ...], ...] = ()
    if parse_stack(stack) is Stack.EAGER:
        items = _distinct(counted)
    else:
        items, kernels = _fused(workload, found.evaluator, stack, found.priced)
    return Demand(
        items=items,
        kernels=kernels,
        flops=_flops(items),
        read_bytes=sum(round(i.cost.read_bytes) * i.count for i in items),
        write_bytes=sum(round(i.cost.write_bytes) * i.count for i in items),
        ideal_bytes=found.ideal_bytes,
        memory_bytes=found.memory_bytes,
        unmodelled=sum(op.repeat for op, _, cost in counted if cost is None),
        asks=tuple(map(_ask, items)),
        batches=batches_of([(i.view, i.cost, i.count) for i in items])
        if bulk and not kernels and all(i.starts is None for i in items)
        else (),
    )


def held_against(demand: Demand, roofs: Roofs, estimator: Estimator) -> Held:
    """Holds a demand against the roofs of a device.

    Args:
        demand: Of the model.
        roofs: Of the device.
        estimator: Of expected times on it.
    """
    seconds = [_seconds(ask, roofs) for ask in demand.asks]
    bounds = _bounds(seconds, demand.kernels)
    expected = list(zip(_estimates(demand, bounds, estimator), bounds, strict=True))
    known = [bound for bound in bounds if bound is not None]
    whole = Measures(
        work=_work(demand, roofs),
        read_bytes=demand.read_bytes,
        write_bytes=demand.write_bytes,
        roofline_time_s=sum(known) if known else None,
        expected_time_s=total(expected),
    )
    return Held(total=whole, busy=_sum(seconds))


def _distinct(counted: Sequence[Priced]) -> tuple[Item, ...]:
    """Equal ops once, with how often they run."""
    found: dict[tuple[Any, ...], Item] = {}
    for op, view, cost in counted:
        if cost is not None:
            key = _key(view, cost)
            times = found[key].count if key in found else 0
            found[key] = Item(view=view, cost=cost, count=times + op.repeat)
    return tuple(found.values())


def _fused(
    workload: Workload, evaluator: Evaluator, stack: str, priced: Sequence[Priced]
) -> tuple[tuple[Item, ...], tuple[tuple[int, ...], ...]]:
    """Equal kernels once: their ops, each with its part of the kernel's traffic, and who shares."""
    kernels = group(workload, evaluator, stack, priced)
    costs = fused_costs(kernels, priced)
    starts = launches(kernels)
    alike: dict[tuple[Any, ...], tuple[Item, ...]] = {}
    for kernel in kernels:
        counted = [i for i in kernel.ops if i in costs and not is_free(priced[i][0].kind)]
        found = [
            Item(
                view=priced[i][1],
                cost=costs[i],
                starts=starts.get(i, 0),
                repeat=priced[i][0].repeat,
            )
            for i in counted
        ]
        key = tuple((_key(item.view, item.cost), item.starts, item.repeat) for item in found)
        times = alike[key][0].count if found and key in alike else 0
        alike[key] = tuple(replace(item, count=times + 1) for item in found)
    items: list[Item] = []
    shared = []
    for members in alike.values():
        if len(members) > 1:
            shared.append(tuple(range(len(items), len(items) + len(members))))
        items += members
    return tuple(items), tuple(shared)


def _bounds(seconds: Sequence[Busy], kernels: Iterable[tuple[int, ...]]) -> list[float | None]:
    """Of each item; in a kernel its part of what keeps the kernel's slowest resource busy."""
    bounds = [max(own.values(), default=None) for own in seconds]
    for members in kernels:
        whole = _sum(seconds[i] for i in members)
        if whole:
            limit = _slowest(whole)
            for i in members:
                bounds[i] = seconds[i].get(limit, 0.0)
    return bounds


def _estimates(
    demand: Demand, bounds: Sequence[float | None], estimator: Estimator
) -> list[Estimate | None]:
    """Of each item: those of a batch together, the others one by one."""
    found: list[Estimate | None] = [None] * len(bounds)
    done: set[int] = set()
    for batch in demand.batches if estimator.batched else ():
        own = [bounds[i] for i in batch.members]
        if None not in own:
            estimates = estimator.estimate_batch(batch, own)  # type: ignore[arg-type]
            for i, estimate in zip(batch.members, estimates, strict=True):
                found[i] = estimate
            done.update(batch.members)
    for i, item in enumerate(demand.items):
        if i not in done:
            found[i] = _expected(item, bounds[i], estimator)
    return found


def _expected(item: Item, bound: float | None, estimator: Estimator) -> Estimate | None:
    if item.starts is None:
        return estimator.estimate(item.view, item.cost, bound, item.count)
    each = None if bound is None else bound / item.count
    alone = estimator.estimate(item.view, one_of(item.cost, item.repeat), each, item.repeat)
    starts = item.starts / item.repeat
    return _times(with_launches(alone, starts, each or 0.0), item.count)


def _times(one: Estimate | None, count: int) -> Estimate | None:
    """The estimate of ``count`` such executions."""
    if one is None or count == 1:
        return one
    return msgspec.structs.replace(
        one,
        value=one.value * count,
        low=one.low * count,
        high=one.high * count,
        overhead_s=one.overhead_s * count,
    )


def _ask(item: Item) -> Ask:
    cost, count = item.cost, item.count
    return Ask(
        work=tuple(
            ((engine.value, dtype, cost.prunable), round(flops) * count)
            for (engine, dtype), flops in cost.work.items()
            if flops
        ),
        traffic_bytes=(round(cost.read_bytes) + round(cost.write_bytes)) * count,
        link_bytes=round(cost.link_bytes) * count,
        network_bytes=round(cost.network_bytes) * count,
    )


def _seconds(ask: Ask, roofs: Roofs) -> Busy:
    """Busy time of each resource for all executions of an op."""
    seconds: Busy = {}
    for work, flops in ask.work:
        roof = roofs.engine_roof(*work)
        if roof is not None:
            key = (roof.engine, Bound.COMPUTE)
            seconds[key] = seconds.get(key, 0.0) + flops / roof.flop_per_s
    if roofs.memory_byte_per_s is not None and ask.traffic_bytes:
        seconds[roofs.memory, roofs.memory_bound] = ask.traffic_bytes / roofs.memory_byte_per_s
    if roofs.link_byte_per_s is not None and ask.link_bytes:
        seconds[roofs.link, Bound.NETWORK] = ask.link_bytes / roofs.link_byte_per_s
    if roofs.network_byte_per_s is not None and ask.network_bytes:
        seconds[NETWORK, Bound.NETWORK] = ask.network_bytes / roofs.network_byte_per_s
    return seconds


def _sum(parts: Iterable[Busy]) -> Busy:
    whole: Busy = defaultdict(float)
    for part in parts:
        for resource, s in part.items():
            whole[resource] += s
    return dict(whole)


def _slowest(busy: Busy) -> tuple[str, Bound]:
    ranked = sorted(busy, key=lambda resource: resource[1] is not Bound.COMPUTE)
    return max(ranked, key=lambda resource: busy[resource])


def _flops(items: Iterable[Item]) -> dict[tuple[str, str], int]:
    """The work of the whole by class and number format."""
    flops: dict[tuple[str, str], int] = defaultdict(int)
    for item in items:
        for (engine, dtype), n in item.cost.work.items():
            flops[engine.value, dtype] += round(n) * item.count
    return dict(flops)


def _work(demand: Demand, roofs: Roofs) -> tuple[EngineWork, ...]:
    """The same with the formats that it is computed in."""
    return tuple(
        EngineWork(
            work_class=work_class,
            dtype=dtype,
            flops=n,
            engine_dtype=roof.dtype if (roof := roofs.engine_roof(work_class, dtype)) else "",
        )
        for (work_class, dtype), n in demand.flops.items()
    )


def _key(view: OpView, cost: Cost) -> tuple[Any, ...]:
    """Equal for ops that cost and take the same on every device."""
    tensors = tuple((t.shape, t.dtype) for t in (*view.inputs, *view.outputs))
    return (
        view.kind,
        view.phase,
        tuple(view.sizes.items()),
        tuple(view.attrs.items()),
        len(view.inputs),
        tensors,
        cost.prunable,
        cost.read_bytes,
        cost.write_bytes,
        cost.link_bytes,
        cost.network_bytes,
        tuple(cost.work.items()),
    )
