"""One workload on many devices: the facts that decisions rest on, without the table of ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from gambrel.advise.figures import Facts, doubt_of, facts_of, facts_on
from gambrel.analysis.energy import energy
from gambrel.analysis.evaluation import binding_of
from gambrel.analysis.host import sentence
from gambrel.analysis.measures import Bound, Limiter, without_formula
from gambrel.analysis.needs import Footprint
from gambrel.analysis.result import Analysis
from gambrel.analysis.scopes import totals
from gambrel.analysis.settings import Resolved, Settings, asked_of, check_asked
from gambrel.analysis.sol import sol_of
from gambrel.analysis.workbench import (
    Machine,
    MachineTimes,
    Workbench,
    answers,
    bench_of,
    least_seconds,
    left_to_host,
    machine_on,
    proved_seconds,
)
from gambrel.device.model import Device
from gambrel.errors import InputError
from gambrel.runtimes import Runtime
from gambrel.workload import Workload


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a device in a precision under a runtime, judged but not listed op by op.

    Attributes:
        facts: What decisions rest on.
        precision: Number format.
        precision_reason: Why.
        runtime: Id of the runtime.
        runtime_reason: Why.
        arithmetic_intensity: FLOP/byte of the kernels; None when unknown, or not looked at.
        bound: The roofline's verdict; None when unknown.
        limited_by: What takes the largest share of the expected time; None without one.
        capacity_bytes: Memory of the device that the model must fit into; None when unknown or
            when it need not.
        fits: Whether the model fits into the device; None when unknown.
    """

    facts: Facts
    precision: str
    precision_reason: str
    runtime: str
    runtime_reason: str
    arithmetic_intensity: float | None
    bound: Bound | None
    limited_by: Limiter | None
    capacity_bytes: int | None
    fits: bool | None


def point_of(analysis: Analysis) -> Point:
    """The point that an analysis describes."""
    return Point(
        facts=facts_of(analysis),
        precision=analysis.model.precision,
        precision_reason=analysis.model.precision_reason,
        runtime=analysis.runtime,
        runtime_reason=analysis.runtime_reason,
        arithmetic_intensity=analysis.arithmetic_intensity,
        bound=analysis.bound,
        limited_by=analysis.limited_by,
        capacity_bytes=analysis.footprint.capacity_bytes,
        fits=analysis.footprint.fits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of a workload at sizes on devices; keys have ids of devices in `machines`."""

    settings: Settings
    machines: dict[int, Machine] = field(default_factory=dict)
    points: dict[tuple[int, str | None, str | None], Point] = field(default_factory=dict)
    sol: dict[tuple[int, str, int | None], float | None] = field(default_factory=dict)


#: Points that a bench keeps: a catalog under every runtime, in a few formats.
_KEPT_POINTS: Final = 4_000


def _known_of(bench: Workbench, settings: Settings) -> _Known:
    """What earlier questions found, under the same settings."""
    s = settings
    # What is known keeps its settings, and so the id of their constants.
    key = Fleet, s.precision, s.runtime, s.sparsity, s.engine, id(s.calibration)
    known = bench.decided.get(key)
    if not isinstance(known, _Known) or len(known.points) > _KEPT_POINTS:
        known = bench.decided[key] = _Known(settings=settings)
    return known


class Fleet:
    """A workload at given sizes, to be held against any number of devices.

    Args:
        workload: The model.
        settings: Sizes, precision and runtime (None chooses one for each device) and the rest.
        bulk: Whether many devices will follow; worth its preparation from about a hundred on.
        built: Precision → the same model built with it part by part (language models).
        bench: The workload at the same sizes, shared by fleets whose settings differ elsewhere.
    """

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        *,
        bulk: bool = False,
        built: Mapping[str, Workload] | None = None,
        bench: Workbench | None = None,
    ) -> None:
        self._built = {
            p: Fleet(w, replace(settings, precision=asked_of(w, p)), bulk=bulk)
            for p, w in (built or {}).items()
        }
        self._settings = settings
        self.sizes = workload.resolve_symbols(settings.sizes or {})
        self.bench = bench or bench_of(workload, self.sizes, settings.conventions, bulk=bulk)
        self._known = _known_of(self.bench, settings) if bulk else _Known(settings=settings)

    @property
    def name(self) -> str:
        """Of the model."""
        return self.bench.workload.name

    def on(
        self,
        device: Device,
        precision: str | None = None,
        price: float | None = None,
        runtime: str | None = None,
    ) -> Point:
        """The model on one device.

        Args:
            device: The device.
            precision: Number format; None takes that of the settings.
            price: What the device costs, where the user knows.
            runtime: How the model is executed; None takes that of the settings.
        """
        if precision in self._built:
            return self._built[precision].on(device, None, price, runtime)
        key = (id(device), precision, runtime)  # machines keep the device, and so its id
        if key not in self._known.points:
            self._prepare([(device, precision, runtime)])
        point = self._known.points[key]
        if point.facts.price == price:
            return point
        return msgspec.structs.replace(point, facts=replace(point.facts, price=price))

    def prepare(self, asked: Iterable[tuple[Device, str | None, str | None]]) -> None:
        """Evaluates many points at once, which `on` then has at hand.

        Args:
            asked: Device, number format and runtime of each, as `on` takes them.
        """
        parts: dict[str | None, list[tuple[Device, str | None, str | None]]] = defaultdict(list)
        for device, precision, runtime in asked:
            built = precision in self._built
            parts[precision if built else None].append(
                (device, None if built else precision, runtime)
            )
        for part, each in parts.items():
            self._built.get(part or "", self)._prepare(each)

    def _prepare(self, asked: Sequence[tuple[Device, str | None, str | None]]) -> None:
        keys = {(id(one[0]), *one[1:]): one for one in asked}
        new = {key: one for key, one in keys.items() if key not in self._known.points}
        machines = [self._machine(device) for device, _, _ in new.values()]
        settings = [self._asked(*how) for _, *how in new.values()]
        found = answers(self.bench, list(zip(machines, settings, strict=True)))
        for key, machine, answer in zip(new, machines, found, strict=True):
            self._known.points[key] = self._judged(machine, answer)

    def best_case(
        self,
        device: Device,
        precision: str | None = None,
        price: float | None = None,
        runtime: str | None = None,
    ) -> Point:
        """The model at the speed of light, without a look at kernels: no run does better.

        Arguments are those of `on`. What this point misses, that of `on` misses by no less.
        """
        if precision in self._built:
            return self._built[precision].best_case(device, None, price, runtime)
        settings, machine = self._asked(precision, runtime), self._machine(device)
        chosen = machine.chosen(self.bench.workload, settings)
        key = id(device), chosen.precision, machine.plan(chosen.runtime.runtime).resident_bytes
        if key not in self._known.sol:
            self._known.sol[key] = proved_seconds(self.bench, machine, chosen)
        needed = self.bench.footprint(chosen, machine)
        return self._made(
            machine,
            chosen,
            needed,
            facts_on(
                device,
                items=self.sizes.get("batch", 1),
                expected=None,
                roofline_s=None,
                sol_s=self._known.sol[key],
                least_s=least_seconds(self.bench, machine, chosen),
                memory_bytes=needed.total_bytes,
                on_host=sentence(left_to_host(self.bench, machine, chosen)),
                price=price,
            ),
        )

    def takes(self, device: Device) -> bool:
        """Whether a device has the engine and the sparsity that were asked for."""
        try:
            check_asked(device, self._settings)
        except InputError:
            return False
        return True

    def predicts(self, device: Device, runtime: Runtime) -> bool:
        """Whether anything was measured that tells times under a runtime on a device."""
        if runtime.networks_only and self.bench.language:
            return False
        return self._machine(device).estimator(runtime) is not None

    def _machine(self, device: Device) -> Machine:
        if id(device) not in self._known.machines:
            self._known.machines[id(device)] = machine_on(device, self._settings)
        return self._known.machines[id(device)]

    def _asked(self, precision: str | None, runtime: str | None) -> Settings:
        return replace(
            self._settings,
            precision=precision or self._settings.precision,
            runtime=runtime or self._settings.runtime,
        )

    def _judged(self, machine: Machine, found: MachineTimes) -> Point:
        device = machine.device
        table = found.table  # a point keeps no more than that of its answer
        roofs = machine.roofs_under(found.runtime)
        total = totals(table, found.held, found.expected, roofs)
        needed = self.bench.footprint(found.chosen, machine)
        facts = facts_on(
            device,
            items=self.sizes.get("batch", 1),
            expected=found.expected.total,
            roofline_s=found.held.time_s,
            sol_s=found.sol_time_s,
            memory_bytes=needed.total_bytes,
            left_out=without_formula(sum(op.repeat for op in found.table.unmodelled)),
            on_host=sentence(found.table.on_host),
            energy=energy(total, device, self.sizes.get("batch", 1)),
            proved=found.proved,
            doubt=lambda factor: doubt_of(sol_of(table, machine.limits), factor),
        )
        bound = total.bound if binding_of(found.held.total_busy) else None
        made = self._made(machine, found.chosen, needed, facts)
        return msgspec.structs.replace(
            made,
            arithmetic_intensity=total.arithmetic_intensity,
            bound=bound,
            limited_by=found.expected.limited_by,
        )

    @staticmethod
    def _made(machine: Machine, chosen: Resolved, needed: Footprint, facts: Facts) -> Point:
        """A point of which nothing is known that follows from kernels."""
        return Point(
            facts=facts,
            precision=chosen.precision,
            precision_reason=chosen.precision_reason,
            runtime=chosen.runtime.runtime.id,
            runtime_reason=chosen.runtime.reason,
            arithmetic_intensity=None,
            bound=None,
            limited_by=None,
            capacity_bytes=machine.roofs.capacity_bytes,
            fits=needed.fits,
        )
