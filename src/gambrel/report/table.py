"""The terminal table: a header, the whole, the ops that take longest, sums by kind, remarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.analysis.measures import Estimate, Measures, State
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.layout import Align, Column, beside, hanging, line, listed, show, table
from gambrel.report.options import Options
from gambrel.report.summary import (
    bound_text,
    counting,
    format_count,
    range_text,
    slowest,
    summary,
    verdict,
)
from gambrel.report.terms import sizes, throughput
from gambrel.report.text import bar, clean, display_width, shorten, shorten_path
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_LABEL = 13
#: The name of a model within a pipeline, before a module path; see `gambrel.llm.pipelines`.
_PART = re.compile(r"[a-z]\w*:")
#: From here on the summary and the sums by kind stand next to each other.
_WIDE = 160


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Returns the report as text for a terminal of ``options.width`` columns.

    Columns of the tables appear by importance as the width allows; names are shortened in the
    middle. Colour only where ``options.color`` says so; the text says the same without it.
    """
    options = options or Options()
    width = options.columns
    blocks = [_header(analysis, options), *_overview(analysis, width)]
    return show([*blocks, _ops(analysis, options), _remarks(analysis)], options)


def render_many(analyses: Sequence[Analysis], options: Options | None = None) -> str:
    """Returns one line an analysis, e.g. one model at several batch sizes."""
    options = options or Options()
    remarks = _unique(text for a in analyses for text in a.warnings)
    rows = table(_comparison(analyses), options.columns)
    return show([[rows], listed("Warnings", remarks, "warning")], options)


def render_kinds(analysis: Analysis, options: Options | None = None) -> str:
    """The sums by kind of op alone."""
    options = options or Options()
    return show([[_kinds(analysis, options.columns)]], options)


def render_ops(analysis: Analysis, options: Options | None = None) -> str:
    """The slowest ops alone, as many as ``options.top``."""
    options = options or Options()
    return show([_ops(analysis, options)], options)


def _header(analysis: Analysis, options: Options) -> list[RenderableType]:
    width = options.columns
    right = verdict(analysis)
    what = options.title or f"{analysis.model.name} on {analysis.hardware.name}"
    left = shorten(clean(what), width - len(right) - 2)
    bound = analysis.total.bound
    gap = " " * (width - display_width(left) - len(right))
    heading = line((left, "title"), gap, (right, bound.value if bound else "dim"))
    return [heading, line(("═" * width, "dim"))]


def _overview(analysis: Analysis, width: int) -> list[list[RenderableType]]:
    whole = hanging(summary(analysis), _LABEL, "dim")
    if not analysis.by_kind:
        return [[whole]]
    parts: list[list[RenderableType]] = []
    if _is_pipeline(analysis):
        parts = [[_parts(analysis, width)]]
    if width < _WIDE:
        return [[whole], *parts, [_kinds(analysis, width)]]
    left = width // 2
    return [[beside(whole, _kinds(analysis, width - left), left)], *parts]


def _is_pipeline(analysis: Analysis) -> bool:
    """Whether several models run one after the other."""
    return bool(analysis.ops) and all(_PART.match(op.module) for op in analysis.ops)


def _parts(analysis: Analysis, width: int) -> Table:
    """The models of a pipeline."""
    groups = analysis.by_module
    names = Column(title="by part", cells=tuple(g.name for g in groups), align="left", minimum=12)
    states = [State.COUNTED] * len(groups)
    return table([names, *_figures([g.measures for g in groups], states)], width)


def _kinds(analysis: Analysis, width: int) -> Table:
    groups = analysis.by_kind
    names = Column(title="by kind", cells=tuple(g.name for g in groups), align="left", minimum=12)
    states = [State.UNMODELLED if g.name in analysis.unmodelled else State.COUNTED for g in groups]
    counts = Column(title="count", cells=tuple(f"{g.count:,}" for g in groups), priority=5)
    return table([names, counts, *_figures([g.measures for g in groups], states)], width)


def _ops(analysis: Analysis, options: Options) -> list[RenderableType]:
    if not analysis.ops:
        return [line("The model has no ops that cost anything.")]
    ranked = slowest(analysis)
    shown = ranked[: options.top or None]
    rows = table(_op_columns(shown), options.columns)
    left_out = ranked[len(shown) :]
    if not left_out:
        return [rows]
    share = sum(op.measures.time_share or 0.0 for op in left_out)
    count = sum(op.count for op in left_out)
    note = f"{count:,} more ops take {format_percent(share)} of the bound time"
    return [rows, line((note, "dim"))]


def _op_columns(ops: Sequence[OpResult]) -> list[Column]:
    names = tuple(op.name + (f" ×{op.count:,}" if op.count > 1 else "") for op in ops)
    return [
        Column(title="op", cells=names, align="left", minimum=24, shorten=shorten_path),
        Column(
            title="kind",
            cells=tuple(op.kind for op in ops),
            align="left",
            priority=6,
            styles=tuple("warning" if op.state is State.UNMODELLED else "" for op in ops),
        ),
        Column(
            title="shapes",
            cells=tuple(op.shapes for op in ops),
            align="left",
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
        align: Align = "right",
        styles: tuple[str, ...] = (),
    ) -> Column:
        shown = (cell if k else "?" for cell, k in zip(cells, known, strict=True))
        return Column(
            title=title, cells=tuple(shown), priority=priority, align=align, styles=styles
        )

    bounds = [m.bound.value if m.bound else "" for m in rows]
    expected = [_value(m.expected_time_s) for m in rows]
    return [
        column("FLOP", 3, [format_si(m.flops, "") for m in rows]),
        column("byte", 4, [format_si(m.traffic_bytes, "") for m in rows]),
        column("FLOP/byte", 2, [format_number(m.arithmetic_intensity) for m in rows]),
        column("bound", 1, [bound_text(m) for m in rows], "left", tuple(bounds)),
        column("FLOP/s max", 7, [_attainable(m) for m in rows]),
        column("time", 0, [format_si(m.roofline_time_s, "s", 3) for m in rows]),
        column("share", 0, [format_percent(m.time_share) for m in rows]),
        *(
            [
                column("expected", 2, expected),
                column("confidence", 6, [_confidence(m.expected_time_s) for m in rows], "left"),
            ]
            if any(m.expected_time_s for m in rows)
            else []
        ),
        column(
            "", 8, [bar((m.time_share or 0.0) / longest, 10) for m in rows], "left", tuple(bounds)
        ),
    ]


def _value(time: Estimate | None) -> str:
    return format_si(time.value if time else None, "s", 3)


def _starting(time: Estimate | None) -> str:
    return format_percent(time.launches_share if time else None)


def _confidence(time: Estimate | None) -> str:
    return time.confidence if time else "unknown"


def _attainable(measures: Measures) -> str:
    # Without work there is no roof to be unknown: nothing is attained.
    return format_si(measures.attainable_flop_per_s if measures.flops else 0, "")


def _remarks(analysis: Analysis) -> list[RenderableType]:
    return [
        *listed("Warnings", analysis.warnings, "warning"),
        *listed("Assumptions", analysis.assumptions),
        *listed("Counting", counting(analysis)),
    ]


def _comparison(analyses: Sequence[Analysis]) -> list[Column]:
    totals = [a.total for a in analyses]
    bounds = [t.bound.value if t.bound else "" for t in totals]
    expected = [_value(t.expected_time_s) for t in totals]
    rates = [throughput(a) for a in analyses]

    def column(title: str, priority: int, cells: Sequence[str], align: Align = "right") -> Column:
        return Column(title=title, cells=tuple(cells), priority=priority, align=align)

    return [
        Column(
            title="model", cells=tuple(a.model.name for a in analyses), align="left", minimum=10
        ),
        column("sizes", 0, [", ".join(sizes(a)) or "fixed" for a in analyses], "left"),
        Column(
            title="device",
            cells=tuple(a.hardware.name for a in analyses),
            align="left",
            priority=6,
            minimum=12,
        ),
        column("precision", 5, [a.model.precision for a in analyses], "left"),
        column("time", 0, [format_si(t.roofline_time_s, "s", 4) for t in totals]),
        *(
            [
                column("expected", 2, expected),
                column("range", 6, [range_text(t.expected_time_s) for t in totals], "left"),
                column("starting", 6, [_starting(t.expected_time_s) for t in totals]),
                column("confidence", 6, [_confidence(t.expected_time_s) for t in totals], "left"),
            ]
            if any(t.expected_time_s for t in totals)
            else []
        ),
        column("most/s", 1, ["unknown" if r is None else format_count(r) for r in rates]),
        column("FLOP/byte", 2, [format_number(t.arithmetic_intensity) for t in totals]),
        Column(
            title="bound",
            cells=tuple(b or "unknown" for b in bounds),
            align="left",
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
            "left",
        ),
        column("coverage", 8, [format_percent(a.coverage) for a in analyses]),
    ]


def _unique(items: object) -> list[str]:
    return list(dict.fromkeys(items))  # type: ignore[call-overload]
