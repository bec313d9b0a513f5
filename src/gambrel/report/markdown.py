"""Markdown: the whole, the ops that take longest, and sums by kind, for a text or an issue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gambrel.analysis.measures import Estimate, Measures, State
from gambrel.analysis.result import Analysis, OpResult
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
from gambrel.report.terms import sizes, throughput, title
from gambrel.report.text import clean, shorten
from gambrel.units import format_number, format_percent, format_si

_NAME: Final = 60
_FIGURES: Final = (
    "FLOP",
    "byte",
    "FLOP/byte",
    "bound",
    "bound time",
    "share",
    "expected",
    "range",
    "starting",
    "confidence",
)
_ALIGN: Final = "rrrlrrrlrl"
_SPECIAL: Final = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]|#~"} | {"<": "&lt;", "&": "&amp;"})


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Returns headings, lists and tables; text from models and devices is escaped."""
    options = options or Options()
    ranked = slowest(analysis)
    shown = ranked[: options.top or None]
    parts = [
        f"# {_escape(options.title or title(analysis))}: {verdict(analysis)}",
        _table(("figure", "value"), "ll", summary(analysis)),
    ]
    if shown:
        parts += [f"## Ops that take longest ({len(shown)} of {len(ranked)} rows)", _ops(shown)]
        parts += ["## By kind", _kinds(analysis)]
    parts += _advice(analysis) if options.recommend else []
    parts += _list("Warnings", analysis.warnings) + _list("Assumptions", analysis.assumptions)
    parts += _list("Counting", counting(analysis))
    return "\n\n".join(parts) + "\n"


def render_many(analyses: Sequence[Analysis], options: Options | None = None) -> str:
    """Returns one table with a line an analysis, and the advice on each where asked for."""
    head = (
        *("model", "sizes", "device", "precision", "bound time", "most per s", "FLOP/byte"),
        *("bound", "expected", "range", "starting", "confidence"),
    )
    rows = [
        (
            a.model.name,
            ", ".join(sizes(a)) or "fixed",
            a.hardware.name,
            a.model.precision,
            format_si(a.total.roofline_time_s, "s"),
            "unknown" if (rate := throughput(a)) is None else format_count(rate),
            format_number(a.total.arithmetic_intensity),
            a.total.bound.value if a.total.bound else "unknown",
            *_expected(a.total.expected_time_s),
        )
        for a in analyses
    ]
    warnings = tuple(dict.fromkeys(text for a in analyses for text in a.warnings))
    parts = [_table(head, "llllrrrlrlrl", rows), *_list("Warnings", warnings)]
    for a in analyses if options and options.recommend else ():
        parts += _advice(a, f"{title(a)} {', '.join(sizes(a))}")
    return "\n\n".join(parts) + "\n"


def _advice(analysis: Analysis, of: str = "") -> list[str]:
    """Recommendations, each group in a table."""
    from gambrel.report.advice_section import advice_of, sections, sentences

    found = advice_of(analysis)
    if found is None:
        return []
    parts = [f"## Recommendations{f': {_escape(of)}' if of else ''}"]
    for part in sections(found):
        align = "l" + "r" * (len(part.header) - 1)
        parts += [f"### {part.heading}", _table(part.header, align, part.rows)]
    return [*parts, "\n".join(f"- {_escape(text)}" for text in sentences(found))]


def _ops(shown: Sequence[OpResult]) -> str:
    rows = [
        (shorten(op.name, _NAME), op.kind, f"{op.count:,}", *_figures(op.measures, op.state))
        for op in shown
    ]
    return _table(("op", "kind", "count", *_FIGURES), f"llr{_ALIGN}", rows)


def _kinds(analysis: Analysis) -> str:
    rows = []
    for group in analysis.by_kind:
        lost = group.name in analysis.unmodelled
        figures = _figures(group.measures, State.UNMODELLED if lost else State.COUNTED)
        rows.append((group.name, f"{group.count:,}", *figures))
    return _table(("kind", "count", *_FIGURES), f"lr{_ALIGN}", rows)


def _figures(measures: Measures, state: State) -> tuple[str, ...]:
    if state is State.UNMODELLED:
        return ("unknown",) * len(_FIGURES)
    return (
        format_si(measures.flops, ""),
        format_si(measures.traffic_bytes, ""),
        format_number(measures.arithmetic_intensity),
        bound_text(measures),
        format_si(measures.roofline_time_s, "s", 3),
        format_percent(measures.time_share),
        *_expected(measures.expected_time_s),
    )


def _expected(time: Estimate | None) -> tuple[str, str, str, str]:
    """Value, range, share of starting kernels, confidence."""
    if time is None:
        return ("unknown",) * 4
    return (
        format_si(time.value, "s", 3),
        range_text(time),
        format_percent(time.launches_share),
        time.confidence,
    )


def _table(head: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    rule = ["---" if a == "l" else "---:" for a in align]
    body = [[_escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), rule, *body])


def _list(heading: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    return [f"## {heading}", "\n".join(f"- {_escape(item)}" for item in items)]


def _escape(text: str) -> str:
    return clean(text).translate(_SPECIAL)
