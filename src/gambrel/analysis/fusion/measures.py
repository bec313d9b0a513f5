"""Bounds of ops that run within fused kernels.

A kernel overlaps the work and the traffic of all its ops, so it is bound by the resource that all
of them together keep busy longest. Each op's part of that time is what it asks of that resource:
the parts add up to the kernel's bound, and an op in the shadow of another costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from gambrel.analysis.bounding import Roofs, bound_op, overlapped
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion.costs import fused_costs, launches
from gambrel.analysis.fusion.kernel import Kernel, Stack, parse_stack
from gambrel.analysis.fusion.program import Priced
from gambrel.analysis.fusion.stacks import group
from gambrel.analysis.measures import Estimate, Measures, ResourceTime
from gambrel.ops import Cost, OpView
from gambrel.workload import Workload

#: From an op's view, the cost of one execution, the bound time of all and their number to what
#: kernels of its own are expected to take.
Estimator: TypeAlias = Callable[[OpView, Cost, float | None, int], Estimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """A workload under a stack; everything by op index, all executions together.

    Attributes:
        kernels: In execution order.
        costs: Work and attributed traffic of each op.
        measures: The same held against the roofs.
        launches: Kernel starts; ops that are missing pay none.
    """

    kernels: tuple[Kernel, ...]
    costs: dict[int, Cost]
    measures: dict[int, Measures]
    launches: dict[int, int]

    def measured(self, index: int, view: OpView, estimate: Estimator, count: int = 1) -> Measures:
        """The measures of an op with its expected time.

        Args:
            index: Of the op.
            view: Its sizes, those of one execution.
            estimate: Predicts kernels from the cost of one.
            count: Executions.
        """
        own = self.measures[index]
        alone = estimate(view, one_of(self.costs[index], count), own.roofline_time_s, count)
        starts = self.launches.get(index, 0) / count
        expected = with_launches(alone, starts, own.roofline_time_s or 0.0)
        return msgspec.structs.replace(own, expected_time_s=expected)


def fuse(
    workload: Workload,
    evaluator: Evaluator,
    stack: Stack | str,
    priced: Sequence[Priced],
    roofs: Roofs,
    crossing: Callable[[OpView, Cost], Cost] | None = None,
) -> Fused | None:
    """Groups the ops as a stack does and bounds them within their kernels.

    Args:
        workload: The model.
        evaluator: Bound to integer sizes and a precision.
        stack: The stack; ``eager`` needs no grouping.
        priced: Every op with its view and cost, in order.
        roofs: Of the device.
        crossing: What of an op's traffic meets the memory roof, where that is a host link; fusion
            does not change it.

    Returns:
        None for ``eager``, where every op is a kernel.

    Raises:
        InputError: No such stack.
    """
    if parse_stack(stack) is Stack.EAGER:
        return None
    kernels = group(workload, evaluator, stack, priced)
    if crossing is not None:
        kernels = tuple(_over_link(kernel, priced, crossing) for kernel in kernels)
    costs = fused_costs(kernels, priced)
    measures = {i: bound_op(cost, roofs) for i, cost in costs.items()}
    for kernel in kernels:
        counted = [i for i in kernel.ops if i in measures]
        if len(counted) > 1:
            whole = overlapped((measures[i] for i in counted), roofs)
            measures.update({i: _within(measures[i], whole) for i in counted})
    return Fused(kernels=kernels, costs=costs, measures=measures, launches=launches(kernels))


def describe_kernels(fused: Fused | None, stack: Stack | str) -> tuple[str, ...]:
    """What a reader must know of the grouping, one sentence; none for eager execution."""
    if fused is None:
        return ()
    starts = sum(fused.launches.values())
    return (
        f"stack {parse_stack(stack)}: the ops run as {starts:,} kernels; traffic and bounds are "
        "those of the kernels.",
    )


def with_launches(
    estimate: Estimate | None, starts: float, roofline_time_s: float
) -> Estimate | None:
    """An estimate that includes one start of a kernel, with another number of starts instead.

    Args:
        estimate: Of an op as a kernel of its own.
        starts: Kernel starts that an execution of the op pays within its group.
        roofline_time_s: Nothing is faster than this, s.
    """
    if estimate is None or starts == 1:
        return estimate
    change = estimate.overhead_s * (starts - 1)
    return msgspec.structs.replace(
        estimate,
        value=max(roofline_time_s, estimate.value + change),
        low=max(roofline_time_s, estimate.low + change),
        high=max(roofline_time_s, estimate.high + change),
        overhead_s=estimate.overhead_s * starts,
    )


def one_of(cost: Cost, count: int) -> Cost:
    """The cost of one of so many equal executions.

    Args:
        cost: Of all of them together.
        count: Executions.
    """
    if count == 1:
        return cost
    return dataclasses.replace(
        cost,
        work={key: n // count for key, n in cost.work.items()},
        read_bytes=cost.read_bytes // count,
        write_bytes=cost.write_bytes // count,
        link_bytes=cost.link_bytes // count,
        network_bytes=cost.network_bytes // count,
    )


def _within(own: Measures, whole: Measures) -> Measures:
    """An op's measures with the kernel's bound and its part of the kernel's time."""
    if whole.roofline_time_s is None:
        return own
    limit = next(t for t in whole.times if t.time_s == whole.roofline_time_s)
    used = {(t.resource, t.bound): t.utilization for t in whole.times}
    part = sum(t.time_s for t in own.times if _same(t, limit))
    times = tuple(
        msgspec.structs.replace(t, utilization=used[t.resource, t.bound]) for t in own.times
    )
    return msgspec.structs.replace(own, times=times, bound=whole.bound, roofline_time_s=part)


def _same(a: ResourceTime, b: ResourceTime) -> bool:
    return (a.resource, a.bound) == (b.resource, b.bound)


def _over_link(
    kernel: Kernel, priced: Sequence[Priced], crossing: Callable[[OpView, Cost], Cost]
) -> Kernel:
    reads, writes = {}, {}
    for i in kernel.ops:
        op, view, cost = priced[i]
        if cost is not None:
            crossed = crossing(view, cost)
            reads[i] = round(crossed.read_bytes * op.repeat)
            writes[i] = round(crossed.write_bytes * op.repeat)
    return Kernel(
        ops=kernel.ops,
        recomputed=kernel.recomputed,
        kind=kernel.kind,
        op_read_bytes=reads,
        op_write_bytes=writes,
        repeat=kernel.repeat,
        launches=kernel.launches,
    )
