"""An analysis: expected time, what limits, memory and next step; then the slowest ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gambrel.analysis.fold import fold
from gambrel.analysis.measures import STREAMED, Estimate, Measures, State
from gambrel.analysis.result import Analysis, Group, OpResult
from gambrel.report import analysis_json
from gambrel.report.blocks import (
    Block,
    Column,
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    Section,
    amount,
    count,
    figures,
    rate_text,
    ratio,
    seconds,
    section,
    sections,
    share,
    words,
)
from gambrel.report.builders import advice, figures_of, levels
from gambrel.report.builders.next_step import next_step
from gambrel.report.options import Options
from gambrel.report.terms import (
    LIMITERS,
    bound_text,
    estimate_text,
    items,
    limiter_of,
    memory_alone,
    range_text,
    title,
)
from gambrel.report.text import shorten_path
from gambrel.units import format_capacity, format_percent, format_si

content = analysis_json.content
rows = figures_of.rows


def document(analysis: Analysis, options: Options) -> Document:
    """The report of one analysis."""
    found = advice.advice_of(analysis) if options.recommend else None
    parts = [
        section(_parts(analysis) if _is_pipeline(analysis) else None, ops_table(analysis)),
        section(Notes(heading="Warnings", items=analysis.warnings, style="warning")),
        *(advice.advice_sections(found) if found else ()),
        levels.level_section(analysis, folded=not options.levels, left=options.levels_left),
        *folded(analysis),
    ]
    return Document(
        title=title(analysis),
        answer=answer(analysis, found.recommendations if found else (), on_page=options.on_page),
        sections=sections(*parts),
        aside=(analysis.runtime_name or analysis.runtime),
        figures=tuple(key_figures(analysis)),
    )


def answer(
    analysis: Analysis, changes: Sequence[Any] = (), *, on_page: bool = False
) -> tuple[str, ...]:
    """Three lines: how long, what limits, what it needs and what to do next."""
    next_ = next_step(analysis, changes, on_page=on_page)
    return _time(analysis), _limits(analysis), f"{_memory(analysis)}. {next_}"


def _time(analysis: Analysis) -> str:
    expected, (number, unit) = analysis.total.expected_time_s, items(analysis)
    if analysis.on_host:
        part = sum(op.measures.roofline_time_s or 0.0 for op in analysis.ops)
        return (
            f"Expected: unknown, as is the time of {analysis.on_host}; the roofline of the other "
            f"ops is {format_si(part, 's')}"
        )
    if expected is not None and analysis.left_out:
        return f"Expected: {estimate_text(expected)}, leaving out {analysis.left_out}"
    if expected is not None:
        rate = f"{rate_text(number / expected.value)} {unit}/s" if expected.value else "no rate"
        latency = f"; {STREAMED}" if expected.streamed else ""
        return f"Expected: {estimate_text(expected)}, {rate}{latency}"
    roof = analysis.total.roofline_time_s
    if roof is None:
        return f"Expected: unknown, as the roofline is: {analysis.confidence_reason}"
    rate = f", {rate_text(number / roof)} {unit}/s" if roof else ""
    if analysis.left_out:
        rate = f", leaving out {analysis.left_out}"
    return f"Roofline: {format_si(roof, 's')}{rate}; no expected time: {analysis.confidence_reason}"


def _limits(analysis: Analysis) -> str:
    limiter, bound = limiter_of(analysis), analysis.bound
    roofline = f"roofline {format_si(analysis.roofline_time_s, 's')}"
    if limiter is None:
        return f"Bound: {bound.value if bound else 'unknown'}; {roofline}, {light(analysis)}"
    if bound is not None:
        roofline += f" ({bound.value}-bound)"
    part = limited_share(analysis)
    taken = f", {format_percent(part)} of the time" if part is not None else ""
    return f"Limited by: {LIMITERS[limiter]}{taken}; {roofline}, {light(analysis)}"


def light(analysis: Analysis) -> str:
    """The speed of light, and whether it is a limit."""
    sol = analysis.sol
    if sol.time_s is None:
        return "speed of light unknown"
    alone = any(name.startswith("matrix") for name in sol.unknown)
    limit = " (of memory alone; no run is faster)" if alone else " (no run is faster)"
    if sol.caveats or analysis.on_host:
        limit = " (of memory alone)" if alone else ""
    # What was only reached, or measured here, may be passed.
    about = limit if sol.proves else " (at the best known rate, which is no limit)"
    expected = analysis.expected_time_s
    if sol.proves and expected is not None and expected.low < sol.time_s:
        about = " (as counted; Winograd's algorithm multiplies less)"
    return f"speed of light {format_si(sol.time_s, 's')}{about}"


def limited_share(analysis: Analysis) -> float | None:
    """Share of the expected time that the limiter takes."""
    limiter, expected = limiter_of(analysis), analysis.total.expected_time_s
    if limiter is None or not expected:
        return None
    if limiter in ("launches", "host"):
        return expected.launches_share if limiter == "launches" else expected.host_share
    taken = (
        e.value
        for op in analysis.ops
        if (e := op.measures.expected_time_s) and limiter_of(op.measures) == limiter
    )
    return min(sum(taken) / expected.value, 1.0)


def _memory(analysis: Analysis) -> str:
    need = analysis.footprint
    fits = {True: "fits in", False: "does NOT fit in", None: "capacity"}[need.fits]
    room = format_capacity(need.capacity_bytes)
    return f"Memory: {format_capacity(need.total_bytes)}, {fits} {room}"


def key_figures(analysis: Analysis) -> Iterator[KeyFigure]:
    """The figures at the top of a page, each with where it comes from."""
    total, said = analysis.total, dict(figures_of.facts(analysis))
    time = total.expected_time_s
    device = analysis.hardware.name
    yield figures_of.expected_figure(
        time,
        note=_rate_note(analysis, time),
        source=f"constants of {analysis.runtime_name or analysis.runtime} on {device}",
    )
    limiter, part = limiter_of(analysis), limited_share(analysis)
    yield KeyFigure(
        label="limited by",
        text=LIMITERS[limiter] if limiter else "unknown",
        note=f"{format_percent(part)} of the expected time" if part is not None else "",
        key="limited_by",
        source=said["Expected"],
    )
    yield KeyFigure(
        label="roofline time",
        text=format_si(analysis.roofline_time_s, "s"),
        note=f"{bound_text(total)}-bound" if total.bound else "bound unknown",
        key="roofline_time_s",
        source=f"{said['Roofline']}. {said['Rate']}",
    )
    yield KeyFigure(
        label="speed of light",
        text=format_si(analysis.sol_time_s, "s"),
        note="" if "no run is faster" not in light(analysis) else "no run is faster",
        key="sol_time_s",
        source=said["Speed of light"],
    )
    yield KeyFigure(
        label="memory",
        text=format_capacity(analysis.footprint.total_bytes, 3),
        note=_memory(analysis).partition(", ")[2],
        key="total_bytes",
        formula="Weights, the activations alive at the peak, caches and states, and workspace.",
        source=said["Memory"],
    )


def _rate_note(analysis: Analysis, time: Estimate | None) -> str:
    if time is None or not time.value:
        return ""
    if analysis.left_out:
        return f"{range_text(time)}; leaves out {analysis.left_out}"
    number, unit = items(analysis)
    return f"{range_text(time)}; {rate_text(number / time.value)} {unit}/s"


def slowest(analysis: Analysis) -> list[OpResult]:
    """The ops by time, longest first; identical ops of repeated layers are one row."""
    return sorted(fold(analysis.ops), key=lambda op: -seconds_of(op.measures))


def seconds_of(measures: Measures) -> float:
    """Expected time, else the roofline's, else 0."""
    expected = measures.expected_time_s
    return expected.value if expected is not None else measures.roofline_time_s or 0.0


def ops_table(analysis: Analysis) -> DataTable:
    """One row per op, what takes longest first."""
    ranked = slowest(analysis)
    if not ranked:
        return DataTable(columns=(), note="The model has no ops that cost anything.")
    names = [
        op.name
        + (f" ×{op.count:,}" if op.count > 1 else "")
        + (" (host)" if op.state is State.HOST else "")
        for op in ranked
    ]
    measures = [op.measures for op in ranked]
    states = [op.state for op in ranked]
    shares = _shares(measures, analysis.total)
    marks = tuple("" if s is State.COUNTED else "warning" for s in states)
    return DataTable(
        columns=(
            words("op", names, minimum=24, shorten=shorten_path),
            words("kind", (op.kind for op in ranked), "kind", priority=6, styles=marks),
            *measure_columns(measures, states, analysis.total),
            words("shapes", (op.shapes for op in ranked), "shapes", priority=9, minimum=24),
        ),
        shares=tuple(s or 0.0 for s in shares),
        whole=f"the {_kind_of_time(analysis)} time" if any(shares) else "",
        note=_coverage(analysis),
        outside="waiting for the host",
        linked=True,
    )


def _kind_of_time(analysis: Analysis) -> str:
    return "expected" if analysis.total.expected_time_s else "roofline"


def _shares(rows: Sequence[Measures], of: Measures) -> list[float | None]:
    """Of the expected time where the whole has one, else of the roofline time."""
    if of.expected_time_s is None:
        return [m.time_share for m in rows]
    whole = of.expected_time_s.value
    times = [m.expected_time_s for m in rows]
    return [t.value / whole if t is not None and whole else None for t in times]


def _coverage(analysis: Analysis) -> str:
    text = f"Formulas cover {format_percent(analysis.coverage)} of the ops"
    text += f" and {format_percent(analysis.coverage_time)} of the time"
    if analysis.unmodelled:
        lost = ", ".join(f"{kind} ×{n}" for kind, n in analysis.unmodelled.items())
        text += f"; none for: {lost}"
    expected = analysis.total.expected_time_s
    if expected is not None and expected.host_s:
        waits = format_percent(expected.host_share)
        text += f". Waiting for the host, {waits} of the time, belongs to no op"
    alone = sum(op.measures.time_share or 0.0 for op in analysis.ops if memory_alone(op.measures))
    if alone:
        text += ". Bound unknown: the device publishes no roof for the arithmetic of these ops, "
        text += f"{format_percent(alone)} of the roofline time; memory alone is counted"
    return f"{text}."


def measure_columns(
    rows: Sequence[Measures], states: Sequence[State], of: Measures
) -> list[Column]:
    """The columns that every scope shares; no figures, rather than zeros, where they are unknown.

    That is of an op without a formula, and of one that does not run on the device.
    """
    known = [s is State.COUNTED for s in states]
    limits = [limiter_of(m) for m in rows]
    bounds = tuple(m.bound.value if m.bound else "" for m in rows)
    times = [m.expected_time_s for m in rows]
    estimated = any(times)

    def lost(column: Column) -> Column:
        cells = (cell if k else "?" for cell, k in zip(column.cells, known, strict=True))
        return figures_of.with_cells(column, cells)

    columns = [
        figures("FLOP", (m.flops for m in rows), amount, "flops", priority=4),
        figures("byte", (m.traffic_bytes for m in rows), amount, "traffic_bytes", priority=5),
        figures(
            "FLOP/byte",
            (m.arithmetic_intensity for m in rows),
            ratio,
            "arithmetic_intensity",
            priority=2,
        ),
        words("bound", map(bound_text, rows), "bound", priority=1, styles=bounds),
        *_limited(limits),
        figures(
            "roofline",
            (m.roofline_time_s for m in rows),
            seconds,
            "roofline_time_s",
            priority=2 if estimated else 0,
        ),
        *([_expected(times)] if estimated else []),
        figures("share", _shares(rows, of), share, "share"),
        *([words("confidence", map(_confidence, times), "confidence", priority=7)] * estimated),
        figures("FLOP/s max", map(_attainable, rows), amount, "attainable_flop_per_s", priority=8),
    ]
    return [lost(column) for column in columns]


def _expected(times: Sequence[Estimate | None]) -> Column:
    values = (t.value if t else None for t in times)
    return figures("expected", values, seconds, "expected_time_s")


def _limited(limits: Sequence[str | None]) -> list[Column]:
    """What limits each row; no column where no expected time is known."""
    if not any(limits):
        return []
    return [words("limited by", (x or "–" for x in limits), "limited_by", priority=3)]


def _confidence(time: Estimate | None) -> str:
    return time.confidence if time else "unknown"


def _attainable(measures: Measures) -> float | None:
    # Without work there is no roof to be unknown: nothing is attained.
    return measures.attainable_flop_per_s if measures.flops else 0.0


def _groups(analysis: Analysis, groups: Sequence[Group], heading: str, kinds: bool) -> DataTable:
    lost = analysis.unmodelled if kinds else {}
    states = [State.UNMODELLED if g.name in lost else State.COUNTED for g in groups]
    return DataTable(
        columns=(
            words(heading, (g.name for g in groups), minimum=12),
            *([figures("count", (g.count for g in groups), count, priority=5)] if kinds else []),
            *measure_columns([g.measures for g in groups], states, analysis.total),
        ),
        all=True,
    )


def _is_pipeline(analysis: Analysis) -> bool:
    """Whether several models run one after the other."""
    return bool(analysis.ops) and all(figures_of.PART.match(op.module) for op in analysis.ops)


def _parts(analysis: Analysis) -> DataTable:
    return _groups(analysis, analysis.by_module, "by part", kinds=False)


def kinds_table(analysis: Analysis) -> DataTable:
    """Sums by kind of op."""
    return _groups(analysis, analysis.by_kind, "by kind", kinds=True)


def folded(analysis: Analysis) -> tuple[Section, ...]:
    """What only a reader who asks wants to see."""
    blocks: list[Block] = [kinds_table(analysis)] if analysis.by_kind else []
    return (
        section(*blocks, folded="sums by kind of op"),
        section(FactList(items=tuple(figures_of.facts(analysis))), folded="all figures"),
        section(
            Notes(heading="Assumptions", items=tuple(analysis.assumptions)),
            Notes(heading="Counting", items=tuple(figures_of.counting(analysis))),
            folded="assumptions",
        ),
        section(Notes(heading="Terms", items=figures_of.terms()), folded="what the terms mean"),
    )
