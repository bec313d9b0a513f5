"""Several analyses side by side: one line each."""

from __future__ import annotations

from typing import Any

from gambrel.analysis.result import Analysis
from gambrel.report.answers import Analyses
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    Notes,
    amount,
    figures,
    rate_text,
    ratio,
    seconds,
    section,
    sections,
    share,
    verdict_of_fit,
    words,
)
from gambrel.report.builders import advice, figures_of
from gambrel.report.builders.analysis import seconds_of
from gambrel.report.json_head import envelope
from gambrel.report.options import Options
from gambrel.report.terms import items, limiter_of, range_text, sizes, title


def document(found: Analyses, options: Options) -> Document:
    """A table of the wholes."""
    all_ = found.analyses
    names = ", ".join(dict.fromkeys(a.model.name for a in all_))
    devices = ", ".join(dict.fromkeys(a.hardware.name for a in all_))
    warnings = tuple(dict.fromkeys(text for a in all_ for text in a.warnings))
    assumed = tuple(dict.fromkeys(text for a in all_ for text in a.assumptions))
    return Document(
        title=f"{names} on {devices}: {len(all_)} analyses",
        answer=_answer(all_),
        sections=sections(
            section(DataTable(columns=tuple(_columns(all_)), all=True)),
            *(s for a in all_ for s in _advice(a) if options.recommend),
            section(Notes(heading="Warnings", items=warnings, style="warning")),
            section(Notes(heading="Assumptions", items=assumed), folded="assumptions"),
        ),
    )


def content(found: Analyses, options: Options | None = None) -> dict[str, Any]:
    """Each with its own head, so that each can be loaded."""
    return {"analyses": [envelope(a, options) for a in found.analyses]}


def rows(found: Analyses) -> DataTable:
    """The ops of all in one table."""
    return figures_of.rows(*found.analyses)


def _advice(analysis: Analysis) -> tuple[Any, ...]:
    made = advice.advice_of(analysis)
    if made is None:
        return ()
    return advice.advice_sections(made, f"{title(analysis)}: ")


def _rate(analysis: Analysis) -> float | None:
    seconds_whole = seconds_of(analysis.total)
    return items(analysis)[0] / seconds_whole if seconds_whole else None


def _answer(found: tuple[Analysis, ...]) -> tuple[str, ...]:
    """Which of them does most a second."""
    known = [(rate, a) for a in found if (rate := _rate(a)) is not None]
    units = {items(a)[1] for a in found}
    if not known or len(units) > 1:
        return ()
    rate, best = max(known, key=lambda pair: pair[0])
    kind = "expected" if best.total.expected_time_s else "at the roofline"
    return (f"Most {units.pop()}/s: {rate_text(rate)} {kind}, {title(best)}",)


def _columns(found: tuple[Analysis, ...]) -> list[Column]:
    totals = [a.total for a in found]
    times = [t.expected_time_s for t in totals]
    limits = [limiter_of(a) for a in found]
    bounds = tuple(t.bound.value if t.bound else "" for t in totals)
    unit = dict.fromkeys(items(a)[1] for a in found)
    estimated = [
        figures("expected", (t.value if t else None for t in times), seconds),
        words("range", map(range_text, times), priority=6),
        words("confidence", (t.confidence if t else "unknown" for t in times), priority=6),
    ]
    return [
        words("model", (a.model.name for a in found), minimum=10),
        words("sizes", (", ".join(sizes(a)) or "fixed" for a in found)),
        words("device", (a.hardware.name for a in found), priority=6, minimum=12),
        words("precision", (a.model.precision for a in found), priority=5),
        words("runtime", (a.runtime for a in found), priority=7),
        *(estimated if any(times) else []),
        figures(f"{'/'.join(unit)}/s", map(_rate, found), rate_text, priority=1),
        *([words("limited by", (x or "–" for x in limits), priority=2)] if any(limits) else []),
        words("bound", (b or "unknown" for b in bounds), priority=1, styles=bounds),
        figures("roofline", (t.roofline_time_s for t in totals), seconds, priority=2),
        figures("SOL", (a.sol_time_s for a in found), seconds, priority=4),
        figures("FLOP/byte", (t.arithmetic_intensity for t in totals), ratio, priority=3),
        figures("compute", (t.compute_utilization for t in totals), share, priority=5),
        figures("memory", (t.memory_utilization for t in totals), share, priority=5),
        figures("FLOP", (t.flops for t in totals), amount, priority=7),
        figures("byte", (t.traffic_bytes for t in totals), amount, priority=7),
        words("fits", (verdict_of_fit(a.footprint.fits) for a in found), priority=4),
        figures("coverage", (a.coverage for a in found), share, priority=8),
    ]
