"""Energy and power: static share x time + work x energy per FLOP + bytes x energy per byte."""

from __future__ import annotations

from collections.abc import Iterable

from gambrel.analysis.energy_constants import (
    Sourced,
    memory_energy,
    node_of,
    static_power,
    work_energy,
)
from gambrel.analysis.measures import EngineWork, Measures
from gambrel.analysis.needs import EnergyEstimate
from gambrel.device.model import Device, Source


def energy(total: Measures, device: Device, inferences: int) -> EnergyEstimate:
    """Estimates the energy of a run.

    The time is the expected one where there is one, else the bound. A part without a published
    constant is None, and then so is the sum: what remains is the upper bound, the device's thermal
    design power for that time. An estimate above that bound is capped by it.

    Args:
        total: Measures of the whole.
        device: The machine.
        inferences: Items at once (the batch).
    """
    expected = total.expected_time_s
    time_s = expected.value if expected is not None else total.roofline_time_s
    parts = _Parts()
    static = parts.static(device, time_s)
    compute = parts.compute(total.work, device)
    memory = parts.memory(total.traffic_bytes, device)
    limit = None if device.tdp_w is None or time_s is None else device.tdp_w * time_s
    known = (
        None if None in (static, compute, memory) else sum(filter(None, (static, compute, memory)))
    )
    value = known if known is None or limit is None else min(known, limit)
    return EnergyEstimate(
        energy_j=value,
        static_j=static,
        compute_j=compute,
        memory_j=memory,
        energy_upper_bound_j=limit,
        capped=known is not None and value != known,
        time_s=time_s,
        time_kind="expected" if expected is not None else "roofline",
        inferences=inferences,
        confidence="low" if value is not None else "unknown",
        reason=_reason(value, parts),
        missing=tuple(parts.missing),
        notes=tuple(dict.fromkeys(parts.notes)),
        sources=tuple(dict.fromkeys(parts.sources)),
    )


def _reason(value: float | None, parts: _Parts) -> str:
    if value is None:
        return "no published constant for " + "; ".join(parts.missing)
    unread = sum(s.confidence == "unverified" for s in dict.fromkeys(parts.sources))
    checked = f" ({unread} not compared with their source)" if unread else ""
    return (
        f"published constants{checked}, not measured on this device; arithmetic units alone are "
        "counted, without operand delivery, instruction issue and movement on the chip, so the "
        "true figure lies between this and the upper bound"
    )


class _Parts:
    """Gathers the three parts, what they rest on and what they lack."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.sources: list[Source] = []

    def static(self, device: Device, time_s: float | None) -> float | None:
        if time_s is None:
            self.missing.append("the run's time (no known roof)")
            return None
        found = self._use(static_power(device), f"the static power of {device.id}")
        return None if found is None else found * time_s

    def compute(self, work: Iterable[EngineWork], device: Device) -> float | None:
        joules: float | None = 0.0
        for item in work:
            if item.work_class == "special":
                if item.flops:
                    self.notes.append("evaluations of special functions are not counted")
                continue
            if not item.flops:
                continue
            dtype = item.engine_dtype or item.dtype
            node = node_of(device) or "an unknown process node"
            found = self._use(
                work_energy(device, item.work_class, dtype), f"{dtype} arithmetic in {node}"
            )
            joules = None if found is None or joules is None else joules + found * item.flops
        return joules

    def memory(self, traffic_bytes: int, device: Device) -> float | None:
        if not traffic_bytes:
            return 0.0
        found = self._use(memory_energy(device), f"the memory of {device.id}")
        return None if found is None else found * traffic_bytes

    def _use(self, found: Sourced | None, what: str) -> float | None:
        if found is None:
            if what not in self.missing:
                self.missing.append(what)
            return None
        self.sources.extend(found.sources)
        if found.note:
            self.notes.append(found.note)
        return found.value
