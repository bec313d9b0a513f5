"""The analysis: one result that every face renders. Data only; nothing is computed elsewhere.

Every scope (an op, a module, a kind, the whole) has the same measures, in a `Measures` record.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.analysis.estimate.store import load
from gambrel.analysis.fields import TEXT
from gambrel.analysis.measures import Bound, Estimate, Limiter, Measures, State, without_formula
from gambrel.analysis.needs import EnergyEstimate, Footprint
from gambrel.analysis.plan import OR
from gambrel.analysis.question import FIELDS
from gambrel.analysis.sol import Sol
from gambrel.device.model import Device
from gambrel.fileio import path_of
from gambrel.units import format_si
from gambrel.views import Viewed, view
from gambrel.workload.model import Workload

if TYPE_CHECKING:
    from gambrel.analysis.timeline import Timeline

SCHEMA_VERSION = 2


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


class Analysis(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A workload on a device in a precision.

    Attributes:
        model: What was analyzed.
        hardware: The device, every ceiling with its source.
        runtime: Id of the runtime; kernels, traffic, roofline and expected times are its.
        runtime_name: As its makers write it.
        runtime_reason: Why that one.
        sparsity: Whether the structured-sparsity peaks were used.
        engine: The one engine that matrix work was held against; empty for the device's best.
        total: Measures of the whole. ``roofline_time_s`` is the sum over kernels (they run one
            after another); ``bound`` is the resource with the largest busy time overall.
        sol: The speed of light and what it rests on.
        ops: One row per op (identical ops of repeated layers share a row).
        by_kind: Sums by neutral kind, largest time first.
        by_module: Sums by top module levels, largest time first.
        bound_shares: Share of the roofline time spent in ops of each bound.
        coverage: Share of ops with a formula, by count, free ops included.
        coverage_traffic: Share of the bytes of all operands that belongs to ops with a formula.
        coverage_time: Share of the time that belongs to ops with a formula, where those without
            take at least the traffic of their operands.
        unmodelled: Kinds without a formula and how often they occur.
        free_ops: How many ops are free (views and the like).
        host_ops: Kinds of the ops that the compiler leaves to the host's processor, and how often
            they occur. Their time is not known, and so neither is that of the whole.
        on_host: Which these are, the first by name.
        cached_roofline_time_s: Roofline with the traffic of ``total.levels`` in place of the
            kernels' own; None when no level is known.
        footprint: Memory needed.
        energy: An estimate of the energy of a run, with its sources; None when not asked for.
        conventions: How causal attention etc. were counted.
        assumptions: What was assumed: about the model, the precision, the device.
        cache_notes: What caches keep, where that matters.
        warnings: What the user should not overlook.
        workload: What was analyzed, so that a saved result can be analyzed again with changes.
        gambrel_version: Version that computed it.
        warm: Whether the caches were taken to hold what an earlier run left.
        launches: Kernel launches of one run.
        schema_version: Of this record.
    """

    model: ModelInfo
    hardware: Device
    sparsity: bool
    total: Measures
    sol: Sol
    ops: tuple[OpResult, ...]
    by_kind: tuple[Group, ...]
    by_module: tuple[Group, ...]
    bound_shares: dict[str, float]
    coverage: float
    coverage_traffic: float
    coverage_time: float
    unmodelled: dict[str, int]
    free_ops: int
    footprint: Footprint
    conventions: dict[str, str]
    runtime: str
    runtime_name: str = ""
    runtime_reason: str = ""
    host_ops: dict[str, int] = {}
    on_host: str = ""
    assumptions: tuple[str, ...] = ()
    cache_notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    workload: Workload | None = None
    gambrel_version: str = ""
    engine: str = ""
    cached_roofline_time_s: float | None = None
    warm: bool = False
    launches: int = 0
    energy: EnergyEstimate | None = None
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        """One line: every figure in full would be megabytes; ``print`` shows a report."""
        sizes = [f"{name} {value:,}" for name, value in self.model.symbols.items()]
        what = ", ".join([self.model.name, *sizes, self.model.precision])
        bound = f"{self.bound.value}-bound" if self.bound else "bound unknown"
        expected = f", expected {self.expected_time_s}" if self.expected_time_s else ""
        return (
            f"<Analysis: {what} on {self.hardware.name}, {self.runtime}: {bound}, roofline "
            f"{format_si(self.roofline_time_s, 's')}{expected}>"
        )

    def __str__(self) -> str:
        """The report for a terminal."""
        return str(view("render", self, "table"))

    def folded(self) -> tuple[OpResult, ...]:
        """The rows with repeated layers merged; see `gambrel.analysis.fold.fold`."""
        from gambrel.analysis.fold import fold

        return fold(self.ops)

    @property
    def bound(self) -> Bound | None:
        """The roofline's verdict: the resource with the largest busy time overall."""
        return self.total.bound

    @property
    def limited_by(self) -> Limiter | None:
        """What takes the largest share of the expected time; None without one."""
        return self.total.limited_by

    @property
    def sol_time_s(self) -> float | None:
        """Speed of light, s: no run of the same work is faster."""
        return self.total.sol_time_s

    @property
    def sol_bound(self) -> Bound | None:
        """The resource that sets the speed of light."""
        return self.total.sol_bound

    @property
    def sol_arithmetic_intensity(self) -> float:
        """FLOP per byte of compulsory traffic."""
        return self.total.sol_arithmetic_intensity

    @property
    def flops(self) -> int:
        """Work on the main class of engine, FLOP."""
        return self.total.flops

    @property
    def traffic_bytes(self) -> int:
        """Bytes that the runtime's kernels move."""
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
    def roofline_time_s(self) -> float | None:
        """Seconds under the runtime: the sum over kernels of the slowest resource of each."""
        return self.total.roofline_time_s

    @property
    def expected_time_s(self) -> Estimate | None:
        """A calibrated estimate with its range; None without a calibration."""
        return self.total.expected_time_s

    @property
    def confidence_reason(self) -> str:
        """What the expected time rests on, or why there is none."""
        if self.expected_time_s is not None:
            return self.expected_time_s.reason
        if self.on_host:
            return f"the time of {self.on_host} is unknown"
        if self.roofline_time_s is None:
            return "the device publishes no roof for this work"
        unknown = [one for one in self.sol.unknown if OR not in one]
        if self.bound is None and unknown:
            return f"the device publishes no peak for {' and '.join(unknown)} work"
        precision = self.model.precision
        where = f"the {self.engine.upper()} of this device" if self.engine else "this device"
        return f"no constants were fitted for {where} and runtime in {precision}"

    @property
    def left_out(self) -> str:
        """The ops that every figure leaves out, in words; empty where there are none."""
        return without_formula(sum(self.unmodelled.values()))

    @property
    def confidence_shares(self) -> dict[str, float]:
        """Share of the expected time by the confidence of each op's estimate, surest first."""
        found = [e for op in self.ops if (e := op.measures.expected_time_s) is not None]
        whole = sum(e.value for e in found)
        shares = {
            level: sum(e.value for e in found if e.confidence == level) / whole if whole else 0.0
            for level in ("high", "medium", "low")
        }
        return {level: share for level, share in shares.items() if share}

    @property
    def compute_utilization(self) -> float | None:
        """Share of the busiest engine's peak in use when running at the roofline."""
        return self.total.compute_utilization

    @property
    def memory_utilization(self) -> float | None:
        """Share of the memory bandwidth in use when running at the roofline."""
        return self.total.memory_utilization

    # Conveniences for notebooks: everything above this layer goes through `views`.

    def to_dataframe(self) -> Any:
        """The per-op table as a pandas DataFrame, base SI units."""
        return view("frame", self)

    def plot(self, title: str | None = None, *, levels: bool = False) -> Any:
        """The roofline chart as a plotly Figure; ``levels`` shows each op at every memory level."""
        named = None if title is None else TEXT.read(title, TEXT, "title")
        return view("roofline", self, named, levels=levels)

    def memory_timeline(self, checkpoint: bool | str = False) -> Timeline:
        """Live memory at every op, and what is alive at the peak; computed on request.

        Args:
            checkpoint: Recompute activations in backward, block by block; a text names the blocks.
        """
        from gambrel.analysis.timeline import memory_timeline

        return memory_timeline(self, checkpoint)

    def plot_memory(self, checkpoint: bool | str = False) -> Any:
        """The memory over time as a plotly Figure."""
        return view("memory", self, checkpoint)

    def recommend(self) -> Any:
        """Changes with their predicted gain, best first; `gambrel.advise.recommend` has them."""
        return view("recommend", self, load())

    def launch_saving(self) -> Any:
        """What a compiled model and a CUDA graph save; None unless launches limit the run."""
        return view("launch_saving", self, load())

    def with_change(self, *changes: str) -> Analysis:
        """The same question with changes: ``"precision=int8"``, ``"fuse"``, ``"batch=8"``, ..."""
        read = FIELDS["change"].read(changes, "what-if")
        changed: Analysis = view("change", self, read, load())
        return changed

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the analysis; the suffix chooses the format, and ``.json`` can be loaded."""
        view("write", self, path_of(path))
