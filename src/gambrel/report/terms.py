"""The words of every report: derived measures, their units and definitions, in one place."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.measures import Measures
from gambrel.analysis.result import Analysis
from gambrel.analysis.units_of import UNITS

#: Figures of `Measures` that follow from its stored fields; written beside them everywhere.
DERIVED: Final = (
    "flops",
    "traffic_bytes",
    "arithmetic_intensity",
    "ridge_point",
    "attainable_flop_per_s",
    "compute_utilization",
    "memory_utilization",
)

#: Units of every number in the JSON, by key.
ALL_UNITS: Final[dict[str, str]] = {
    **UNITS,
    "weights_bytes": "byte",
    "activations_bytes": "byte",
    "kv_cache_bytes": "byte",
    "gradients_bytes": "byte",
    "optimizer_bytes": "byte",
    "total_bytes": "byte",
    "sparse_flop_per_s": "FLOP/s",
    "time_s": "s",
    "utilization": "1",
    "coverage_traffic": "1",
    "bound_shares": "1",
    "confidence_shares": "1",
    "ratio_to_bound": "1",
    "launches_share": "1",
    "host_limit_s": "s",
    "stack_time_s": "s",
    "stack_gain": "1",
    "stack_launches": "1",
    "launches": "1",
    "count": "1",
    "free_ops": "1",
    "unmodelled": "1",
}

#: What each term means, in one sentence; printed in JSON and HTML.
DEFINITIONS: Final[dict[str, str]] = {
    "flops": "Work on the main class of engine: matrix work where there is any, otherwise vector "
    "work. A fused multiply-add counts as 2 FLOP. Never the sum of both classes, because no single "
    "roof applies to the sum.",
    "matrix_flops": "Multiply-accumulate work, FLOP.",
    "vector_flops": "Element-wise and reduction arithmetic, FLOP.",
    "special_ops": "Evaluations of transcendental functions (exp, tanh, ...).",
    "traffic_bytes": "Compulsory bytes of the kernels that the stack makes of the ops (eager: one "
    "an op): every distinct input read once and every output needed elsewhere written once.",
    "cached_traffic_bytes": "Bytes of the main memory after what the caches keep within an op and "
    "from one op to the next; null where no memory is known.",
    "cached_roofline_time_s": "The roofline with the traffic of each memory level instead "
    "of "
    "the compulsory traffic of every op.",
    "arithmetic_intensity": "flops / traffic_bytes. 0 without work; infinite (written as the text "
    '"Infinity") for work without traffic.',
    "ridge_point": "peak_flop_per_s / peak_byte_per_s: the intensity at which the compute roof "
    "meets the memory roof.",
    "attainable_flop_per_s": "min(peak_flop_per_s, arithmetic_intensity * peak_byte_per_s).",
    "bound": "The resource with the largest busy time (work / peak); a tie is compute.",
    "roofline_time_s": "Busy time of that resource: no run is faster, data that stayed in cache "
    "apart. The total is the sum over ops, which run one after another.",
    "expected_time_s": "What a stopwatch will show for kernels back to back. 'expected' has the "
    "range in which 90 % of measured times lie (low, high), the part in which kernels start and "
    "end (launches_s, launches_share) and its ratio to the bound. Never below the bound; null "
    "(unknown) where no constants serve the device. The ends of a total are the sums of the ends, "
    "as if all errors were correlated.",
    "confidence_shares": "Share of the expected time in ops of each confidence.",
    "launch_saving": "For a run whose expected time is mostly the start of kernels: what the next "
    "stack would take, and the time a kernel (host_limit_s) beyond which a host that starts them "
    "one by one adds to the expected time; null otherwise.",
    "confidence": "high: calibrated on this device; medium: constants of its kin or of another "
    "class of op; low: of other devices.",
    "limited_by": "What takes most of the expected time: starting kernels (overhead), or ops "
    "of one bound.",
    "compute_utilization": "Share of the main engine's peak in use when running at the bound.",
    "memory_utilization": "Share of the memory bandwidth in use when running at the bound.",
    "time_share": "Share of the whole's bound time.",
    "energy_j": "An estimate from published constants, never a measurement: static share x time + "
    "work x energy per FLOP + bytes x energy per byte; null (unknown) where a constant is missing.",
    "energy_upper_bound_j": "Thermal design power x time_s: what a run of that length takes "
    "at most on average.",
    "coverage": "Share of ops whose cost is known (free ones included).",
    "coverage_traffic": "Share of the compulsory bytes that belongs to ops whose cost is known.",
}


def rate_at_bound(measures: Measures) -> float | None:
    """FLOP/s when running at the bound: ``flops / roofline_time_s``; None when that is unknown.

    At most the attainable rate of the roofline, and below it where another resource (vector
    engine, link) sets the bound, or where ops of unlike intensity are summed.
    """
    return measures.flops / measures.roofline_time_s if measures.roofline_time_s else None


def title(analysis: Analysis) -> str:
    """For example ``"resnet50, batch 8, fp16 on NVIDIA A100 SXM4 80GB"``."""
    parts = [analysis.model.name, *sizes(analysis), analysis.model.precision]
    return f"{', '.join(parts)} on {analysis.hardware.name}"


def sizes(analysis: Analysis) -> list[str]:
    """The chosen sizes in words, e.g. ``["batch 8", "seq 2048"]``."""
    return [f"{name} {value:,}" for name, value in analysis.model.symbols.items()]


def throughput(analysis: Analysis) -> float | None:
    """Samples per second at the bound: batch (1 where the model has none) / bound time."""
    time = analysis.total.roofline_time_s
    return analysis.model.symbols.get("batch", 1) / time if time else None
