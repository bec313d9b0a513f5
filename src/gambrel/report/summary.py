"""The figures of the whole as a reader wants them: short lines, shared by every text format."""

from __future__ import annotations

from collections import defaultdict

from gambrel.analysis.fold import fold
from gambrel.analysis.measures import Bound, Estimate, Limiter, Measures
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.energy import energy_lines
from gambrel.report.terms import rate_at_bound, sizes, throughput
from gambrel.units import format_capacity, format_number, format_percent, format_si

#: Between the parts of one line.
DOT = " · "
#: Kinds of op that are named behind the reason of an estimate.
_LISTED_KINDS = 2


def summary(analysis: Analysis) -> list[tuple[str, str]]:
    """Returns (label, text) pairs that describe the whole; unknown figures say "unknown"."""
    total = analysis.total
    return [
        ("Model", _model(analysis)),
        ("Precision", f"{analysis.model.precision} ({analysis.model.precision_reason})"),
        ("Work", _work(total)),
        ("Traffic", _traffic(analysis)),
        ("Intensity", _intensity(total)),
        ("Bound", _bound(analysis)),
        ("Bound time", _bound_time(analysis)),
        ("Expected", _expected(analysis)),
        *_overhead(analysis),
        ("Rate", _rate(total)),
        ("Utilization", _utilization(total)),
        ("Memory", _memory(analysis)),
        *energy_lines(analysis),
        ("Coverage", _coverage(analysis)),
    ]


def slowest(analysis: Analysis) -> list[OpResult]:
    """The ops by bound time, longest first; identical ops of repeated layers are one row."""
    return sorted(fold(analysis.ops), key=lambda op: -(op.measures.roofline_time_s or 0.0))


def verdict(analysis: Analysis) -> str:
    """``"memory-bound"``, or that it is unknown; and whether starting kernels dominates."""
    bound = analysis.total.bound
    if bound is None:
        return "bound unknown"
    expected = analysis.limited_by
    also = ", expected overhead-bound" if expected is Limiter.LAUNCHES else ""
    return f"{bound.value}-bound{also}"


def estimate(time: Estimate | None) -> str:
    """An estimate with its range, or ``"unknown"``."""
    if time is None:
        return "unknown (no constants for this device)"
    low, high = format_si(time.low, "s", 3), format_si(time.high, "s", 3)
    return f"{format_si(time.value, 's')} ({low} to {high})"


def _expected(analysis: Analysis) -> str:
    """The estimate, how far above the bound it is, what launches take, and how sure that is."""
    time, bound = analysis.total.expected_time_s, analysis.total.roofline_time_s
    parts = [estimate(time)]
    if time is None:
        return parts[0]
    if bound:
        parts.append(f"{format_number(time.value / bound, 3)}× the bound")
    parts.append(f"{format_percent(time.launches_share)} of it starting kernels")
    parts.append(f"{time.confidence} confidence: {time.reason}{_kinds_of(analysis, time)}")
    shares = analysis.confidence_shares
    if len(shares) > 1:
        spent = ", ".join(f"{format_percent(share)} {level}" for level, share in shares.items())
        parts.append(f"op by op {spent}")
    return DOT.join(parts)


def _kinds_of(analysis: Analysis, time: Estimate) -> str:
    """The kinds of op that the reason of the whole is about, those with most time."""
    seconds: dict[str, float] = defaultdict(float)
    for op in analysis.ops:
        one = op.measures.expected_time_s
        if one is not None and one.reason and time.reason.startswith(one.reason):
            seconds[op.kind] += one.value
    if not 0 < len(seconds) < len(analysis.by_kind):
        return ""
    listed = sorted(seconds, key=lambda kind: -seconds[kind])[:_LISTED_KINDS]
    return f" (of {', '.join(listed)}{' and others' if len(seconds) > len(listed) else ''})"


def _overhead(analysis: Analysis) -> list[tuple[str, str]]:
    """What fewer kernel starts would save; nothing unless they dominate."""
    found = analysis.launch_saving()
    if found is None:
        return []
    taken = format_si(found.lost_s, "s", 3)
    parts = ["overhead-bound", f"starting {found.launches:,} kernels takes {taken}"]
    if found.runtime_time_s is not None and found.runtime_gain is not None:
        parts.append(
            f"{found.runtime} {format_si(found.runtime_time_s.value, 's')}, "
            f"{format_number(found.runtime_gain, 3)}× as fast ({found.runtime_launches:,} kernels)"
        )
    limit = format_si(found.host_limit_s, "s", 3)
    if found.graph:
        parts.append(
            f"a {found.graph}, which the expected time supposes, saves what the host needs beyond "
            f"{limit} a kernel"
        )
    return [("Overhead", DOT.join(parts))]


def _model(analysis: Analysis) -> str:
    model = analysis.model
    parts = [f"{format_si(model.parameters, '')} parameters", *sizes(analysis)]
    if model.training:
        parts.append("training step")
    return DOT.join([*parts, f"from {model.origin}"] if model.origin else parts)


def _work(total: Measures) -> str:
    parts = [f"matrix {format_si(total.matrix_flops, 'FLOP')}"]
    parts.append(f"vector {format_si(total.vector_flops, 'FLOP')}")
    parts.append(f"special functions {format_si(total.special_ops, '')}")
    return DOT.join(parts)


def _traffic(analysis: Analysis) -> str:
    total = analysis.total
    parts = [
        f"{format_si(total.traffic_bytes, 'B')} {analysis.runtime} "
        f"({format_si(total.read_bytes, 'B')} read, {format_si(total.write_bytes, 'B')} written)",
        f"{format_si(analysis.total.sol_traffic_bytes, 'B')} ideal",
    ]
    if total.link_bytes:
        parts.append(f"{format_si(total.link_bytes, 'B')} over links")
    return DOT.join(parts)


def _intensity(total: Measures) -> str:
    ridge = "unknown"
    if total.ridge_point is not None:
        ridge = f"{format_number(total.ridge_point)} FLOP/byte"
    return f"{format_number(total.arithmetic_intensity)} FLOP/byte{DOT}ridge point {ridge}"


def _bound(analysis: Analysis) -> str:
    if analysis.total.bound is None:
        return "unknown"
    shares = sorted(analysis.bound_shares.items(), key=lambda item: -item[1])
    spent = DOT.join(f"{format_percent(share)} in {name}-bound ops" for name, share in shares)
    if not spent:
        return "unknown"
    text = f"{analysis.total.bound.value}; of the bound time {spent}"
    halves = [op for op in analysis.ops if without_compute_roof(op.measures)]
    if not halves:
        return text
    share = format_percent(sum(op.measures.time_share or 0.0 for op in halves))
    return (
        f"{text}{DOT}{share} in ops (marked {HALF}) held against memory alone: the device "
        "publishes no roof for their arithmetic"
    )


#: Stands behind the bound of an op whose arithmetic has no known roof.
HALF = "*"


def without_compute_roof(measures: Measures) -> bool:
    """Whether an op has a bound although no roof is known for its arithmetic."""
    return bool(measures.flops) and measures.peak_flop_per_s is None and measures.bound is not None


def bound_text(measures: Measures) -> str:
    """The bound of a row, marked where half of the roofline is unknown."""
    if measures.bound is None:
        return "unknown"
    return measures.bound.value + (HALF if without_compute_roof(measures) else "")


def _bound_time(analysis: Analysis) -> str:
    parts = [format_si(analysis.total.roofline_time_s, "s")]
    if analysis.sol_time_s is not None:
        parts.append(f"{format_si(analysis.sol_time_s, 's')} if ideally fused")
    rate = throughput(analysis)
    if rate is not None:
        unit = "samples/s" if "batch" in analysis.model.symbols else "runs/s"
        parts.append(f"at most {format_count(rate)} {unit}")
    return DOT.join(parts)


def _rate(total: Measures) -> str:
    return DOT.join(
        (
            f"{format_si(rate_at_bound(total), 'FLOP/s')} at the bound",
            f"{format_si(total.attainable_flop_per_s, 'FLOP/s')} attainable at this intensity",
            f"peak {format_si(total.peak_flop_per_s, 'FLOP/s')}",
        )
    )


def _utilization(total: Measures) -> str:
    parts = [
        f"compute {format_percent(total.compute_utilization)}",
        f"memory {format_percent(total.memory_utilization)}",
    ]
    if total.roofline_time_s:
        links = [t for t in total.times if t.bound is Bound.NETWORK]
        parts += [f"{t.resource} {format_percent(t.time_s / total.roofline_time_s)}" for t in links]
    return f"{DOT.join(parts)} (at the bound)"


def _memory(analysis: Analysis) -> str:
    need = analysis.footprint
    parts = {
        "weights": need.weights_bytes,
        "activations": need.activations_bytes,
        "KV cache": need.kv_cache_bytes,
        "gradients": need.gradients_bytes,
        "optimizer": need.optimizer_bytes,
    }
    listed = ", ".join(f"{name} {format_capacity(size)}" for name, size in parts.items() if size)
    fits = {True: "fits in", False: "does NOT fit in", None: "capacity"}[need.fits]
    inside = f" ({listed})" if listed else ""
    return (
        f"{format_capacity(need.total_bytes)}{inside}"
        f"{DOT}{fits} {format_capacity(need.capacity_bytes)}"
    )


def _coverage(analysis: Analysis) -> str:
    parts = [
        f"{format_percent(analysis.coverage)} of ops",
        f"{format_percent(analysis.coverage_traffic)} of bytes",
        f"{analysis.free_ops:,} free ops",
    ]
    if analysis.unmodelled:
        listed = ", ".join(f"{kind} ×{n}" for kind, n in analysis.unmodelled.items())
        parts.append(f"no formula for: {listed}")
    return DOT.join(parts)


def range_text(time: Estimate | None) -> str:
    """The ends of an estimate's range, as short as a cell of a table; "unknown" without one."""
    if time is None:
        return "unknown"
    return f"{format_si(time.low, 's', 3)} to {format_si(time.high, 's', 3)}"


def counting(analysis: Analysis) -> list[str]:
    """How the model's work was counted where the field disagrees; nothing that it does not have."""
    if analysis.workload is not None and not any(
        op.attrs.get("causal") for op in analysis.workload.ops
    ):
        return []
    return [f"{key}: {value}" for key, value in analysis.conventions.items()]


def format_count(value: float) -> str:
    """A rate of events: thousands separated, decimals only where they matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
