"""Roofs that a report itself holds: peak per clock times the clock while profiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from gambrel.analysis.samples import PROFILED
from gambrel.analysis.samples.records import OWN_ROOFS
from gambrel.device.model import Ceiling, Device, Kind, MemoryLevel, Source
from gambrel.dtypes import BITS
from gambrel.traces.ncu.values import Metrics
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


def from_report(launches: Sequence[Metrics], cc: str, name: str) -> tuple[Device | None, str]:
    """Builds a device of the peaks that a report holds.

    Args:
        launches: Of one device.
        cc: Its compute capability; empty where unknown.
        name: Its name; empty where unknown.

    Returns:
        The device, None when the report holds no peak; and a sentence on its clock.
    """
    names: set[str] = set().union(*(m.values for m in launches))
    if not any(_PEAK in name or name.startswith("derived__") for name in names):
        return None, ""
    clock = _median(launches, lambda m: m.clock_hz)
    title = "peak per clock of the Nsight Compute report, at the clock while profiling"
    source = Source(title=title, confidence="measured")
    ceilings = _ceilings(launches, cc, clock, source) if clock else ()
    memory = tuple(_memory(launches, source))
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


def _ceilings(
    launches: Sequence[Metrics], cc: str, clock: float, source: Source
) -> tuple[Ceiling, ...]:
    found = []
    for dtype, base, factor in _VECTOR:
        peak = _median(launches, lambda m, b=base, f=factor: _vector_peak(m, b, f))  # type: ignore[misc]
        if peak:
            found.append(("vector", dtype, peak, base))
    for dtype, names in _MATRIX.items():
        for name in _candidates(names, cc):
            peak = _median(launches, lambda m, n=name: m.get(f"{_PATH}{n}{_PEAK}"))  # type: ignore[misc]
            if peak and dtype in BITS:
                found.append(("matrix", dtype, peak, _PATH + name))
                break
    return tuple(
        Ceiling(
            engine=engine,
            dtype=dtype,
            flop_per_s=per_clock * clock,
            kind=Kind.MEASURED,
            source=source,
            note=f"{name}{_PEAK}",
        )
        for engine, dtype, per_clock, name in found
    )


def _vector_peak(metrics: Metrics, base: str, factor: int) -> float | None:
    """FLOP a cycle; the roofline section exports twice the peak of FMA under a derived name."""
    peak = metrics.get(base + _PEAK)
    return metrics.get(f"derived__{base}_x{factor}") if peak is None else peak * factor


def _candidates(names: Sequence[str], cc: str) -> list[str]:
    dense = [f"{op}{name}_sparsity_off" for name in names for op in _OPS]
    dense += [f"{name}_sparsity_off" for name in names]
    totals = list(names) if not cc.startswith("9.") else []
    parts = [f"op_hmma_{name}_sparsity_off" for name in names]
    return dense + totals + parts


def _memory(launches: Sequence[Metrics], source: Source) -> list[MemoryLevel]:
    levels: dict[str, MemoryLevel] = {}
    for level, base, factor, clock_name in _LEVELS:
        peak = _median(launches, lambda m, b=base: m.get(b + _PEAK))  # type: ignore[misc]
        clock = _median(launches, lambda m, c=clock_name: m.get(c))  # type: ignore[misc]
        if peak and clock and level not in levels:
            levels[level] = MemoryLevel(
                name=level,
                byte_per_s=peak * factor * clock,
                bandwidth_source=source,
                kind=Kind.MEASURED,
                note=f"{base}{_PEAK} x {factor}",
            )
    return list(levels.values())


def _median(launches: Sequence[Metrics], get: Callable[[Metrics], float | None]) -> float | None:
    found = [value for m in launches if (value := get(m))]
    return median(found) if found else None
