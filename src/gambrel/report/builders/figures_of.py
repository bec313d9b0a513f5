"""The figures of an analysis in full: labelled sentences for readers, rows for CSV."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gambrel.analysis.measures import Estimate, Measures, State
from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.blocks import (
    Column,
    DataTable,
    KeyFigure,
)
from gambrel.report.terms import (
    DEFINITIONS,
    DERIVED,
    confidence_text,
    estimate_text,
    range_text,
    rate_at_roofline,
    sizes,
    utilization_text,
)
from gambrel.units import format_capacity, format_number, format_percent, format_si

#: The name of a model within a pipeline, before a module path; see `gambrel.llm.pipelines`.
PART: Final = re.compile(r"[a-z]\w*:")
#: Kinds of op that are named behind the reason of an estimate.
_LISTED_KINDS: Final = 2


def facts(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Label and sentence of each figure of the whole; unknown ones say so."""
    total = analysis.total
    yield "Model", _model(analysis)
    yield "Precision", f"{analysis.model.precision} ({analysis.model.precision_reason})"
    yield "Runtime", _runtime(analysis)
    yield "Work", _work(total)
    yield "Traffic", _traffic(analysis)
    yield "Intensity", _intensity(total)
    yield "Roofline", _roofline(analysis)
    yield "Speed of light", _light(analysis)
    yield "Expected", _expected(analysis)
    yield "Rate", _rate(total)
    yield "Utilization", utilization_text(total)
    yield "Memory", _memory(analysis)
    if analysis.energy is not None:
        yield "Energy", energy_text(analysis.energy)
    yield "Free ops", f"{analysis.free_ops:,} (views and the like)"


def terms() -> tuple[str, ...]:
    """What each term means."""
    return tuple(f"{name}: {text}" for name, text in DEFINITIONS.items())


def counting(analysis: Analysis) -> list[str]:
    """How the model's work was counted where the field disagrees; nothing that it does not have."""
    if analysis.workload is not None and not any(
        op.attrs.get("causal") for op in analysis.workload.ops
    ):
        return []
    return [f"{key}: {value}" for key, value in analysis.conventions.items()]


def _model(analysis: Analysis) -> str:
    model = analysis.model
    parts = [f"{format_si(model.parameters, '')} parameters", *sizes(analysis)]
    if model.training:
        parts.append("training step")
    return ", ".join([*parts, f"from {model.origin}"] if model.origin else parts)


def _runtime(analysis: Analysis) -> str:
    name, why = analysis.runtime_name or analysis.runtime, analysis.runtime_reason
    return f"{name} ({why})" if why else name


def _work(total: Measures) -> str:
    return (
        f"matrix {format_si(total.matrix_flops, 'FLOP')}, "
        f"vector {format_si(total.vector_flops, 'FLOP')}, "
        f"special functions {format_si(total.special_ops, '')}"
    )


def _traffic(analysis: Analysis) -> str:
    total = analysis.total
    text = (
        f"{format_si(total.traffic_bytes, 'B')} "
        f"({format_si(total.read_bytes, 'B')} read, {format_si(total.write_bytes, 'B')} written)"
    )
    text += f"; {format_si(total.sol_traffic_bytes, 'B')} that no runtime can avoid"
    return text + (f"; {format_si(total.link_bytes, 'B')} over links" if total.link_bytes else "")


def _intensity(total: Measures) -> str:
    ridge = "unknown"
    if total.ridge_point is not None:
        ridge = f"{format_number(total.ridge_point)} FLOP/byte"
    return f"{format_number(total.arithmetic_intensity)} FLOP/byte; ridge point {ridge}"


def _roofline(analysis: Analysis) -> str:
    bound = analysis.total.bound
    if bound is None:
        return "unknown"
    shares = sorted(analysis.bound_shares.items(), key=lambda item: -item[1])
    spent = ", ".join(f"{format_percent(part)} in {name}-bound ops" for name, part in shares)
    time = format_si(analysis.total.roofline_time_s, "s")
    return f"{time}, {bound.value}-bound; {spent}"


def _light(analysis: Analysis) -> str:
    sol = analysis.sol
    if sol.time_s is None:
        return "unknown"
    bound = f", {sol.bound.value}-bound" if sol.bound else ""
    needs = ", ".join(f"{name} {format_si(s, 's', 3)}" for name, s in sol.resources.items())
    parts = [f"{format_si(sol.time_s, 's')}{bound} ({needs})"]
    parts += [f"left out: {', '.join(sol.unknown)}"] if sol.unknown else []
    return "; ".join((*parts, *sol.caveats, *sol.notes))


def _expected(analysis: Analysis) -> str:
    time, roof = analysis.total.expected_time_s, analysis.total.roofline_time_s
    parts = [estimate_text(time)]
    if time is None:
        return parts[0]
    if roof:
        parts.append(f"{format_number(time.value / roof, 3)}× the roofline")
    parts.append(f"{format_percent(time.launches_share)} kernel-launch overhead")
    if time.host_share:
        parts.append(f"{format_percent(time.host_share)} waiting for the host")
    parts.append(f"{time.reason}{_kinds_of(analysis, time)}")
    shares = analysis.confidence_shares
    if len(shares) > 1:
        spent = ", ".join(f"{format_percent(part)} {level}" for level, part in shares.items())
        parts.append(f"confidence op by op: {spent}")
    return "; ".join(parts)


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


def _rate(total: Measures) -> str:
    return (
        f"{format_si(rate_at_roofline(total), 'FLOP/s')} at the roofline, "
        f"{format_si(total.attainable_flop_per_s, 'FLOP/s')} attainable at this intensity, "
        f"peak {format_si(total.peak_flop_per_s, 'FLOP/s')}"
    )


def _memory(analysis: Analysis) -> str:
    need = analysis.footprint
    parts = {
        "weights": need.weights_bytes,
        "activations": need.activations_bytes,
        "KV cache": need.kv_cache_bytes,
        "gradients": need.gradients_bytes,
        "optimizer": need.optimizer_bytes,
        "kernel workspace": need.workspace_bytes,
    }
    listed = ", ".join(f"{name} {format_capacity(size)}" for name, size in parts.items() if size)
    inside = f" ({listed})" if listed else ""
    return f"{format_capacity(need.total_bytes)}{inside} of {format_capacity(need.capacity_bytes)}"


def energy_text(found: EnergyEstimate) -> str:
    """The energy in words: always called an estimate, with its bound and what it lacks."""
    parts = [_energy(found)]
    if found.energy_upper_bound_j is not None:
        time = f"the {found.time_kind} time"
        parts.append(f"{format_si(found.energy_upper_bound_j, 'J')} if it drew its TDP for {time}")
    if found.energy_j is not None:
        parts.append(f"{format_si(found.average_power_w, 'W', 3)} on average")
        each = format_si(found.energy_per_inference_j, "J", 3)
        parts.append(f"{each} per inference, {format_number(found.inferences_per_j, 3)} per J")
    if found.unverified:
        parts.append(f"not compared with its source: {'; '.join(found.unverified)}")
    return "; ".join(parts)


def _energy(found: EnergyEstimate) -> str:
    shares = {"static": found.static_j, "arithmetic": found.compute_j, "memory": found.memory_j}
    listed = ", ".join(f"{name} {format_si(j, 'J', 3)}" for name, j in shares.items())
    if found.energy_j is None:
        return f"unknown ({found.reason}; {listed})"
    capped = ", capped by TDP" if found.capped else ""
    return (
        f"{format_si(found.energy_j, 'J')} estimated ({listed}{capped}), "
        f"{found.confidence} confidence"
    )


def expected_figure(time: Estimate | None, label: str = "expected time", **more: str) -> KeyFigure:
    """An expected time with its range and what its confidence rests on."""
    return KeyFigure(
        label=label,
        text=format_si(time.value, "s") if time else "unknown",
        note=more.pop("note", range_text(time) if time else ""),
        key="expected_time_s",
        confidence=confidence_text(time),
        **more,
    )


def with_cells(column: Column, cells: Iterable[str]) -> Column:
    """The column with other texts."""
    return replace(column, cells=tuple(cells))


_RUN: Final = ("model", "hardware", "precision", "runtime", "sizes")
_OP: Final = ("name", "kind", "op", "module", "source", "phase", "state", "count", "shapes")
_STORED: Final = (
    "matrix_flops",
    "vector_flops",
    "special_ops",
    "read_bytes",
    "write_bytes",
    "link_bytes",
    "bound",
    "limited_by",
    "sol_time_s",
    "roofline_time_s",
    "time_share",
    "peak_flop_per_s",
    "peak_byte_per_s",
)
#: Column → attribute of the estimate.
_EXPECTED: Final = {
    "expected_time_s": "value",
    "expected_low_s": "low",
    "expected_high_s": "high",
    "confidence": "confidence",
}
#: Columns of the CSV and of the data frame.
COLUMNS: Final = (*_OP, *DERIVED, *_STORED, *_EXPECTED)


def row(op: OpResult) -> list[object]:
    """The values of `COLUMNS`; None where unknown, and for everything of an unmodelled op."""
    head: list[object] = [getattr(op, name) for name in _OP]
    if op.state is State.UNMODELLED:
        return head + [None] * (len(COLUMNS) - len(head))
    figures = [getattr(op.measures, name, None) for name in (*DERIVED, *_STORED)]
    expected = op.measures.expected_time_s
    return head + figures + [getattr(expected, n, None) for n in _EXPECTED.values()]


def rows(*analyses: Analysis) -> DataTable:
    """One row per op in execution order; the first columns tell the analyses apart."""
    made = [[*_run(a), *row(op)] for a in analyses for op in a.ops]
    return DataTable(
        columns=tuple(
            Column(title=name, key=name, cells=("",) * len(made), values=tuple(r[i] for r in made))
            for i, name in enumerate((*_RUN, *COLUMNS))
        ),
    )


def _run(analysis: Analysis) -> tuple[str, ...]:
    named = ";".join(f"{name}={value}" for name, value in analysis.model.symbols.items())
    model, hardware = analysis.model, analysis.hardware.name
    return model.name, hardware, model.precision, analysis.runtime, named
