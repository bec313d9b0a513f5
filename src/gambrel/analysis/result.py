"""The analysis: one result that every face renders. Data only; nothing is computed elsewhere.

Every scope (an op, a module, a kind, the whole) has the same measures, in a `Measures` record.
"""

from __future__ import annotations

import math
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import msgspec

from gambrel.device.model import Device, Source
from gambrel.workload.model import Workload

if TYPE_CHECKING:
    from gambrel.analysis.advise.recommend import Recommendation
    from gambrel.analysis.timeline import Timeline

SCHEMA_VERSION = 1

#: Unit of every number in the JSON of an analysis.
UNITS: dict[str, str] = {
    "flops": "FLOP",
    "matrix_flops": "FLOP",
    "vector_flops": "FLOP",
    "special_ops": "evaluation",
    "read_bytes": "byte",
    "write_bytes": "byte",
    "traffic_bytes": "byte",
    "ideal_traffic_bytes": "byte",
    "link_bytes": "byte",
    "arithmetic_intensity": "FLOP/byte",
    "ridge_point": "FLOP/byte",
    "peak_flop_per_s": "FLOP/s",
    "peak_byte_per_s": "byte/s",
    "attainable_flop_per_s": "FLOP/s",
    "bound_time_s": "s",
    "ideal_bound_time_s": "s",
    "cached_traffic_bytes": "byte",
    "cached_bound_time_s": "s",
    "expected_time_s": "s",
    "overhead_s": "s",
    "time_share": "1",
    "compute_utilization": "1",
    "memory_utilization": "1",
    "coverage": "1",
    "parameters": "1",
    "launches": "1",
    "tdp_w": "W",
    "energy_j": "J",
    "static_j": "J",
    "compute_j": "J",
    "memory_j": "J",
    "energy_upper_bound_j": "J",
    "energy_per_inference_j": "J",
    "inferences": "1",
    "inferences_per_j": "1/J",
    "average_power_w": "W",
    "capacity_bytes": "byte",
    "byte_per_s": "byte/s",
    "flop_per_s": "FLOP/s",
}


class Bound(StrEnum):
    """The resource that limits, by work/peak; a tie at the ridge is COMPUTE."""

    COMPUTE = "compute"
    MEMORY = "memory"
    NETWORK = "network"
    OVERHEAD = "overhead"


class State(StrEnum):
    """What is known of an op's cost."""

    COUNTED = "counted"
    FREE = "free"
    UNMODELLED = "unmodelled"


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A time with its range. Used as a number (``float()``, ``<``, formats) it is its value.

    Attributes:
        value: Seconds.
        low: Lower end of the range, s.
        high: Upper end, s.
        confidence: ``high``, ``medium`` or ``low``.
        reason: Why that confidence.
        overhead_s: Part of the value in which kernels start and end, s.
    """

    value: float
    low: float
    high: float
    confidence: str
    reason: str
    overhead_s: float = 0.0

    def __float__(self) -> float:
        return self.value

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
    def overhead_share(self) -> float:
        """Share of the value in which kernels start and end."""
        return self.overhead_s / self.value if self.value else 0.0


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
        utilization: Share of the resource in use at the bound time.
    """

    resource: str
    bound: Bound
    time_s: float
    utilization: float


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
        if self.flops == 0:
            return 0.0
        return self.flops / self.traffic_bytes if self.traffic_bytes else math.inf


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one scope: an op, a module, a kind, or the whole.

    ``flops`` is the work on the scope's main class of engine: matrix work where there is any (the
    figure that papers publish as "FLOPs"), otherwise vector arithmetic. Matrix and vector work are
    never added to one number, because no single roof applies to their sum.

    Attributes:
        matrix_flops: Multiply-accumulate work, FLOP (FMA = 2).
        vector_flops: Element-wise and reduction arithmetic, FLOP.
        special_ops: Transcendental function evaluations.
        read_bytes: Compulsory bytes read from the memory level of the roof, eager execution.
        write_bytes: Compulsory bytes written.
        link_bytes: Bytes over the link to other devices or the host.
        work: The same work by engine and number format, with the roofs used.
        times: Busy time of each resource.
        bound: The resource class with the largest busy time; None for no work and no traffic.
        bound_time_s: No run is faster (data that stayed in cache apart); None when nothing that
            the scope needs has a known roof.
        expected_time_s: What a stopwatch will show, never below the bound; None when nothing is
            known that the device could borrow.
        peak_flop_per_s: Roof of the main engine; None when unknown.
        peak_byte_per_s: Roof of the memory; None when unknown.
        time_share: Share of the whole's bound time.
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
    bound_time_s: float | None = None
    expected_time_s: Estimate | None = None
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
        """FLOP/byte; 0 without work, infinite without traffic."""
        if self.flops == 0:
            return 0.0
        return self.flops / self.traffic_bytes if self.traffic_bytes else math.inf

    @property
    def ridge_point(self) -> float | None:
        """FLOP/byte at which the main engine's roof meets the memory's; None when unknown."""
        if self.peak_flop_per_s is None or self.peak_byte_per_s is None:
            return None
        return self.peak_flop_per_s / self.peak_byte_per_s

    @property
    def attainable_flop_per_s(self) -> float | None:
        """``min(peak, intensity * bandwidth)``; None when a roof is unknown."""
        if self.peak_flop_per_s is None:
            return None
        if self.peak_byte_per_s is None or math.isinf(self.arithmetic_intensity):
            return self.peak_flop_per_s
        return min(self.peak_flop_per_s, self.arithmetic_intensity * self.peak_byte_per_s)

    @property
    def compute_utilization(self) -> float | None:
        """Share of the busiest engine's peak in use when running at the bound."""
        return self._utilization(Bound.COMPUTE)

    @property
    def memory_utilization(self) -> float | None:
        """Share of the memory bandwidth in use when running at the bound."""
        return self._utilization(Bound.MEMORY)

    @property
    def network_utilization(self) -> float | None:
        """Share of the link's bandwidth in use when running at the bound."""
        return self._utilization(Bound.NETWORK)

    def _utilization(self, bound: Bound) -> float | None:
        """None when something that the resource must serve has no known roof."""
        if self.bound_time_s is None:
            return None
        busy = [t.utilization for t in self.times if t.bound is bound]
        demanded = {
            Bound.COMPUTE: bool(self.flops),
            Bound.MEMORY: bool(self.traffic_bytes),
            Bound.NETWORK: bool(self.link_bytes),
        }[bound]
        return max(busy, default=None if demanded else 0.0)


class OpResult(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: an op, or identical ops of repeated layers.

    Attributes:
        name: Module path with the framework's op, unique enough to find the place.
        kind: Neutral kind.
        op: The framework's name.
        module: Module path; a ``*`` stands for the index of a repeated layer.
        source: ``file.py:line`` where known.
        phase: forward, backward or optimizer.
        state: counted or unmodelled (free ops have no row).
        count: How many executions the row stands for; the measures are their sum.
        shapes: Shapes of inputs and outputs, for reading: ``"8x3x224x224, 64x3x7x7 -> ..."``.
        measures: All numbers.
        launches: Kernel starts that the row pays; within a fused kernel the first op pays them and
            the others none.
    """

    name: str
    kind: str
    op: str
    module: str
    source: str
    phase: str
    state: State
    count: int
    shapes: str
    measures: Measures
    launches: int = 1


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the model needs at once: what is alive at the op where most is.

    Attributes:
        weights_bytes: Parameters and buffers.
        activations_bytes: Intermediates, inputs and outputs alive then.
        kv_cache_bytes: Key/value cache and recurrent state.
        gradients_bytes: Gradients alive then, when training.
        optimizer_bytes: Optimizer state, when training.
        peak_op: Name of that op.
        capacity_bytes: Of the device; None when unknown.
        fits: Whether it fits; None when unknown.
    """

    weights_bytes: int
    activations_bytes: int
    kv_cache_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_bytes: int = 0
    peak_op: str = ""
    capacity_bytes: int | None = None
    fits: bool | None = None

    @property
    def total_bytes(self) -> int:
        """Sum of all parts."""
        return (
            self.weights_bytes
            + self.activations_bytes
            + self.kv_cache_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
        )


class EnergyEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of the energy of one run; never a measurement. See docs/energy.md.

    Attributes:
        energy_j: J; None where a part has no published constant.
        static_j: Share that is drawn whatever the device does, over ``time_s``.
        compute_j: Arithmetic.
        memory_j: Traffic of the main memory.
        energy_upper_bound_j: Thermal design power for ``time_s``; None when either is unknown.
        capped: Whether the sum of the parts was above that bound.
        time_s: Seconds that the estimate is for.
        time_kind: ``expected`` or ``bound``.
        inferences: Items that the run handles.
        confidence: ``low``, or ``unknown`` without an estimate.
        reason: Why.
        missing: What no constant was found for.
        notes: What else is left out or assumed.
        sources: Where the constants come from.
    """

    energy_j: float | None
    static_j: float | None
    compute_j: float | None
    memory_j: float | None
    energy_upper_bound_j: float | None
    capped: bool
    time_s: float | None
    time_kind: str
    inferences: int
    confidence: str
    reason: str
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def average_power_w(self) -> float | None:
        """Estimated energy over time, W."""
        return self.energy_j / self.time_s if self.energy_j is not None and self.time_s else None

    @property
    def energy_per_inference_j(self) -> float | None:
        """Estimated J for one item."""
        return None if self.energy_j is None else self.energy_j / self.inferences

    @property
    def inferences_per_j(self) -> float | None:
        """Items for one J of the estimate."""
        return self.inferences / self.energy_j if self.energy_j else None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was analyzed.

    Attributes:
        name: Canonical name.
        origin: Where the workload comes from.
        precision: The number format that the model runs in.
        precision_reason: Why that one when the user did not say.
        symbols: Sizes used, e.g. ``{"batch": 8}``.
        parameters: Number of parameters.
        training: Whether backward and optimizer are included.
    """

    name: str
    origin: str
    precision: str
    precision_reason: str
    symbols: dict[str, int]
    parameters: int
    training: bool = False


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A sum over ops that share a module or a kind."""

    name: str
    count: int
    measures: Measures


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """A workload on a device in a precision.

    Attributes:
        model: What was analyzed.
        hardware: The device, every ceiling with its source.
        sparsity: Whether the structured-sparsity peaks were used.
        engine: The one engine that matrix work was held against; empty for the device's best.
        expected_bound: What takes most of the expected time: the start of kernels (overhead), or
            ops of one bound; None without an expected time. ``total.bound`` is the roofline's.
        total: Measures of the whole. ``bound_time_s`` is the sum over ops (they run one after
            another); ``bound`` is the resource with the largest busy time overall.
        ops: One row an op (identical ops of repeated layers share a row).
        by_kind: Sums by neutral kind, largest time first.
        by_module: Sums by top module levels, largest time first.
        bound_shares: Share of the bound time spent in ops of each bound.
        coverage: Share of ops with a formula, by count, free ops included.
        coverage_traffic: Share of all compulsory bytes that belongs to ops with a formula.
        unmodelled: Kinds without a formula and how often they occur.
        free_ops: How many ops are free (views and the like).
        ideal_traffic_bytes: Traffic if everything but weights and model inputs/outputs stayed on
            chip.
        ideal_bound_time_s: Bound of the whole as one perfectly fused kernel.
        cached_bound_time_s: Bound with the traffic of ``total.levels`` in place of the compulsory
            one; None when no level is known.
        footprint: Memory needed.
        energy: An estimate of the energy of a run, with its sources; None when not asked for.
        conventions: How causal attention etc. were counted.
        assumptions: What was assumed: about the model, the precision, the device.
        warnings: What the user should not overlook.
        workload: What was analyzed, so that a saved result can be analyzed again with changes.
        gambrel_version: Version that computed it.
        stack: How ops became kernels: ``eager``, ``compiled``, ``epilogue`` or ``ideal``; traffic
            and bounds are those of its kernels.
        launches: Kernel starts of one run.
        schema_version: Of this record.
    """

    model: ModelInfo
    hardware: Device
    sparsity: bool
    total: Measures
    ops: tuple[OpResult, ...]
    by_kind: tuple[Group, ...]
    by_module: tuple[Group, ...]
    bound_shares: dict[str, float]
    coverage: float
    coverage_traffic: float
    unmodelled: dict[str, int]
    free_ops: int
    ideal_traffic_bytes: int
    ideal_bound_time_s: float | None
    footprint: Footprint
    conventions: dict[str, str]
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    workload: Workload | None = None
    gambrel_version: str = ""
    engine: str = ""
    expected_bound: Bound | None = None
    cached_bound_time_s: float | None = None
    stack: str = "eager"
    launches: int = 0
    energy: EnergyEstimate | None = None
    schema_version: int = SCHEMA_VERSION

    def folded(self) -> tuple[OpResult, ...]:
        """The rows with repeated layers merged; see `gambrel.analysis.fold.fold`."""
        from gambrel.analysis.fold import fold

        return fold(self.ops)

    @property
    def bound(self) -> Bound | None:
        """The resource with the largest busy time overall."""
        return self.total.bound

    @property
    def flops(self) -> int:
        """Work on the main class of engine, FLOP."""
        return self.total.flops

    @property
    def traffic_bytes(self) -> int:
        """Compulsory bytes of eager execution."""
        return self.total.traffic_bytes

    @property
    def cached_traffic_bytes(self) -> int | None:
        """Bytes of the main memory after what caches keep; None when no level is known."""
        return self.total.levels[0].traffic_bytes if self.total.levels else None

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP/byte of the whole."""
        return self.total.arithmetic_intensity

    @property
    def ridge_point(self) -> float | None:
        """FLOP/byte at which the main engine's dense roof meets the memory's."""
        return self.total.ridge_point

    @property
    def attainable_flop_per_s(self) -> float | None:
        """FLOP/s under the roofline at the whole's intensity."""
        return self.total.attainable_flop_per_s

    @property
    def bound_time_s(self) -> float | None:
        """Seconds: the sum of the ops' bounds."""
        return self.total.bound_time_s

    @property
    def expected_time_s(self) -> Estimate | None:
        """A calibrated estimate with its range; None without a calibration."""
        return self.total.expected_time_s

    @property
    def compute_utilization(self) -> float | None:
        """Share of the busiest engine's peak in use when running at the bound."""
        return self.total.compute_utilization

    @property
    def memory_utilization(self) -> float | None:
        """Share of the memory bandwidth in use when running at the bound."""
        return self.total.memory_utilization

    # The methods below are conveniences for notebooks. They look upwards, late: the data layer
    # itself needs no plotting and no file format.

    def to_dataframe(self) -> Any:
        """The per-op table as a pandas DataFrame, base SI units."""
        from gambrel.report.frame import to_dataframe

        return to_dataframe(self)

    def plot(self, title: str | None = None, *, levels: bool = False) -> Any:
        """The roofline chart as a plotly Figure; ``levels`` shows each op at every memory level."""
        from gambrel.report.plot_interactive import plot

        return plot(self, title, levels=levels)

    def memory_timeline(self, checkpoint: bool | str = False) -> Timeline:
        """Live memory at every op, and what is alive at the peak; computed on request.

        Args:
            checkpoint: Recompute activations in backward, block by block; a text names the blocks.
        """
        from gambrel.analysis.timeline import memory_timeline

        return memory_timeline(self, checkpoint)

    def plot_memory(self, checkpoint: bool | str = False) -> Any:
        """The memory over time as a plotly Figure."""
        from gambrel.report.timeline import plot

        return plot(self, checkpoint)

    def recommend(self) -> tuple[Recommendation, ...]:
        """Changes, each with its predicted gain, best first."""
        from gambrel.analysis.advise.recommend import recommend
        from gambrel.analysis.estimate.store import load

        return recommend(self, load())

    def with_change(self, *changes: str) -> Analysis:
        """The same question with changes: ``"precision=int8"``, ``"fuse"``, ``"batch=8"``, ..."""
        from gambrel.analysis.advise.whatif import with_change
        from gambrel.analysis.estimate.store import load

        return with_change(self, changes, load())

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the analysis; the suffix chooses the format, and ``.json`` can be loaded."""
        from gambrel.report import write

        write(self, Path(path))
