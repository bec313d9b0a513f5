"""What is known of one scope: an op, a module, a kind, or the whole. Data only."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, SupportsFloat

import msgspec

from gambrel import roofline
from gambrel.roofline import intensity
from gambrel.units import format_si


class Bound(StrEnum):
    """The roofline's verdict: the resource with the largest work/peak; a tie is COMPUTE."""

    COMPUTE = "compute"
    MEMORY = "memory"
    NETWORK = "network"


class Limiter(StrEnum):
    """What takes the largest share of the expected time."""

    COMPUTE = "compute"
    MEMORY = "memory"
    NETWORK = "network"
    LAUNCHES = "launches"
    HOST = "host"


class State(StrEnum):
    """What is known of an op's cost."""

    COUNTED = "counted"
    FREE = "free"
    UNMODELLED = "unmodelled"
    HOST = "host"  # counted, and left to the host by the compiler: its time is not known


#: What is said of the latency where the time between two results is all that is known.
STREAMED: Final = (
    "frames are streamed: a rate is known, and how long one frame takes to pass through is not"
)


def without_formula(count: int) -> str:
    """The ops that every figure leaves out, in words; empty where there are none."""
    return f"{count:,} op{'s' if count > 1 else ''} without a formula" if count else ""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A time with its range. Used as a number (``float()``, ``<``, formats) it is its value.

    Attributes:
        value: Seconds.
        low: Lower end of the range, s.
        high: Upper end, s.
        confidence: ``high``, ``medium`` or ``low``.
        reason: Why that confidence.
        launches_s: Part of the value that is kernel-launch overhead on the device, s.
        host_s: Part of the value in which the device waits for the host, s.
        idle_start_s: Beside the value, the time from a launch to the kernel's start on an idle
            device, which a filled queue hides, s.
        streamed: Several runs are in flight: the value is the time between two results, and one
            run takes longer from its input to its result.
        caution: What a reader must know of the kernels that were measured; empty where nothing.
    """

    value: float
    low: float
    high: float
    confidence: str
    reason: str
    launches_s: float = 0.0
    host_s: float = 0.0
    idle_start_s: float = 0.0
    streamed: bool = False
    caution: str = ""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = format_si(self.low, "s", 3), format_si(self.high, "s", 3)
        return f"{format_si(self.value, 's')} ({low} to {high}), {self.confidence} confidence"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __lt__(self, other: SupportsFloat) -> bool:
        return self.value < float(other)

    def __le__(self, other: SupportsFloat) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: SupportsFloat) -> bool:
        return self.value > float(other)

    def __ge__(self, other: SupportsFloat) -> bool:
        return self.value >= float(other)

    @property
    def launches_share(self) -> float:
        """Share of the value that is kernel-launch overhead."""
        return self.launches_s / self.value if self.value else 0.0

    @property
    def host_share(self) -> float:
        """Share of the value in which the device waits for the host."""
        return self.host_s / self.value if self.value else 0.0

    def times(self, count: float) -> Estimate:
        """The estimate of ``count`` such executions, one after another."""
        if count == 1:
            return self
        return msgspec.structs.replace(
            self,
            value=self.value * count,
            low=self.low * count,
            high=self.high * count,
            launches_s=self.launches_s * count,
            host_s=self.host_s * count,
        )


class EngineWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work on one engine in one number format, and the roof it was held against.

    Attributes:
        work_class: ``matrix``, ``vector`` or ``special``: the class of the work.
        dtype: Number format of the work.
        flops: FLOP (function evaluations for ``special``).
        engine: Engine of the device that serves it; empty when the device has no known roof.
        engine_dtype: Format of the roof (differs from ``dtype`` after a fallback).
        peak_flop_per_s: That roof; None when unknown.
        time_s: ``flops / peak``; None when the roof is unknown.
    """

    work_class: str
    dtype: str
    flops: int
    engine: str = ""
    engine_dtype: str = ""
    peak_flop_per_s: float | None = None
    time_s: float | None = None


class ResourceTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a scope keeps one resource busy at its peak rate.

    Attributes:
        resource: An engine (``matrix``, ``vector``, ...), a memory level (``DRAM``) or a link.
        bound: The class of bound that it stands for.
        time_s: Work / peak.
        utilization: Share of the resource in use at the roofline time; None where the work is
            done while other ops of the kernel take the time.
    """

    resource: str
    bound: Bound
    time_s: float
    utilization: float | None


class LevelTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What a scope asks of one memory level; see docs/levels.md.

    Attributes:
        name: ``DRAM``, ``LLC``, ``L2`` or ``L1``.
        traffic_bytes: Bytes that the level supplies or takes, on the way to the arithmetic.
        flops: Work of the scope, as `Measures.flops`.
        peak_byte_per_s: Bandwidth of the level; None when unknown.
        time_s: ``traffic_bytes / peak_byte_per_s``; None when the bandwidth is unknown.
    """

    name: str
    traffic_bytes: int
    flops: int
    peak_byte_per_s: float | None = None
    time_s: float | None = None

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP/byte at this level; 0 without work, infinite without traffic."""
        return intensity(self.flops, self.traffic_bytes)


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one scope: an op, a module, a kind, or the whole.

    ``flops`` is the work on the scope's main class of engine: matrix work where there is any (the
    figure that papers publish as "FLOPs"), otherwise vector arithmetic. Matrix and vector work are
    never added to one number, because no single roof applies to their sum.

    Attributes:
        matrix_flops: Multiply-accumulate work, FLOP (FMA = 2).
        vector_flops: Element-wise and reduction arithmetic, FLOP.
        special_ops: Transcendental function evaluations.
        read_bytes: Bytes that the runtime's kernels read from the memory level of the roof.
        write_bytes: Bytes that they write.
        link_bytes: Bytes over links to other devices, within a node and between nodes, or to the
            host.
        work: The same work by engine and number format, with the roofs used.
        times: Busy time of each resource.
        bound: The resource class with the largest busy time; None for no work and no traffic.
        sol_time_s: Speed of light: no run of this work is faster; None when no roof is known.
        sol_bound: The resource that sets it.
        sol_traffic_bytes: Bytes that must cross the memory whatever the runtime.
        roofline_time_s: Under the runtime: of each kernel the slowest resource; None when nothing
            that the scope needs has a known roof.
        expected_time_s: What a stopwatch will show under the runtime; None when nothing is known.
        limited_by: What takes the largest share of the expected time; None without one.
        peak_flop_per_s: Roof of the main engine; None when unknown.
        peak_byte_per_s: Roof of the memory; None when unknown.
        time_share: Share of the whole's roofline time.
        levels: Predicted traffic of each memory level, outermost first: reuse inside an op and
            between ops counted; empty when the scope is unmodelled or has no known memory.
    """

    matrix_flops: int = 0
    vector_flops: int = 0
    special_ops: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    link_bytes: int = 0
    work: tuple[EngineWork, ...] = ()
    times: tuple[ResourceTime, ...] = ()
    bound: Bound | None = None
    sol_time_s: float | None = None
    sol_bound: Bound | None = None
    sol_traffic_bytes: int = 0
    roofline_time_s: float | None = None
    expected_time_s: Estimate | None = None
    limited_by: Limiter | None = None
    peak_flop_per_s: float | None = None
    peak_byte_per_s: float | None = None
    time_share: float | None = None
    levels: tuple[LevelTraffic, ...] = ()

    @property
    def flops(self) -> int:
        """Work on the main class of engine, FLOP."""
        return self.matrix_flops or self.vector_flops

    @property
    def traffic_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.write_bytes

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP/byte under the runtime; 0 without work, infinite without traffic."""
        return intensity(self.flops, self.traffic_bytes)

    @property
    def sol_arithmetic_intensity(self) -> float:
        """FLOP per byte of compulsory traffic; 0 without work, infinite without traffic."""
        return intensity(self.flops, self.sol_traffic_bytes)

    @property
    def ridge_point(self) -> float | None:
        """FLOP/byte at which the main engine's roof meets the memory's; None when unknown."""
        if self.peak_flop_per_s is None or self.peak_byte_per_s is None:
            return None
        return roofline.ratio(self.peak_flop_per_s, self.peak_byte_per_s)

    @property
    def attainable_flop_per_s(self) -> float | None:
        """``min(peak, intensity * bandwidth)``; None when a roof is unknown."""
        if self.peak_flop_per_s is None:
            return None
        if self.peak_byte_per_s is None or not self.peak_byte_per_s:
            return self.peak_flop_per_s
        return roofline.attainable(
            self.arithmetic_intensity, self.peak_flop_per_s, self.peak_byte_per_s
        )

    @property
    def compute_utilization(self) -> float | None:
        """Share of the busiest engine's peak in use when running at the roofline."""
        return self._utilization(Bound.COMPUTE)

    @property
    def memory_utilization(self) -> float | None:
        """Share of the memory bandwidth in use when running at the roofline."""
        return self._utilization(Bound.MEMORY)

    @property
    def network_utilization(self) -> float | None:
        """Share of the link's bandwidth in use when running at the roofline."""
        return self._utilization(Bound.NETWORK)

    def _utilization(self, bound: Bound) -> float | None:
        """None when something that the resource must serve has no known roof."""
        if self.roofline_time_s is None:
            return None
        shares = [t.utilization for t in self.times if t.bound is bound]
        busy = [share for share in shares if share is not None]
        if len(busy) < len(shares):
            return None
        if bound is Bound.COMPUTE and self.flops and self.peak_flop_per_s is None:
            return None
        demanded = {
            Bound.COMPUTE: bool(self.flops),
            Bound.MEMORY: bool(self.traffic_bytes),
            Bound.NETWORK: bool(self.link_bytes),
        }[bound]
        return max(busy, default=None if demanded else 0.0)
