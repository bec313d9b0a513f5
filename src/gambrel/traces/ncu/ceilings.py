"""Roofs that a report itself holds: peak per clock times the clock while profiling."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import Final

from gambrel.analysis.samples import PROFILED
from gambrel.analysis.samples.records import OWN_ROOFS
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.dtypes import BITS
from gambrel.traces.ncu.values import Metrics, MetricSchema
from gambrel.units import format_si

_PEAK: Final = ".sum.peak_sustained"
_VECTOR: Final = (
    ("fp64", "sm__sass_thread_inst_executed_op_dfma_pred_on", 2),
    ("fp32", "sm__sass_thread_inst_executed_op_ffma_pred_on", 2),
    ("fp16", "sm__sass_thread_inst_executed_op_hfma_pred_on", 4),
)
_PATH: Final = "sm__ops_path_tensor_"
#: Source format → counters whose peak is the dense one, best first. The totals of Hopper hold the
#: sparse peak, so there only parts by sparsity serve.
_MATRIX: Final[dict[str, tuple[str, ...]]] = {
    "fp16": ("src_fp16_dst_fp32", "src_fp16", "src_fp16_bf16_tf32_dst_fp32", "src_fp16_dst_fp16"),
    "bf16": ("src_bf16_dst_fp32",),
    "tf32": ("src_tf32_dst_fp32",),
    "fp64": ("src_fp64",),
    "fp8": ("src_fp8", "src_fp8_dst_fp32", "src_fp4_fp6_fp8_dst_fp32"),
    "fp4": ("src_fp4_dst_fp32",),
    "int8": ("src_int8",),
    "int4": ("src_int4",),
}
_OPS: Final = ("op_hgmma_", "op_igmma_", "op_utchmma_", "op_utcqmma_", "op_utcomma_", "op_utcimma_")
_LEVELS: Final = (
    ("DRAM", "dram__bytes", 1, "dram__cycles_elapsed.avg.per_second"),
    ("L2", "lts__lts2xbar_cycles_active", 32, "lts__cycles_elapsed.avg.per_second"),
    ("L1", "l1tex__lsu_writeback_active_mem_lgds", 128, "l1tex__cycles_elapsed.avg.per_second"),
    ("L1", "l1tex__lsu_writeback_active_mem_lg", 128, "l1tex__cycles_elapsed.avg.per_second"),
    ("L1", "l1tex__lsu_writeback_active", 128, "l1tex__cycles_elapsed.avg.per_second"),
)


#: Values of a peak or a clock that are kept; their median hardly changes after so many launches.
_MOST_KEPT: Final = 100_000
_CLOCK_NAMES: Final = frozenset(clock for *_, clock in _LEVELS)


class ChipPeaks:
    """What the launches of a file say of the device's peaks, put together while it is read."""

    def __init__(self) -> None:
        self._values: dict[str, array[float]] = {}
        self._clocks = array("d")
        self.any = False

    def add(self, metrics: Metrics) -> None:
        """Looks at one launch."""
        kept, peaks = _kept(metrics.shape)
        self.any = self.any or peaks
        for slot, name, factor in kept:
            _keep(self._values.setdefault(slot, array("d")), metrics.values[name] * factor)
        if metrics.shape.clocks:
            _keep(self._clocks, metrics.clock_hz or 0.0)

    def median(self, slot: str) -> float | None:
        """The median of a peak; None where no launch has it."""
        found = self._values.get(slot)
        return median(found) if found else None

    @property
    def clock_hz(self) -> float | None:
        """The median clock of the multiprocessors."""
        return median(self._clocks) if self._clocks else None

    @property
    def first_clock_hz(self) -> float | None:
        """The clock of the first launch that has one."""
        return self._clocks[0] if self._clocks else None


def _keep(values: array[float], value: float) -> None:
    if value and len(values) < _MOST_KEPT:
        values.append(value)


@lru_cache(maxsize=4096)
def _kept(shape: MetricSchema) -> tuple[tuple[tuple[str, str, int], ...], bool]:
    """Values to keep, as slot, name and factor; and whether there are peaks among them."""
    names = set(shape.names)
    kept = []
    for name in shape.names:
        if name.endswith(_PEAK) or name in _CLOCK_NAMES:
            kept.append((name, name, 1))
            twin = f"sm__{name[6:]}"
            if name.startswith("smsp__") and twin not in names:
                kept.append((twin, name, 1))
    for _, base, factor in _VECTOR:
        # The roofline section exports twice the peak of FMA under a derived name.
        own = next((n for n in (base, f"smsp__{base[4:]}") if n + _PEAK in names), "")
        derived = f"derived__{base}_x{factor}"
        if own:
            kept.append((_FLOP + base, own + _PEAK, factor))
        elif derived in names:
            kept.append((_FLOP + base, derived, 1))
    peaks = any(_PEAK in name or name.startswith("derived__") for name in names)
    return tuple(kept), peaks


#: Before the name of a counter: the slot of its FLOP per cycle.
_FLOP: Final = "FLOP of "


def from_report(peaks: ChipPeaks, cc: str, name: str) -> tuple[Device | None, str]:
    """Builds a device of the peaks that a report holds.

    Args:
        peaks: Of the launches, all of one device.
        cc: Its compute capability; empty where unknown.
        name: Its name; empty where unknown.

    Returns:
        The device, None when the report holds no peak; and a sentence on its clock.
    """
    if not peaks.any:
        return None, ""
    clock = peaks.clock_hz
    title = "peak per clock of the Nsight Compute report, at the clock while profiling"
    source = Source(title=title, confidence="measured")
    ceilings = _ceilings(peaks, cc, clock, source) if clock else ()
    memory = tuple(_memory(peaks, source))
    if not ceilings and not memory:
        return None, ""
    at = f" at {format_si(clock, 'Hz')}" if clock else ""
    label = name or (f"device of compute capability {cc}" if cc else "profiled device")
    device = Device(
        id=PROFILED, name=f"{label}{at}", vendor="NVIDIA", ceilings=ceilings, memory=memory
    )
    note = (
        f"{OWN_ROOFS}, at the clock while profiling{at}; Nsight Compute before 2026.1 locks "
        "the clock to its base by default, where the roofs of the datasheet, at boost, are higher"
    )
    return device, note


def _ceilings(peaks: ChipPeaks, cc: str, clock: float, source: Source) -> tuple[Ceiling, ...]:
    found = []
    for dtype, base, _ in _VECTOR:
        peak = peaks.median(_FLOP + base)
        if peak:
            found.append(("vector", dtype, peak, base))
    for dtype, names in _MATRIX.items():
        for name in _candidates(names, cc):
            peak = peaks.median(f"{_PATH}{name}{_PEAK}")
            if peak and dtype in BITS:
                found.append(("matrix", dtype, peak, _PATH + name))
                break
    return tuple(
        Ceiling(
            engine=engine,
            dtype=dtype,
            flop_per_s=per_clock * clock,
            kind=CeilingKind.MEASURED,
            source=source,
            note=f"{name}{_PEAK}",
        )
        for engine, dtype, per_clock, name in found
    )


def _candidates(names: Sequence[str], cc: str) -> list[str]:
    dense = [f"{op}{name}_sparsity_off" for name in names for op in _OPS]
    dense += [f"{name}_sparsity_off" for name in names]
    totals = list(names) if not cc.startswith("9.") else []
    parts = [f"op_hmma_{name}_sparsity_off" for name in names]
    return dense + totals + parts


def _memory(peaks: ChipPeaks, source: Source) -> list[MemoryLevel]:
    levels: dict[str, MemoryLevel] = {}
    for level, base, factor, clock_name in _LEVELS:
        peak, clock = peaks.median(base + _PEAK), peaks.median(clock_name)
        if peak and clock and level not in levels:
            levels[level] = MemoryLevel(
                name=level,
                byte_per_s=peak * factor * clock,
                bandwidth_source=source,
                kind=CeilingKind.MEASURED,
                note=f"{base}{_PEAK} x {factor}",
            )
    return list(levels.values())
