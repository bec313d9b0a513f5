"""The words of every report: the name of an analysis, its unit of rate, each term defined."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.measures import Bound, Estimate, Measures
from gambrel.analysis.result import Analysis
from gambrel.units import format_percent, format_si

#: Figures of `Measures` that follow from its stored fields; written beside them everywhere.
DERIVED: Final = (
    "flops",
    "traffic_bytes",
    "arithmetic_intensity",
    "sol_arithmetic_intensity",
    "ridge_point",
    "attainable_flop_per_s",
    "compute_utilization",
    "memory_utilization",
)

#: What each term means, in one sentence.
DEFINITIONS: Final[dict[str, str]] = {
    "flops": "Work on the main class of engine: matrix work where there is any, otherwise vector "
    "work. A fused multiply-add counts as 2 FLOP. Never the sum of both classes, because no single "
    "roof applies to the sum.",
    "matrix_flops": "Multiply-accumulate work, FLOP.",
    "vector_flops": "Element-wise and reduction arithmetic, FLOP.",
    "special_ops": "Evaluations of transcendental functions (exp, tanh, ...).",
    "traffic_bytes": "DRAM bytes of the runtime's kernels: every distinct input read once, every "
    "output that another kernel needs written once.",
    "cached_traffic_bytes": "DRAM bytes after what the caches keep within an op and from one op to "
    "the next; null where no memory is known.",
    "cached_roofline_time_s": "The roofline with the traffic of each memory level.",
    "arithmetic_intensity": "flops / traffic_bytes. 0 without work; infinite (written as the text "
    '"Infinity") for work without traffic.',
    "ridge_point": "peak_flop_per_s / peak_byte_per_s: the intensity at which the compute roof "
    "meets the memory roof.",
    "attainable_flop_per_s": "min(peak_flop_per_s, arithmetic_intensity * peak_byte_per_s).",
    "bound": "The roofline's verdict: the resource with the largest work / peak; a tie is compute.",
    "limited_by": "What takes the largest share of the expected time: compute, memory, network, "
    "kernel launches or the host.",
    "sol_time_s": "Speed of light: the largest, over resources, of total work / fastest ceiling, "
    "with the traffic that no runtime can avoid. No run with the same arithmetic is faster.",
    "roofline_time_s": "Under the runtime: the sum over its kernels of the slowest resource of "
    "each. Another runtime may be faster.",
    "expected_time_s": "What a stopwatch will show under the runtime. 90 % of measured times lie "
    "between expected_low_s and expected_high_s; null where no constants serve the device.",
    "confidence": "high: fitted on this device; medium: on a related one; low: a wide range.",
    "confidence_shares": "Share of the expected time in ops of each confidence.",
    "compute_utilization": "Work / (peak x roofline_time_s) of the busiest engine.",
    "memory_utilization": "Traffic / (bandwidth x roofline_time_s).",
    "time_share": "Share of the whole's roofline time.",
    "energy_j": "An estimate from published constants, never a measurement: static share x time + "
    "work x energy per FLOP + bytes x energy per byte; null where a constant is missing.",
    "energy_upper_bound_j": "Thermal design power x time_s.",
    "coverage": "Share of ops whose cost is known (free ones included).",
    "coverage_traffic": "Share of the traffic that belongs to ops whose cost is known.",
}

#: Limiter → what a sentence calls it.
LIMITERS: Final = {
    "compute": "compute",
    "memory": "memory traffic",
    "network": "communication",
    "launches": "kernel-launch overhead",
    "host": "the host",
}


def limiter_of(scope: Analysis | Measures) -> str | None:
    """What takes the largest share of the expected time, as a word; None without one."""
    return scope.limited_by.value if scope.limited_by is not None else None


def rate_at_roofline(measures: Measures) -> float | None:
    """FLOP/s when running at the roofline: ``flops / roofline_time_s``; None when unknown.

    At most the attainable rate, and below it where another resource (vector engine, link) sets the
    time, or where ops of unlike intensity are summed. An op whose work is done while other ops of
    its kernel take the time has the attainable one, or none where its own time is not known.
    """
    if any(t.utilization is None for t in measures.times):
        return measures.attainable_flop_per_s if measures.expected_time_s else None
    return rate_in(measures, measures.roofline_time_s)


def rate_in(measures: Measures, seconds: float | None) -> float | None:
    """FLOP/s of a scope that takes a time; None where the time is unknown or zero."""
    return measures.flops / seconds if seconds else None


def title(analysis: Analysis) -> str:
    """For example ``"resnet50, batch 8, fp16 on NVIDIA A100 SXM4 80GB"``."""
    step = ["training step"] if analysis.model.training else []
    parts = [analysis.model.name, *step, *sizes(analysis), analysis.model.precision]
    return f"{', '.join(parts)} on {analysis.hardware.name}"


def sizes(analysis: Analysis) -> list[str]:
    """The chosen sizes in words, e.g. ``["batch 8", "seq 2048"]``."""
    return [f"{name} {value:,}" for name, value in analysis.model.symbols.items()]


def items(analysis: Analysis) -> tuple[int, str]:
    """What one run handles, and in which unit: images, tokens, samples or runs."""
    symbols = analysis.model.symbols
    batch = symbols.get("batch", 1)
    if "image" in symbols:
        return batch, "images"
    if analysis.model.name.endswith("decode") or ("context" in symbols and "seq" not in symbols):
        return batch, "tokens"
    if analysis.model.name.endswith("prefill") or '"phase":"prefill"' in _recipe(analysis):
        return batch * symbols.get("seq", 1), "tokens"
    return batch, "samples" if "batch" in symbols else "runs"


def _recipe(analysis: Analysis) -> str:
    """How a language model in closed form was made; empty for others."""
    return analysis.workload.recipe if analysis.workload else ""


def verdict(analysis: Analysis) -> str:
    """The roofline's verdict: ``"memory-bound"``, or that it is unknown."""
    bound = analysis.total.bound
    return f"{bound.value}-bound" if bound is not None else "bound unknown"


def range_text(time: Estimate | None) -> str:
    """The ends of an estimate's range, as short as a cell of a table; "unknown" without one."""
    if time is None:
        return "unknown"
    return f"{format_si(time.low, 's', 3)} to {format_si(time.high, 's', 3)}"


def confidence_text(time: Estimate | None) -> str:
    """How sure an estimate is, and why; empty without one."""
    return f"{time.confidence}: {time.reason}" if time else ""


def estimate_text(time: Estimate | None) -> str:
    """An estimate with its range, or "unknown"."""
    if time is None:
        return "unknown (no constants for this device)"
    between = " between results" if time.streamed else ""
    return (
        f"{format_si(time.value, 's')}{between} ({range_text(time)}, {time.confidence} confidence)"
    )


def memory_alone(measures: Measures) -> bool:
    """Whether a time counts memory alone, because no roof is known for the arithmetic."""
    unknown = measures.bound is None and measures.roofline_time_s is not None
    return unknown and bool(measures.flops) and measures.peak_flop_per_s is None


def bound_text(measures: Measures) -> str:
    """The bound of a row."""
    return measures.bound.value if measures.bound is not None else "unknown"


def utilization_text(total: Measures) -> str:
    """Utilizations of the engines, the memory and the links when running at the roofline."""
    parts = [
        f"compute {format_percent(total.compute_utilization)}",
        f"memory {format_percent(total.memory_utilization)}",
    ]
    if total.roofline_time_s:
        links = [t for t in total.times if t.bound is Bound.NETWORK]
        parts += [f"{t.resource} {format_percent(t.time_s / total.roofline_time_s)}" for t in links]
    return f"{', '.join(parts)} (at the roofline)"
