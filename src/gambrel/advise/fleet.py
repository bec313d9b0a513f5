"""One workload on many devices: each number format is evaluated once, then held against all.

The facts are those of `gambrel.analysis.analyze` at the same point, without the table of ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from gambrel.advise.demand import Demand, Evaluated, demand_under, evaluated, held_against
from gambrel.advise.figures import Facts, facts_of
from gambrel.analysis.analyze import Settings, analyze, choose_precision
from gambrel.analysis.bounding import Roofs, roofs_of
from gambrel.analysis.energy import energy
from gambrel.analysis.estimate import Estimator
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion import Stack, parse_stack
from gambrel.analysis.measures import Bound
from gambrel.analysis.precision import casts_of
from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
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


class Fleet:
    """A workload at given sizes, to be held against any number of devices.

    Args:
        workload: The model.
        settings: Sizes, precision (None chooses one for each device) and the rest.
        bulk: Whether many devices will follow; worth its preparation from about a hundred on.
        built: Precision → the same model built with it part by part (language models).
        alike: Of the ops of ``workload``; see `Evaluator`.
        demands: Precision → what the workload asks for, shared by fleets whose settings differ
            only in the roofs (sparsity, engine).
        known: Precision → the ops evaluated, shared by fleets that differ in the stack as well.
    """

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        *,
        bulk: bool = False,
        built: Mapping[str, Workload] | None = None,
        alike: Sequence[int] | None = None,
        demands: dict[str, Demand] | None = None,
        known: dict[str, Evaluated] | None = None,
    ) -> None:
        self._built = {p: Fleet(w, settings, bulk=bulk) for p, w in (built or {}).items()}
        self._bulk = bulk
        self._alike = alike
        self._workload = workload
        self._settings = settings
        self.sizes = workload.resolve_symbols(settings.sizes or {})
        self._demands: dict[str, Demand] = {} if demands is None else demands
        self._known = known
        self._machines: dict[int, tuple[Device, Roofs, Estimator]] = {}
        self._points: dict[tuple[int, str | None], Point] = {}

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
        if precision in self._built:
            return self._built[precision].on(device, None, price)
        key = (id(device), precision)  # `_machines` keeps the device, and so its id
        if key not in self._points:
            self._points[key] = self._point(device, precision)
        point = self._points[key]
        if point.facts.price == price:
            return point
        return msgspec.structs.replace(point, facts=replace(point.facts, price=price))

    def _point(self, device: Device, precision: str | None) -> Point:
        settings = replace(self._settings, precision=precision or self._settings.precision)
        roofs, estimator = self._machine(device)
        if roofs.off_chip_only:
            return point_of(analyze(self._workload, device, settings))
        chosen, reason = choose_precision(self._workload, device, settings.precision)
        demand = self._demand(chosen)
        held = held_against(demand, roofs, estimator)
        items = self.sizes.get("batch", 1)
        facts = Facts(
            items=items,
            expected=held.total.expected_time_s,
            roofline_s=held.total.roofline_time_s,
            floor_s=held.floor_s(demand.ideal_bytes, roofs),
            memory_bytes=demand.memory_bytes,
            power_cap_w=device.tdp_w,
            unmodelled=demand.unmodelled,
            energy=energy(held.total, device, items),
        )
        return Point(
            facts=facts,
            precision=chosen,
            precision_reason=reason,
            bound=held.bound,
            capacity_bytes=_capacity(device),
        )

    def _machine(self, device: Device) -> tuple[Roofs, Estimator]:
        """The roofs of a device and what predicts times on it, the same for every precision."""
        if id(device) not in self._machines:
            settings = self._settings
            roofs = roofs_of(device, sparsity=settings.sparsity, engine=settings.engine)
            compiled = parse_stack(settings.stack) is not Stack.EAGER
            estimator = Estimator(
                roofs, settings.calibration, settings.framework, compiled=compiled
            )
            self._machines[id(device)] = device, roofs, estimator  # the device keeps its id
        return self._machines[id(device)][1:]

    def _demand(self, precision: str) -> Demand:
        if precision not in self._demands:
            self._demands[precision] = self._evaluate(precision)
        return self._demands[precision]

    def _evaluate(self, precision: str) -> Demand:
        workload, settings = self._workload, self._settings
        found = None if self._known is None else self._known.get(precision)
        if found is None:
            casts = casts_of(workload, precision)
            found = evaluated(
                workload,
                Evaluator(workload, self.sizes, casts, settings.conventions, self._alike),
            )
            if self._known is not None:
                self._known[precision] = found
        return demand_under(workload, found, settings.stack, bulk=self._bulk)


def _capacity(device: Device) -> int | None:
    memory = main_memory(device)
    return memory.capacity_bytes if memory else None
