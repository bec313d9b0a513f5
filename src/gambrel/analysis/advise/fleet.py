"""One workload on many devices: each number format is evaluated once, then held against all.

The facts are those of `gambrel.analysis.analyze` at the same point, without the table of ops.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gambrel.analysis.advise.figures import Facts, facts_of
from gambrel.analysis.analyze import Settings, analyze, choose_precision
from gambrel.analysis.bounding import Roofs, roofs_of
from gambrel.analysis.energy import energy
from gambrel.analysis.estimate import Estimator
from gambrel.analysis.estimate.estimator import total
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures
from gambrel.analysis.precision import cast_map
from gambrel.analysis.result import Analysis
from gambrel.analysis.traffic import IdealTraffic
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.ops import Cost, OpView, is_free
from gambrel.workload import Workload


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a device in a precision, judged but not listed op by op.

    Attributes:
        facts: What decisions rest on.
        precision: Number format.
        precision_reason: Why.
        bound: The resource with the largest busy time; None when unknown.
        capacity_bytes: Memory of the device that the model must fit into; None when unknown or
            when it need not.
    """

    facts: Facts
    precision: str
    precision_reason: str
    bound: Bound | None
    capacity_bytes: int | None

    @property
    def fits(self) -> bool | None:
        """Whether the model fits into the device; None when unknown."""
        if self.capacity_bytes is None:
            return None
        return self.facts.memory_bytes <= self.capacity_bytes


def point_of(analysis: Analysis) -> Point:
    """The point that an analysis describes."""
    return Point(
        facts=facts_of(analysis),
        precision=analysis.model.precision,
        precision_reason=analysis.model.precision_reason,
        bound=analysis.bound,
        capacity_bytes=_capacity(analysis.hardware),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """What the model asks for in one number format.

    Attributes:
        ops: Distinct ops with how often each runs.
        ideal_bytes: Traffic with perfect fusion.
        memory_bytes: Footprint.
        unmodelled: Ops without a formula.
    """

    ops: tuple[tuple[OpView, Cost, int], ...]
    ideal_bytes: float
    memory_bytes: int
    unmodelled: int


class Fleet:
    """A workload at given sizes, to be held against any number of devices.

    Args:
        workload: The model.
        settings: Sizes, precision (None chooses one for each device) and the rest.
    """

    def __init__(self, workload: Workload, settings: Settings) -> None:
        self._workload = workload
        self._settings = settings
        self.sizes = workload.resolve_symbols(settings.sizes or {})
        self._demands: dict[str, _Demand] = {}

    @property
    def name(self) -> str:
        """Of the model."""
        return self._workload.name

    def on(self, device: Device, precision: str | None = None, price: float | None = None) -> Point:
        """The model on one device.

        Args:
            device: The device.
            precision: Number format; None takes that of the settings.
            price: What the device costs, where the user knows.
        """
        settings = replace(self._settings, precision=precision or self._settings.precision)
        roofs = roofs_of(device, sparsity=settings.sparsity, engine=settings.engine)
        if roofs.off_chip_only or settings.stack != "eager":
            return self._analyzed(device, settings, price)
        chosen, reason = choose_precision(self._workload, device, settings.precision)
        demand = self._demand(chosen)
        estimator = Estimator(roofs, settings.calibration, settings.framework)
        held = _held(demand, roofs, estimator)
        items = self.sizes.get("batch", 1)
        facts = Facts(
            items=items,
            expected=held.total.expected_time_s,
            bound_s=held.total.bound_time_s,
            floor_s=held.floor_s(demand.ideal_bytes, roofs),
            memory_bytes=demand.memory_bytes,
            power_cap_w=device.tdp_w,
            unmodelled=demand.unmodelled,
            energy=energy(held.total, device, items),
            price=price,
        )
        return Point(
            facts=facts,
            precision=chosen,
            precision_reason=reason,
            bound=held.bound,
            capacity_bytes=_capacity(device),
        )

    def _analyzed(self, device: Device, settings: Settings, price: float | None) -> Point:
        found = point_of(analyze(self._workload, device, settings))
        return msgspec.structs.replace(found, facts=replace(found.facts, price=price))

    def _demand(self, precision: str) -> _Demand:
        if precision not in self._demands:
            self._demands[precision] = self._evaluate(precision)
        return self._demands[precision]

    def _evaluate(self, precision: str) -> _Demand:
        workload = self._workload
        casts = cast_map(workload.dtype, precision)
        evaluator = Evaluator(workload, self.sizes, casts, self._settings.conventions)
        ideal = IdealTraffic(workload)
        found: dict[tuple[Any, ...], tuple[OpView, Cost, int]] = {}
        unmodelled = 0
        for op, view, cost in evaluator.costs():
            if is_free(op.kind):
                continue
            if cost is None:
                unmodelled += op.repeat
                continue
            ideal.see(view, cost)
            key = _key(view, cost)
            times = found[key][2] if key in found else 0
            found[key] = (view, cost, times + op.repeat)
        return _Demand(
            ops=tuple(found.values()),
            ideal_bytes=round(ideal.total_bytes()),
            memory_bytes=footprint(workload, evaluator, None).total_bytes,
            unmodelled=unmodelled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A demand held against the roofs of a device."""

    total: Measures
    busy: dict[tuple[str, Bound], float]

    @property
    def bound(self) -> Bound | None:
        ranked = sorted(self.busy.items(), key=lambda item: item[0][1] is not Bound.COMPUTE)
        return max(ranked, key=lambda item: item[1])[0][1] if ranked else None

    def floor_s(self, ideal_bytes: float, roofs: Roofs) -> float | None:
        """All resources overlap, and only ideal traffic."""
        seconds = [s for (name, _), s in self.busy.items() if name != roofs.memory]
        if roofs.memory_byte_per_s is not None:
            seconds.append(ideal_bytes / roofs.memory_byte_per_s)
        return max(seconds, default=None)


def _held(demand: _Demand, roofs: Roofs, estimator: Estimator) -> _Held:
    busy: dict[tuple[str, Bound], float] = defaultdict(float)
    parts: list[tuple[Estimate | None, float | None]] = []
    for view, cost, count in demand.ops:
        seconds = _seconds(cost, count, roofs)
        for resource, s in seconds.items():
            busy[resource] += s
        bound = max(seconds.values(), default=None)
        parts.append((estimator.estimate(view, cost, bound, count), bound))
    known = [bound for _, bound in parts if bound is not None]
    whole = Measures(
        work=_work(demand, roofs),
        read_bytes=sum(round(cost.read_bytes) * count for _, cost, count in demand.ops),
        write_bytes=sum(round(cost.write_bytes) * count for _, cost, count in demand.ops),
        bound_time_s=sum(known) if known else None,
        expected_time_s=total(parts),
    )
    return _Held(total=whole, busy=dict(busy))


def _work(demand: _Demand, roofs: Roofs) -> tuple[EngineWork, ...]:
    """The work of the whole by class and number format, with the formats it is computed in."""
    flops: dict[tuple[str, str], int] = defaultdict(int)
    for _, cost, count in demand.ops:
        for (engine, dtype), n in cost.work.items():
            flops[engine.value, dtype] += round(n) * count
    return tuple(
        EngineWork(
            work_class=work_class,
            dtype=dtype,
            flops=n,
            engine_dtype=roof.dtype if (roof := roofs.engine_roof(work_class, dtype)) else "",
        )
        for (work_class, dtype), n in flops.items()
    )


def _seconds(cost: Cost, count: int, roofs: Roofs) -> dict[tuple[str, Bound], float]:
    """Busy time of each resource for all executions of an op."""
    seconds: dict[tuple[str, Bound], float] = {}
    for (engine, dtype), flops in cost.work.items():
        roof = roofs.engine_roof(engine.value, dtype) if flops else None
        if roof is not None:
            key = (roof.engine, Bound.COMPUTE)
            seconds[key] = seconds.get(key, 0.0) + round(flops) * count / roof.flop_per_s
    traffic = (round(cost.read_bytes) + round(cost.write_bytes)) * count
    if roofs.memory_byte_per_s is not None and traffic:
        seconds[roofs.memory, roofs.memory_bound] = traffic / roofs.memory_byte_per_s
    link = round(cost.link_bytes) * count
    if roofs.link_byte_per_s is not None and link:
        seconds[roofs.link, Bound.NETWORK] = link / roofs.link_byte_per_s
    return seconds


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
        cost.read_bytes,
        cost.write_bytes,
        cost.link_bytes,
        tuple(cost.work.items()),
    )


def _capacity(device: Device) -> int | None:
    memory = main_memory(device)
    return memory.capacity_bytes if memory else None
