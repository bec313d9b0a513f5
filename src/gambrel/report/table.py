"""The terminal table: a header, the whole, the ops that take longest, sums by kind, remarks."""

from __future__ import annotations

from collections.abc import Sequence

from gambrel.analysis.result import Analysis, Measures, OpResult, State
from gambrel.report.options import Options
from gambrel.report.summary import format_count, slowest, summary, verdict
from gambrel.report.terms import sizes, throughput
from gambrel.report.text import (
    Column,
    bar,
    beside,
    clean,
    display_width,
    pad,
    paint,
    shorten,
    shorten_path,
    table,
    wrap,
)
from gambrel.units import format_number, format_percent, format_si

_LABEL = 13
#: From here on the summary and the sums by kind stand next to each other.
_WIDE = 160


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Returns the report as text for a terminal of ``options.width`` columns.

    Columns of the tables appear by importance as the width allows; names are shortened in the
    middle. Colour only where ``options.color`` says so; the text says the same without it.
    """
    options = options or Options()
    blocks = [_header(analysis, options), *_overview(analysis, options)]
    blocks.append(_ops(analysis, options))
    blocks.append(_remarks(analysis, options))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def render_many(analyses: Sequence[Analysis], options: Options | None = None) -> str:
    """Returns one line an analysis, e.g. one model at several batch sizes."""
    options = options or Options()
    width = options.columns
    lines = table(_comparison(analyses), width, options.color)
    remarks = _unique(text for a in analyses for text in a.warnings)
    notes = _listed("Warnings", remarks, options)
    return "\n\n".join("\n".join(block) for block in (lines, notes) if block) + "\n"


def _header(analysis: Analysis, options: Options) -> list[str]:
    width = options.columns
    right = verdict(analysis)
    what = options.title or f"{analysis.model.name} on {analysis.hardware.name}"
    left = shorten(clean(what), width - len(right) - 2)
    bound = analysis.total.bound
    style = bound.value if bound else "dim"
    gap = " " * (width - display_width(left) - len(right))
    return [
        f"{paint(left, 'title', options.color)}{gap}{paint(right, style, options.color)}",
        paint("═" * width, "dim", options.color),
    ]


def _overview(analysis: Analysis, options: Options) -> list[list[str]]:
    width = options.columns
    if width < _WIDE:
        return [_summary(analysis, width, options), _kinds(analysis, width, options)]
    left = width // 2
    whole = _summary(analysis, left - 4, options)
    return [beside(whole, _kinds(analysis, width - left, options), left)]


def _summary(analysis: Analysis, width: int, options: Options) -> list[str]:
    lines: list[str] = []
    for label, text in summary(analysis):
        first, *rest = wrap(clean(text), width - _LABEL)
        lines.append(f"{paint(pad(label, _LABEL), 'dim', options.color)}{first}")
        lines += [" " * _LABEL + line for line in rest]
    return lines


def _kinds(analysis: Analysis, width: int, options: Options) -> list[str]:
    groups = analysis.by_kind
    if not groups:
        return []
    names = Column(
        title="by kind", cells=tuple(clean(g.name) for g in groups), align="<", minimum=12
    )
    states = [State.UNMODELLED if g.name in analysis.unmodelled else State.COUNTED for g in groups]
    counts = Column(title="count", cells=tuple(f"{g.count:,}" for g in groups), priority=5)
    columns = [names, counts, *_figures([g.measures for g in groups], states)]
    return table(columns, width, options.color)


def _ops(analysis: Analysis, options: Options) -> list[str]:
    if not analysis.ops:
        return ["The model has no ops that cost anything."]
    ranked = slowest(analysis)
    shown = ranked[: options.top or None]
    lines = table(_op_columns(shown), options.columns, options.color)
    left_out = ranked[len(shown) :]
    if left_out:
        share = sum(op.measures.time_share or 0.0 for op in left_out)
        count = sum(op.count for op in left_out)
        note = f"{count:,} more ops take {format_percent(share)} of the bound time"
        lines.append(paint(note, "dim", options.color))
    return lines


def _op_columns(ops: Sequence[OpResult]) -> list[Column]:
    names = tuple(clean(op.name) + (f" ×{op.count:,}" if op.count > 1 else "") for op in ops)
    return [
        Column(title="op", cells=names, align="<", minimum=24, shorten=shorten_path),
        Column(
            title="kind",
            cells=tuple(clean(op.kind) for op in ops),
            align="<",
            priority=6,
            styles=tuple("warning" if op.state is State.UNMODELLED else "" for op in ops),
        ),
        Column(
            title="shapes",
            cells=tuple(clean(op.shapes) for op in ops),
            align="<",
            priority=9,
            minimum=24,
        ),
        *_figures([op.measures for op in ops], [op.state for op in ops]),
    ]


def _figures(rows: Sequence[Measures], states: Sequence[State]) -> list[Column]:
    """The columns that every scope shares; an unmodelled op has no figures, rather than zeros."""
    known = [s is not State.UNMODELLED for s in states]
    longest = max((m.time_share or 0.0 for m in rows), default=0.0) or 1.0

    def column(
        title: str,
        priority: int,
        cells: Sequence[str],
        align: str = ">",
        styles: tuple[str, ...] = (),
    ) -> Column:
        shown = (cell if k else "?" for cell, k in zip(cells, known, strict=True))
        return Column(
            title=title, cells=tuple(shown), priority=priority, align=align, styles=styles
        )

    bounds = [m.bound.value if m.bound else "" for m in rows]
    return [
        column("FLOP", 3, [format_si(m.flops, "") for m in rows]),
        column("byte", 4, [format_si(m.traffic_bytes, "") for m in rows]),
        column("FLOP/byte", 2, [format_number(m.arithmetic_intensity) for m in rows]),
        column("bound", 1, [b or "unknown" for b in bounds], "<", tuple(bounds)),
        column("FLOP/s max", 7, [_attainable(m) for m in rows]),
        column("time", 0, [format_si(m.bound_time_s, "s", 3) for m in rows]),
        column("share", 0, [format_percent(m.time_share) for m in rows]),
        column("", 8, [bar((m.time_share or 0.0) / longest, 10) for m in rows], "<", tuple(bounds)),
    ]


def _attainable(measures: Measures) -> str:
    # Without work there is no roof to be unknown: nothing is attained.
    return format_si(measures.attainable_flop_per_s if measures.flops else 0, "")


def _remarks(analysis: Analysis, options: Options) -> list[str]:
    parts = [
        _listed("Warnings", analysis.warnings, options),
        _listed("Assumptions", analysis.assumptions, options),
        _listed("Counting", [f"{k}: {v}" for k, v in analysis.conventions.items()], options),
    ]
    return [line for part in parts for line in part]


def _listed(heading: str, items: Sequence[str], options: Options) -> list[str]:
    if not items:
        return []
    style = "warning" if heading == "Warnings" else "bold"
    lines = [paint(heading, style, options.color)]
    for item in items:
        lines += wrap(f"• {clean(item)}", options.columns, "  ")
    return lines


def _comparison(analyses: Sequence[Analysis]) -> list[Column]:
    totals = [a.total for a in analyses]
    bounds = [t.bound.value if t.bound else "" for t in totals]
    rates = [throughput(a) for a in analyses]

    def column(title: str, priority: int, cells: Sequence[str], align: str = ">") -> Column:
        return Column(title=title, cells=tuple(cells), priority=priority, align=align)

    return [
        Column(
            title="model", cells=tuple(clean(a.model.name) for a in analyses), align="<", minimum=10
        ),
        column("sizes", 0, [", ".join(sizes(a)) or "fixed" for a in analyses], "<"),
        Column(
            title="device",
            cells=tuple(clean(a.hardware.name) for a in analyses),
            align="<",
            priority=6,
            minimum=12,
        ),
        column("precision", 5, [a.model.precision for a in analyses], "<"),
        column("time", 0, [format_si(t.bound_time_s, "s", 4) for t in totals]),
        column("per s", 1, ["unknown" if r is None else format_count(r) for r in rates]),
        column("FLOP/byte", 2, [format_number(t.arithmetic_intensity) for t in totals]),
        Column(
            title="bound",
            cells=tuple(b or "unknown" for b in bounds),
            align="<",
            priority=1,
            styles=tuple(bounds),
        ),
        column("compute", 3, [format_percent(t.compute_utilization) for t in totals]),
        column("memory", 3, [format_percent(t.memory_utilization) for t in totals]),
        column("FLOP", 7, [format_si(t.flops, "") for t in totals]),
        column("byte", 7, [format_si(t.traffic_bytes, "") for t in totals]),
        column(
            "fits",
            4,
            [{True: "yes", False: "NO", None: "unknown"}[a.footprint.fits] for a in analyses],
            "<",
        ),
        column("coverage", 8, [format_percent(a.coverage) for a in analyses]),
    ]


def _unique(items: object) -> list[str]:
    return list(dict.fromkeys(items))  # type: ignore[call-overload]
