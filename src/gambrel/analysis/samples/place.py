"""Samples under the roofs: achieved rate, intensity per level, the bound, and how close it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.analysis.measures import Bound
from gambrel.analysis.samples.aggregate import aggregate, merge
from gambrel.analysis.samples.records import (
    OWN_ROOFS,
    PROFILED,
    Known,
    MeasuredTraffic,
    MeasuredWork,
    Sample,
    Samples,
)
from gambrel.analysis.samples.warn import above_roof, warnings_of, warnings_together
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, resolve
from gambrel.dtypes import BITS
from gambrel.errors import UnknownNameError
from gambrel.units import format_si


class LevelPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A sample at one memory level.

    Attributes:
        level: ``DRAM``, ``L2``, ``L1`` or ``shared``.
        traffic_bytes: None where only a rate is known.
        arithmetic_intensity: FLOP/byte; None where work or bytes are unknown, infinite for no byte.
        byte_per_s: Achieved rate; None without a time.
        peak_byte_per_s: Roof; None where the device publishes none.
        utilization: Achieved / roof.
        how: Definition of the bytes.
        others: Bytes by other definitions.
        error: Relative error that the way of counting can bring.
    """

    level: str
    traffic_bytes: int | None
    arithmetic_intensity: float | None
    byte_per_s: float | None
    peak_byte_per_s: float | None
    utilization: float | None
    how: str
    others: dict[str, int]
    error: float


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A sample with everything that follows from it and the device.

    Attributes:
        sample: What was measured.
        flop_per_s: Achieved; None where work or time is unknown.
        levels: By memory level.
        peak_flop_per_s: Roof of the main work (harmonic over formats); None when unknown.
        bound: Class of the resource with the longest busy time; None when it cannot be told.
        binding: That resource: an engine and format, or a memory level.
        roofline_time_s: Its busy time at the roof.
        roofline_efficiency: ``roofline_time_s / time_s``: achieved / attainable.
        time_share: Share of the time of all samples.
        warnings: What looks wrong, each with its likely causes.
        findings: What to look at: recorded shares, occupancy, latency.
    """

    sample: Sample
    flop_per_s: float | None
    levels: tuple[LevelPlace, ...]
    peak_flop_per_s: float | None
    bound: Bound | None
    binding: str
    roofline_time_s: float | None
    roofline_efficiency: float | None
    time_share: float | None
    warnings: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def headroom_s(self) -> float | None:
        """Seconds that a run at the roof would save; None where the roof or the time is unknown."""
        if self.roofline_time_s is None or not self.sample.time_s:
            return None
        return max(self.sample.time_s - self.roofline_time_s, 0.0)

    @property
    def instruction_per_s(self) -> float | None:
        """Warp instructions per second; None where they or the time are not recorded."""
        s = self.sample
        return s.instructions / s.time_s if s.instructions is not None and s.time_s else None

    def level(self, name: str) -> LevelPlace | None:
        """The sample at one memory level; None where nothing is known of it."""
        return next((x for x in self.levels if x.level == name), None)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of some files under the roofs of one device.

    Attributes:
        samples: As read.
        device: Whose roofs; None where no device is known.
        by: How launches were added up.
        kernels: In the order asked for, by default the one with the most time first.
        total: All of them together.
        notes: Of the files, the device and the roofs.
    """

    samples: Samples
    device: Device | None
    by: str
    kernels: tuple[Placed, ...]
    total: Placed
    notes: tuple[str, ...]


#: By what kernels are listed; the sort is stable, and they come by time.
ORDERS: Final[dict[str, Callable[[Placed], float]]] = {
    "time": lambda k: -(k.sample.time_s or 0.0),
    "headroom": lambda k: -(k.headroom_s or 0.0),
    "flops": lambda k: -(k.sample.flops or 0.0),
    "efficiency": lambda k: math.inf if k.roofline_efficiency is None else k.roofline_efficiency,
}


def place(
    samples: Samples,
    device: Device | None = None,
    *,
    by: str = "kernel",
    order: str = "time",
    notes: Sequence[str] = (),
) -> Standing:
    """Holds samples against a device.

    Args:
        samples: As read.
        device: Whose roofs to use; None takes the ceilings that the files hold, if any.
        by: How to add launches up, a key of `GROUPINGS`.
        order: What comes first, a key of `ORDERS`.
        notes: About the device, passed on.

    Raises:
        UnknownNameError: No such grouping or order.
    """
    if order not in ORDERS:
        raise UnknownNameError("order", order, ORDERS)
    roofs = device or samples.device
    merged = aggregate(samples.launches, by)
    whole = sum(s.time_s or 0.0 for s in merged)
    total = merge(samples.launches, "all kernels") if samples.launches else Sample(name="nothing")
    together = warnings_together(merged)
    own = roofs is None or roofs is samples.device
    told = [n for n in samples.notes if own or not n.startswith(OWN_ROOFS)]
    about = (*told, *notes, *_unnamed(samples, roofs))
    kernels = tuple(
        _place(s, roofs, whole, extra=together.get(i, ())) for i, s in enumerate(merged)
    )
    return Standing(
        samples=samples,
        device=roofs,
        by=by,
        kernels=tuple(sorted(kernels, key=ORDERS[order])),
        total=_place(total, roofs, whole, warn=False),
        notes=tuple(dict.fromkeys(about)),
    )


def _unnamed(samples: Samples, device: Device | None) -> tuple[str, ...]:
    unnamed = any(w.dtype == "any" for s in samples.launches for w in s.work)
    if device is None or not unnamed or any(c.dtype == "any" for c in device.ceilings):
        return ()
    assumed = default_precision(device)[0]
    return (f"work without a number format is held against the {assumed} roof; give --precision",)


def _place(
    sample: Sample,
    device: Device | None,
    whole_s: float,
    *,
    warn: bool = True,
    extra: tuple[str, ...] = (),
) -> Placed:
    flops, time = sample.flops, sample.time_s or None
    levels = tuple(_level(t, sample, device) for t in sample.traffic)
    busy = _busy(sample, device, levels)
    bound, binding, bound_time = _binding(sample, busy)
    efficiency = bound_time / time if bound_time is not None and time else None
    warnings: tuple[str, ...] = ()
    if warn:
        above = above_roof(binding, bound, efficiency)
        warnings = (*above, *warnings_of(sample), *extra)
    return Placed(
        sample=sample,
        flop_per_s=flops / time if flops is not None and time else None,
        levels=levels,
        peak_flop_per_s=_peak(sample, device),
        bound=bound,
        binding=binding,
        roofline_time_s=bound_time,
        roofline_efficiency=efficiency,
        time_share=time / whole_s if time and whole_s else None,
        warnings=warnings,
        findings=_findings(sample, efficiency, levels) if warn else (),
    )


def _level(t: MeasuredTraffic, sample: Sample, device: Device | None) -> LevelPlace:
    known = device.level(t.level) if device else None
    peak = known.byte_per_s if known else None
    rate = t.byte_per_s
    if t.traffic_bytes is not None and sample.time_s:
        rate = t.traffic_bytes / sample.time_s
    return LevelPlace(
        level=t.level,
        traffic_bytes=t.traffic_bytes,
        arithmetic_intensity=_intensity(sample.flops, t.traffic_bytes),
        byte_per_s=rate,
        peak_byte_per_s=peak,
        utilization=roofline.ratio(rate, peak) if rate is not None and peak else None,
        how=t.how,
        others=t.others,
        error=t.error,
    )


def _intensity(flops: int | None, size: int | None) -> float | None:
    if flops is None or size is None:
        return None
    if flops == 0:
        return 0.0
    return flops / size if size else math.inf


def _roof(work: MeasuredWork, device: Device) -> float | None:
    """The roof of some work; None where the device has none for its format."""
    if work.dtype == "any":
        # Points need not say in what they ran: held against what the device is made for.
        roof = resolve(device, "matrix", default_precision(device)[0])
    elif work.dtype in BITS:
        engine = "matrix" if (device.id, work.work_class) == (PROFILED, "matrix") else None
        roof = resolve(device, work.work_class, work.dtype, sparsity=work.sparse, engine=engine)
    else:
        return None
    return None if roof is None else roof.flop_per_s


def _busy(
    sample: Sample, device: Device | None, levels: Sequence[LevelPlace]
) -> dict[tuple[Bound, str], float]:
    """Seconds that each resource is busy at its roof. Formats of one engine share it: they add."""
    busy: dict[tuple[Bound, str], float] = {}
    if device is not None and sample.state is Known.COUNTED:
        engines: dict[str, list[tuple[str, float]]] = {}
        for w in sample.work:
            peak = _roof(w, device)
            if peak and not w.suspect:
                engines.setdefault(w.work_class, []).append(
                    (w.dtype, roofline.seconds(w.flops, peak))
                )
        for engine, parts in engines.items():
            named = ", ".join(d for d, s in parts if s and d != "any")
            busy[Bound.COMPUTE, f"{engine} {named}".strip()] = sum(s for _, s in parts)
    for x in levels:
        if x.traffic_bytes is not None and x.peak_byte_per_s:
            busy[Bound.MEMORY, x.level] = roofline.seconds(x.traffic_bytes, x.peak_byte_per_s)
    return busy


def _binding(
    sample: Sample, busy: dict[tuple[Bound, str], float]
) -> tuple[Bound | None, str, float | None]:
    """The resource with the longest busy time; unknown as long as one side of the roof is."""
    counted = sample.state is Known.COUNTED
    has_compute = any(kind is Bound.COMPUTE for kind, _ in busy) or (counted and not sample.flops)
    has_memory = any(kind is Bound.MEMORY for kind, _ in busy)
    if not (has_compute and has_memory) or not any(busy.values()):
        return None, "", None
    # A tie at the ridge is COMPUTE.
    (bound, name), time = max(busy.items(), key=lambda b: (b[1], b[0][0] is Bound.COMPUTE))
    return bound, name, time


def _peak(sample: Sample, device: Device | None) -> float | None:
    """The roof of the work that ``flops`` counts, formats weighted by their work."""
    if device is None or not sample.flops:
        return None
    matrix = any(w.work_class == "matrix" and w.flops and not w.suspect for w in sample.work)
    main = [
        w for w in sample.work if (w.work_class == "matrix") == matrix and w.flops and not w.suspect
    ]
    roofs = [_roof(w, device) for w in main]
    if not all(roofs):
        return None
    return sum(w.flops for w in main) / sum(
        w.flops / roof for w, roof in zip(main, roofs, strict=True) if roof
    )


def _busy_level(x: LevelPlace) -> str:
    """What the bytes alone say, where the work is unknown."""
    share = x.utilization or 0.0
    text = f"{x.level} moves {format_si(x.byte_per_s, 'B/s')}, {share:.1%} of its roof"
    return f"{text}: memory-bound, whatever its work" if share >= _BUSY else text


#: A memory level this busy is at what runs attain (STREAM-like copies reach 85 to 95 %).
_BUSY = 0.8
#: Below this share of the bound a kernel waits rather than works.
_LATENCY = 0.3
_LOW_OCCUPANCY = 0.3


#: Sectors that a request of 32 lanes of 4 bytes, side by side, touches; 16-byte lanes touch 16.
_DENSE_SECTORS = 4
_MANY_SECTORS = 16.5


def _scattered(sample: Sample) -> list[str]:
    """Whether the lanes of a warp touch more lines than they need."""
    per_request = sample.ratios.get("sectors per request")
    if per_request is not None and per_request > _MANY_SECTORS:
        return [
            f"uncoalesced access: {per_request:.1f} sectors of 32 bytes per request, where lanes "
            f"side by side need {_DENSE_SECTORS} (fp32) to 16 (16 bytes each)"
        ]
    return []


def _findings(
    sample: Sample, efficiency: float | None, levels: Sequence[LevelPlace]
) -> tuple[str, ...]:
    found = []
    if sample.state is not Known.COUNTED:
        found += [_busy_level(x) for x in levels if x.utilization is not None]
    shares = {n: v for n, v in sample.recorded.items() if n != "occupancy"}
    if sample.state is not Known.COUNTED and shares:
        listed = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        found.append(f"recorded by the profiler, of its own peak: {listed}")
    found += _scattered(sample)
    occupancy = sample.recorded.get("occupancy")
    if efficiency is not None and efficiency < _LATENCY:
        text = (
            f"{efficiency:.1%} of the roof: latency, too few warps, or a memory level that was not "
            "measured limits it"
        )
        low = occupancy is not None and occupancy < _LOW_OCCUPANCY
        found.append(f"{text}; occupancy is only {occupancy:.0%}" if low else text)
    elif occupancy is not None and occupancy < _LOW_OCCUPANCY:
        found.append(f"low occupancy: {occupancy:.0%} of the warps that the device can hold")
    return tuple(found)
