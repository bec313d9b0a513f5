"""Measures of a scope: one op under its roofs, and sums over ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.analysis.costs import CostTable
from gambrel.analysis.estimate.totals import total as expected_total
from gambrel.analysis.evaluation import Evaluation, Resource, binding_of, busy_of
from gambrel.analysis.expected import Expected
from gambrel.analysis.measures import Bound, EngineWork, Estimate, Limiter, Measures, ResourceTime
from gambrel.analysis.roofs import Roofs
from gambrel.ops import Cost


def bound_op(cost: Cost, roofs: Roofs, count: int = 1) -> Measures:
    """The measures of one op as a kernel of its own, executed ``count`` times.

    Args:
        cost: Work and traffic of one execution.
        roofs: Of the device.
        count: Executions.
    """
    busy = busy_of(cost, roofs)
    return measures_of(
        cost, roofs, busy=busy, time_s=roofline.slowest(busy), limit=binding_of(busy), count=count
    )


def measures_of(
    cost: Cost,
    roofs: Roofs,
    *,
    busy: Mapping[Resource, float],
    time_s: float | None,
    limit: Resource | None,
    count: int = 1,
) -> Measures:
    """The measures of an op within its kernel, executed ``count`` times.

    Args:
        cost: Of one execution, with its part of the kernel's traffic.
        roofs: Of the device.
        busy: Seconds that it keeps each resource busy, one execution.
        time_s: Its roofline time, one execution.
        limit: The resource that its kernel waits for.
        count: Executions.
    """
    work = tuple(
        _engine_work(engine.value, dtype, round(flops) * count, roofs, cost.prunable)
        for (engine, dtype), flops in cost.work.items()
        if flops
    )
    return _measures(
        work,
        round(cost.read_bytes) * count,
        round(cost.write_bytes) * count,
        (round(cost.link_bytes) + round(cost.network_bytes)) * count,
        {resource: seconds * count for resource, seconds in busy.items()},
        None if time_s is None else time_s * count,
        roofs,
        limit,
    )


def add(parts: Iterable[Measures], roofs: Roofs, whole_s: float | None = None) -> Measures:
    """The measures of ops that run one after another: work, traffic and times add.

    The speed of light of a sum is that of the resource with the most work, not the sum of theirs;
    of a part of a model it is what that part alone would need.

    Args:
        parts: Of the ops.
        roofs: Of the device.
        whole_s: Roofline time of the whole, for the share; None leaves the share out.
    """
    merged: dict[tuple[str, str, float | None], EngineWork] = {}
    seconds: dict[Resource, float] = defaultdict(float)
    sol: dict[Bound, float] = defaultdict(float)
    limited: dict[Limiter, float] = defaultdict(float)
    read = write = link = sol_bytes = 0
    time_s, known = 0.0, False
    estimates: list[tuple[Estimate | None, float | None]] = []
    parts = tuple(parts)
    for part in parts:
        estimates.append((part.expected_time_s, part.roofline_time_s))
        read, write, link = read + part.read_bytes, write + part.write_bytes, link + part.link_bytes
        sol_bytes += part.sol_traffic_bytes
        if part.roofline_time_s is not None:
            time_s, known = time_s + part.roofline_time_s, True
        if part.sol_time_s is not None and part.sol_bound is not None:
            sol[part.sol_bound] += part.sol_time_s
        if part.limited_by is not None and part.expected_time_s is not None:
            limited[part.limited_by] += part.expected_time_s.value
        for t in part.times:
            seconds[(t.resource, t.bound)] += t.time_s
        for w in part.work:
            key = (w.work_class, w.dtype, w.peak_flop_per_s)  # dense and sparse stay apart
            merged[key] = _plus(merged[key], w) if key in merged else w
    result = _measures(
        tuple(merged.values()), read, write, link, seconds, time_s if known else None, roofs
    )
    result = msgspec.structs.replace(
        result,
        expected_time_s=expected_total(estimates),
        limited_by=max(limited, key=lambda name: limited[name], default=None),
        sol_time_s=max(sol.values(), default=None),
        sol_bound=max(sol, key=lambda bound: sol[bound], default=None),
        sol_traffic_bytes=sol_bytes,
    )
    if any(part.levels for part in parts):
        from gambrel.analysis.levels.total import add_levels  # most analyses have none

        result = msgspec.structs.replace(result, levels=add_levels(parts, result.flops))
    return result if whole_s is None else share_of(result, whole_s)


def share_of(measures: Measures, whole_s: float) -> Measures:
    """The same measures with their share of the whole's roofline time."""
    if not whole_s or measures.roofline_time_s is None:
        return measures
    return msgspec.structs.replace(measures, time_share=measures.roofline_time_s / whole_s)


def _engine_work(
    work_class: str, dtype: str, flops: int, roofs: Roofs, prunable: bool
) -> EngineWork:
    roof = roofs.engine_roof(work_class, dtype, prunable)
    if roof is None:
        return EngineWork(work_class=work_class, dtype=dtype, flops=flops)
    return EngineWork(
        work_class=work_class,
        dtype=dtype,
        flops=flops,
        engine=roof.engine,
        engine_dtype=roof.dtype,
        peak_flop_per_s=roof.flop_per_s,
        time_s=roofline.seconds(flops, roof.flop_per_s),
    )


def _plus(a: EngineWork, b: EngineWork) -> EngineWork:
    time_s = None if a.time_s is None or b.time_s is None else a.time_s + b.time_s
    return msgspec.structs.replace(a, flops=a.flops + b.flops, time_s=time_s)


def _measures(
    work: tuple[EngineWork, ...],
    read: int,
    write: int,
    link: int,
    seconds: Mapping[Resource, float],
    time_s: float | None,
    roofs: Roofs,
    limit: Resource | None = None,
) -> Measures:
    by_class: dict[str, int] = defaultdict(int)
    for w in work:
        by_class[w.work_class] += w.flops
    main_class = "matrix" if by_class["matrix"] else "vector"
    main = max((w for w in work if w.work_class == main_class), key=_weight, default=None)
    limit = limit or binding_of(seconds)
    hidden = _hidden_roof(work, main_class, read + write, roofs)
    return Measures(
        matrix_flops=by_class["matrix"],
        vector_flops=by_class["vector"],
        special_ops=by_class["special"],
        read_bytes=read,
        write_bytes=write,
        link_bytes=link,
        work=work,
        times=tuple(
            ResourceTime(
                resource=name,
                bound=bound,
                time_s=t,
                utilization=_utilization(t, time_s),
            )
            for (name, bound), t in sorted(
                seconds.items(), key=lambda item: item[0][1] is not Bound.COMPUTE
            )
        ),
        bound=None if hidden or limit is None else limit[1],
        roofline_time_s=time_s,
        peak_flop_per_s=main.peak_flop_per_s if main else None,
        peak_byte_per_s=roofs.memory_byte_per_s,
    )


def _utilization(busy_s: float, time_s: float | None) -> float | None:
    """Share of a resource in use; None for an op whose work others of its kernel hide."""
    if not time_s:
        return 0.0
    return None if busy_s > time_s * _WHOLE else roofline.utilization(busy_s, time_s)


#: All of a resource, but for rounding.
_WHOLE: Final = 1 + 1e-9


def _weight(work: EngineWork) -> tuple[float, int]:
    return (work.time_s or 0.0, work.flops)


def _hidden_roof(work: Iterable[EngineWork], main_class: str, traffic: int, roofs: Roofs) -> bool:
    """Whether a roof that could decide is unknown: the main engine's, or the memory's."""
    if traffic and roofs.memory_byte_per_s is None:
        return True
    return any(w.time_s is None and w.work_class == main_class for w in work)


def one_flop(work_class: str, dtype: str, prunable: bool, roofs: Roofs) -> EngineWork:
    """One FLOP of a class of work as the device does it."""
    return _engine_work(work_class, dtype, 1, roofs, prunable)


def totals(table: CostTable, held: Evaluation, expected: Expected, roofs: Roofs) -> Measures:
    """The measures of the whole from distinct items, without those of each op.

    Args:
        table: What the workload asks for.
        held: The roofline.
        expected: The expected times.
        roofs: Of the device.
    """
    sums = table.sums
    found = _measures(
        tuple(_engine_work(*key[:2], n, roofs, key[2]) for key, n in sums.work.items()),
        sums.read_bytes,
        sums.write_bytes,
        sums.link_bytes,
        held.total_busy,
        held.time_s,
        roofs,
    )
    return msgspec.structs.replace(
        found,
        expected_time_s=expected.total,
        limited_by=expected.limited_by,
        bound=None if table.on_host else found.bound,
    )
