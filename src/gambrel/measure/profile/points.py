"""One op of a profile, and the whole: what was measured beside what was computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from statistics import fmean as mean
from typing import Final

import msgspec

from gambrel.analysis.result import OpResult
from gambrel.device.model import Device
from gambrel.measure.profile import memory_level, on_gpu
from gambrel.measure.profile.join import JoinedCalls
from gambrel.measure.profile.run import Runs

#: Above this a utilization is not noise of the clock but needs an explanation.
_ABOVE: Final = 1.0
#: Below this the roofline explains little of the time.
_FAR_BELOW: Final = 0.2
#: Transcendental functions matter from one in so many vector operations on.
_MANY_SPECIAL: Final = 8
#: Shorter ops are mostly the framework's own work: dispatch costs microseconds.
_SHORT_S: Final = 20e-6
#: At least so many times its bound and shorter than this: on a slow or busy host calls take longer.
_TINY: Final = 50
_CALL_S: Final = 200e-6
#: glibc maps memory anew for larger blocks; each page is then touched for the first time.
#: Source: mallopt(3), M_MMAP_THRESHOLD, DEFAULT_MMAP_THRESHOLD_MAX on 64-bit systems.
_FRESH_BYTES: Final = 32 << 20


class RooflinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One op: its work and traffic from the capture, its time from the profile.

    Attributes:
        name: Module path with the framework's op.
        type: Neutral kind, e.g. ``"convolution"``.
        module: Module path.
        flops: Work on the main class of engine, FLOP.
        traffic_bytes: Compulsory bytes.
        arithmetic_intensity: FLOP/byte.
        time_s: Mean over the steady steps; None when the profile has no call for this op.
        spread: (95% quantile - 5% quantile) / median over steps; None as above.
        achieved_flop_per_s: ``flops / time_s``.
        achieved_byte_per_s: ``traffic_bytes / time_s``.
        bound: ``"compute"``, ``"memory"``, ``"network"``, or ``"unknown"``.
        roofline_time_s: No run is faster, data that stayed in cache apart.
        expected_time_s: Calibrated estimate; None without one.
        utilization: ``roofline_time_s / time_s``: the share of the roofline that was reached.
        reason: Why it is above the roof or far below it; empty otherwise.
        phase: ``forward``, ``backward`` or ``optimizer``.
        count: Ops that the row stands for: more than one in a fused kernel.
        work_class: ``"matrix"`` or ``"vector"``: what ``flops`` are; empty without work.
        served_by: Cache that served an op that moved its data faster than main memory can: the
            smallest that holds them; empty for other ops, and where none does.
    """

    name: str
    type: str
    module: str
    flops: int
    traffic_bytes: int
    arithmetic_intensity: float
    time_s: float | None
    spread: float | None
    achieved_flop_per_s: float | None
    achieved_byte_per_s: float | None
    bound: str
    roofline_time_s: float | None
    expected_time_s: float | None
    utilization: float | None
    reason: str = ""
    phase: str = "forward"
    count: int = 1
    work_class: str = ""
    served_by: str = ""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run: the parts, and what lies between them.

    Attributes:
        plain_s: Mean steady step without instruments: the time that a user waits.
        plain_spread: (95% quantile - 5% quantile) / median of those steps.
        instrumented_s: Mean steady step with the profiler.
        ops_s: Sum of the ops' times.
        unmatched_s: Time of calls that are no op of the capture.
        covered: (Ops + unmatched) / the profiled step that they come from, mean over steady steps.
        steps: Steps without instruments.
        profiled_steps: Steps with them.
        peak_bytes: Most memory held at once; None where it is not counted.
        predicted_bytes: The same as predicted.
        counted_flops: FLOP of a step by the processor's counters; None where they cannot be read.
        counted_bytes: Bytes of a step by the memory controllers' counters, what else the machine
            did included; None as above.
        computed_flops: FLOP of the ops, matrix and vector work together.
        computed_bytes: Their compulsory bytes.
        counters_missing: Why something could not be counted.
        device_busy_s: Time of a profiled step in which the GPU ran something; None on a CPU.
        device_sum_s: Durations of all kernels of that step together: more than the time that the
            GPU was busy where kernels ran side by side. Times of ops are parts of this sum.
    """

    plain_s: float
    plain_spread: float
    instrumented_s: float
    ops_s: float
    unmatched_s: float
    covered: float
    steps: int
    profiled_steps: int
    peak_bytes: int | None = None
    predicted_bytes: int | None = None
    counted_flops: float | None = None
    counted_bytes: float | None = None
    computed_flops: int | None = None
    computed_bytes: int | None = None
    counters_missing: tuple[str, ...] = ()
    device_busy_s: float | None = None
    device_sum_s: float | None = None

    @property
    def gap_s(self) -> float:
        """End-to-end minus the parts: the framework between ops, idle.

        Negative when the instruments slowed the ops by more than that.
        """
        return self.plain_s - self.ops_s - self.unmatched_s

    @property
    def instrumentation_s(self) -> float:
        """What the profiler added to a step."""
        return self.instrumented_s - self.plain_s

    @property
    def explained(self) -> float:
        """Sum of the parts / end-to-end time."""
        return (self.ops_s + self.unmatched_s) / self.plain_s


def steady(seconds: Sequence[float]) -> tuple[int, ...]:
    """The positions of the steps in the middle half by their time.

    Like a median, their mean does not follow a step that something interrupted; unlike the medians
    of parts, the means of parts over the same steps add up to that of the whole.
    """
    order = sorted(range(len(seconds)), key=lambda i: seconds[i])
    cut = len(order) // 4
    return tuple(order[cut : len(order) - cut])


def points(
    rows: Sequence[OpResult],
    device: Device,
    steps: Sequence[JoinedCalls],
    kept: Sequence[int],
    tf32: Set[str] = frozenset(),
) -> tuple[RooflinePoint, ...]:
    """Joins the rows of an analysis with the times of each step.

    Args:
        rows: Of the same capture, one an op or a kernel.
        device: That they were held against.
        steps: One entry a profiled step, each with one time a row.
        kept: The steady ones of them.
        tf32: Kinds of op that a GPU may run in TF32 where the model is in fp32.
    """
    return tuple(
        _point(
            op,
            [t for k in kept if (t := steps[k].times_s[i]) is not None],
            [t for s in steps if (t := s.times_s[i]) is not None],
            device,
            tf32,
        )
        for i, op in enumerate(rows)
    )


def totals(runs: Runs, steps: Sequence[JoinedCalls], found: Sequence[RooflinePoint]) -> Totals:
    """The whole of a run."""
    kept = steady(runs.instrumented_s)
    return Totals(
        plain_s=mean([runs.plain_s[i] for i in steady(runs.plain_s)]),
        plain_spread=spread_of(runs.plain_s),
        instrumented_s=mean([runs.instrumented_s[i] for i in kept]),
        ops_s=sum(p.time_s for p in found if p.time_s is not None),
        unmatched_s=mean([sum(t for _, t in steps[i].unmatched) for i in kept]),
        covered=mean([_parts_s(steps[i]) / runs.instrumented_s[i] for i in kept]),
        steps=len(runs.plain_s),
        profiled_steps=len(runs.instrumented_s),
        peak_bytes=runs.peak_bytes,
        counted_flops=runs.counted.flops if runs.counted else None,
        counted_bytes=runs.counted.traffic_bytes if runs.counted else None,
        counters_missing=runs.counted.missing if runs.counted else (),
        device_busy_s=mean([runs.device[i].busy_s for i in kept]) if runs.device else None,
        device_sum_s=mean([runs.device[i].sum_s for i in kept]) if runs.device else None,
    )


def _parts_s(step: JoinedCalls) -> float:
    return sum(t or 0.0 for t in step.times_s) + sum(t for _, t in step.unmatched)


def spread_of(values: Sequence[float]) -> float:
    """(95% quantile - 5% quantile) / median."""
    import numpy as np

    low, mid, high = np.quantile(np.asarray(values, dtype=float), [0.05, 0.5, 0.95])
    return float((high - low) / mid) if mid else 0.0


def _point(
    op: OpResult,
    times: Sequence[float],
    every: Sequence[float],
    device: Device,
    tf32: Set[str],
) -> RooflinePoint:
    m = op.measures
    time_s = mean(times) if times else None
    ran = time_s is not None and time_s > 0
    utilization = m.roofline_time_s / time_s if ran and time_s and m.roofline_time_s else None
    byte_per_s = m.traffic_bytes / time_s if ran and time_s else None
    level = memory_level.holding(m.traffic_bytes, device)
    return RooflinePoint(
        name=op.name,
        type=op.kind,
        module=op.module,
        flops=m.flops,
        traffic_bytes=m.traffic_bytes,
        arithmetic_intensity=m.arithmetic_intensity,
        time_s=time_s,
        spread=spread_of(every) if ran else None,
        achieved_flop_per_s=m.flops / time_s if ran and time_s else None,
        achieved_byte_per_s=byte_per_s,
        bound=m.bound.value if m.bound else "unknown",
        roofline_time_s=m.roofline_time_s,
        expected_time_s=m.expected_time_s.value if m.expected_time_s else None,
        utilization=utilization,
        reason=_reason(op, time_s, byte_per_s, utilization, device, tf32),
        phase=op.phase,
        count=op.count,
        work_class="matrix" if m.matrix_flops else "vector" if m.vector_flops else "",
        served_by=level.name if level and memory_level.beyond_memory(byte_per_s, device) else "",
    )


def main_flops(points: Iterable[RooflinePoint]) -> int:
    """Work on the main class of engine: matrix work where there is any; never a sum of both."""
    found = list(points)
    matrix = sum(p.flops for p in found if p.work_class == "matrix")
    return matrix or sum(p.flops for p in found)


def _reason(
    op: OpResult,
    time_s: float | None,
    byte_per_s: float | None,
    utilization: float | None,
    device: Device,
    tf32: Set[str],
) -> str:
    if time_s is None:
        return "no call of the profile is this op"
    if utilization is None:
        return ""
    if utilization > _ABOVE:
        return _above(op, byte_per_s, device, tf32)
    if utilization < _FAR_BELOW:
        return _below(op, time_s, device)
    return ""


def _above(op: OpResult, byte_per_s: float | None, device: Device, tf32: Set[str]) -> str:
    m = op.measures
    causes = on_gpu.above(op, device, tf32)
    memory = m.bound is not None and m.bound.value == "memory"
    if memory and (told := memory_level.cause(m.traffic_bytes, byte_per_s, device)):
        causes.append(told)
    if m.bound is not None and m.bound.value == "compute":
        causes.append("an algorithm with less arithmetic (Winograd, FFT) may have run")
    if not (
        memory and memory_level.explained(memory_level.holding(m.traffic_bytes, device), byte_per_s)
    ):
        causes.append("the measured peak may be too low (busy machine, lower clock)")
    return "above the roof: " + "; or ".join(causes)


def _below(op: OpResult, time_s: float, device: Device) -> str:
    if device.category != "cpu" and (said := on_gpu.below(time_s)):
        return said
    if time_s < _SHORT_S or (op.measures.roofline_time_s or 0.0) * _TINY < time_s < _CALL_S:
        return "small problem: the call itself takes most of the time"
    if device.category == "cpu" and op.measures.write_bytes >= _FRESH_BYTES:
        return (
            "its output is larger than 32 MiB: the allocator maps fresh pages on every call, and "
            "first touches are far slower than DRAM"
        )
    if math.isinf(op.measures.arithmetic_intensity):
        return ""
    if op.measures.special_ops * _MANY_SPECIAL >= op.measures.vector_flops > 0:
        return "transcendental functions have no roof here and may limit it"
    if op.measures.matrix_flops:
        return "the library's kernel is far from this roof: see what libraries attain in peaks"
    return "the library's kernel is far from this roof"
