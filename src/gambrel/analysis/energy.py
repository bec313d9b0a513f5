"""Energy and power of a run.

Where whole runs on a class of device were measured, shares of the design power fitted to them;
elsewhere static power x time + work x energy per FLOP + bytes x energy per byte, from published
constants; else the typical power that the maker states, x time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gambrel.analysis.energy_constants import (
    PowerShares,
    Sourced,
    measured_shares,
    memory_energy,
    node_of,
    static_power,
    work_energy,
)
from gambrel.analysis.measures import Bound, EngineWork, Measures
from gambrel.analysis.needs import EnergyEstimate
from gambrel.device.model import Device, Source
from gambrel.ops.base import Size, minimum


def energy(total: Measures, device: Device, inferences: int) -> EnergyEstimate:
    """Estimates the energy of a run.

    The time is the expected one where there is one, else the roofline's. The upper bound is the
    most power that the device draws, for the slow end of the range of that time; an estimate above
    the most power for the time itself is capped by it.

    Args:
        total: Measures of the whole.
        device: The machine.
        inferences: Items at once (the batch).
    """
    expected = total.expected_time_s
    time_s = expected.value if expected is not None else total.roofline_time_s
    slow_s = expected.high if expected is not None else time_s
    parts = _parts(total, device, time_s)
    most = None if device.tdp_w is None or time_s is None else device.tdp_w * time_s
    value = parts.sum_j if parts.sum_j is None or most is None else min(parts.sum_j, most)
    return EnergyEstimate(
        energy_j=value,
        static_j=parts.static_j,
        compute_j=parts.compute_j,
        memory_j=parts.memory_j,
        energy_upper_bound_j=None
        if device.tdp_w is None or slow_s is None
        else device.tdp_w * slow_s,
        capped=parts.sum_j is not None and value != parts.sum_j,
        time_s=time_s,
        time_kind="expected" if expected is not None else "roofline",
        inferences=inferences,
        confidence=parts.confidence if value is not None else "unknown",
        reason=parts.reason if value is not None else _unknown(parts.missing),
        power_low_w=parts.low_w,
        power_high_w=parts.high_w,
        missing=tuple(parts.missing),
        notes=tuple(dict.fromkeys(parts.notes)),
        sources=tuple(dict.fromkeys(parts.sources)),
    )


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What an estimate consists of, by one of the three methods."""

    static_j: float | None = None
    compute_j: float | None = None
    memory_j: float | None = None
    sum_j: float | None
    confidence: str = "low"
    reason: str = ""
    low_w: float | None = None
    high_w: float | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


def _parts(total: Measures, device: Device, time_s: float | None) -> _Parts:
    shares = measured_shares(device)
    if shares is not None and device.tdp_w is not None and time_s:
        busy = _busy_times(total)
        if busy is not None:
            return _measured(shares, device, device.tdp_w, time_s, busy, total)
    found = _Constants().parts(total, device, time_s)
    if found.sum_j is None and device.typical_power_w is not None and time_s:
        return _typical(device, device.typical_power_w * time_s)
    return found


def _busy_times(total: Measures) -> tuple[float, float] | None:
    """Seconds at the peak of the arithmetic and of the memory; None where a roof is unknown."""
    work = [w for w in total.work if w.flops and w.work_class != "special"]
    if any(w.time_s is None for w in work):
        return None
    memory = [t.time_s for t in total.times if t.bound is Bound.MEMORY]
    if total.traffic_bytes and not memory:
        return None
    return sum(w.time_s or 0.0 for w in work), max(memory, default=0.0)


def _measured(
    shares: PowerShares,
    device: Device,
    tdp_w: float,
    time_s: float,
    busy: tuple[float, float],
    total: Measures,
) -> _Parts:
    """Shares of the design power; while the device waits for the host it is idle."""
    waits = total.expected_time_s.host_s if total.expected_time_s is not None else 0.0
    static, compute, memory = _drawn(shares, device, tdp_w, time_s - waits, waits, busy)
    whole = static + compute + memory
    average = whole * (1 / time_s)
    own = (device.idle_power_source,) if device.idle_power_source is not None else ()
    return _Parts(
        static_j=static,
        compute_j=compute,
        memory_j=memory,
        sum_j=whole,
        confidence="medium",
        reason=(
            f"fitted to {shares.rows} measured medians of whole runs on this class of device, "
            f"{shares.error:.0%} from them on average"
        ),
        low_w=min(average, tdp_w) * shares.low,
        high_w=min(average * shares.high, tdp_w),
        notes=(shares.note,),
        sources=(shares.source, *own),
    )


def _drawn(
    shares: PowerShares,
    device: Device,
    tdp_w: float,
    runs_s: Size,
    waits_s: Size,
    busy: tuple[Size, Size],
) -> tuple[Size, Size, Size]:
    """J drawn in any case, by the arithmetic, and by the memory."""
    idle = device.idle_power_w if device.idle_power_w is not None else shares.busy * tdp_w
    static = shares.busy * tdp_w * runs_s + idle * waits_s
    return static, shares.compute * tdp_w * busy[0], shares.memory * tdp_w * busy[1]


def energy_of_points(
    work: Iterable[tuple[EngineWork, Size]],
    traffic_bytes: Size,
    memory_s: Size | None,
    device: Device,
    time_s: Size,
    waits_s: Size,
) -> Size | None:
    """As `energy`, over arrays of one value per point; None where a part has no constant.

    Args:
        work: One FLOP of each class of work as the device does it, and how many there are.
        traffic_bytes: Of the run.
        memory_s: Seconds that its memory is busy; None where its roof is unknown.
        device: The machine.
        time_s: Of the run.
        waits_s: Of these, what the device waits for the host.
    """
    pairs = [(one, flops) for one, flops in work if one.work_class != "special"]
    joules: Size | None = None
    shares = measured_shares(device)
    known = memory_s is not None and all(one.time_s is not None for one, _ in pairs)
    if shares is not None and device.tdp_w is not None and known:
        busy = sum((one.time_s or 0.0) * flops for one, flops in pairs)
        parts = _drawn(shares, device, device.tdp_w, time_s - waits_s, waits_s, (busy, memory_s))
        joules = sum(parts)
    else:
        constants = _Constants()
        each = constants.parts_of(device, [one for one, _ in pairs])
        if each is not None:
            static, compute, memory = each
            joules = static * time_s + memory * traffic_bytes
            for (_, flops), one in zip(pairs, compute, strict=True):
                joules = joules + one * flops
        elif device.typical_power_w is not None:
            joules = device.typical_power_w * time_s
    if joules is None or device.tdp_w is None:
        return joules
    return minimum(joules, device.tdp_w * time_s)


def _typical(device: Device, joules: float) -> _Parts:
    source = device.typical_power_source
    return _Parts(
        sum_j=joules,
        reason="the typical power that is stated for the device, for the time of the run",
        sources=() if source is None else (source,),
    )


def _unknown(missing: Iterable[str]) -> str:
    return "no published constant for " + "; ".join(missing)


class _Constants:
    """Gathers the parts from published constants, what they rest on and what they lack."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.sources: list[Source] = []

    def parts(self, total: Measures, device: Device, time_s: float | None) -> _Parts:
        """All three, and their sum where none is unknown."""
        static = self._static(device, time_s)
        compute = self._compute(total.work, device)
        memory = self._memory(total.traffic_bytes, device)
        known = static is not None and compute is not None and memory is not None
        return _Parts(
            static_j=static,
            compute_j=compute,
            memory_j=memory,
            sum_j=sum(filter(None, (static, compute, memory))) if known else None,
            reason=self._reason(),
            missing=tuple(self.missing),
            notes=tuple(self.notes),
            sources=tuple(self.sources),
        )

    def parts_of(
        self, device: Device, work: Iterable[EngineWork]
    ) -> tuple[float, list[float], float] | None:
        """W of static power, J of one FLOP of each class, J of a byte; None where one is unknown.

        Args:
            device: The machine.
            work: One FLOP of each class of work.
        """
        static, memory = self._static(device, 1.0), self._memory(1, device)
        each = [self._compute([one], device) for one in work]
        if static is None or memory is None or None in each:
            return None
        return static, [one or 0.0 for one in each], memory

    def _reason(self) -> str:
        unread = sum(s.confidence == "unverified" for s in dict.fromkeys(self.sources))
        checked = f" ({unread} not compared with their source)" if unread else ""
        return (
            f"published constants{checked}, not measured on this device; arithmetic units alone "
            "are counted, without operand delivery, instruction issue and movement on the chip, "
            "so the true figure lies between this and the upper bound"
        )

    def _static(self, device: Device, time_s: float | None) -> float | None:
        if time_s is None:
            self.missing.append("the run's time (no known roof)")
            return None
        power = self._use(static_power(device), f"the static power of {device.id}")
        return None if power is None else power * time_s

    def _compute(self, work: Iterable[EngineWork], device: Device) -> float | None:
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
            each = self._use(
                work_energy(device, item.work_class, dtype), f"{dtype} arithmetic in {node}"
            )
            joules = None if each is None or joules is None else joules + each * item.flops
        return joules

    def _memory(self, traffic_bytes: int, device: Device) -> float | None:
        if not traffic_bytes:
            return 0.0
        each = self._use(memory_energy(device), f"the memory of {device.id}")
        return None if each is None else each * traffic_bytes

    def _use(self, constant: Sourced | None, what: str) -> float | None:
        if constant is None:
            if what not in self.missing:
                self.missing.append(what)
            return None
        self.sources.extend(constant.sources)
        if constant.note:
            self.notes.append(constant.note)
        return constant.value
