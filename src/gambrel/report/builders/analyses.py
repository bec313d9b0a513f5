"""Several analyses side by side: one line each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from gambrel.analysis.result import Analysis
from gambrel.report.answers import Analyses
from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    amount,
    assumed,
    capacity,
    col,
    rate_text,
    ratio,
    seconds,
    section,
    sections,
    share,
    table_of,
    verdict_of_fit,
)
from gambrel.report.builders import advice, figures_of
from gambrel.report.builders.analysis import seconds_of
from gambrel.report.json_head import envelope
from gambrel.report.options import Options
from gambrel.report.picture import Bar, Picture, drawn_bars, limit_keys
from gambrel.report.terms import bound_text, items, limiter_of, range_text, sizes, title
from gambrel.units import format_count

#: What limits → colour of a bar.
_COLORS: Final = {"launches": "overhead", "host": "overhead"}


def document(found: Analyses, options: Options) -> Document:
    """A table of the wholes."""
    all_ = found.analyses
    names = ", ".join(dict.fromkeys(a.model.name for a in all_))
    devices = ", ".join(dict.fromkeys(a.hardware.name for a in all_))
    warnings = tuple(dict.fromkeys(text for a in all_ for text in a.warnings))
    texts = tuple(dict.fromkeys(text for a in all_ for text in a.assumptions))
    return Document(
        title=f"{names} on {devices}: {format_count(len(all_), 'analysis', 'analyses')}",
        answer=_answer(all_),
        sections=sections(
            section(_table(all_)),
            *(s for a in all_ for s in _advice(a) if options.recommend),
            section(Notes(heading="Warnings", items=warnings, style="warning")),
            assumed(texts),
        ),
        source="the analyses side by side; each has its constants on its own page",
        figures=tuple(_key_figures(all_)),
    )


def _key_figures(all_: tuple[Analysis, ...]) -> Iterator[KeyFigure]:
    """The best of each: rate, time of one run, memory; and which has it."""
    rated = [(rate, a) for a in all_ if (rate := _rate(a)) is not None]
    if rated and len({items(a)[1] for a in all_}) == 1:
        rate, best = max(rated, key=lambda pair: pair[0])
        yield KeyFigure(
            label="highest rate",
            text=f"{rate_text(rate)} {items(best)[1]}/s",
            note=name_among(best, all_),
            formula="items of a run / its expected time, or its roofline time where that is all",
        )
    timed = [(s, a) for a in all_ if (s := seconds_of(a.total))]
    if timed:
        least, quick = min(timed, key=lambda pair: pair[0])
        yield KeyFigure(
            label="shortest run",
            text=seconds(least),
            note=name_among(quick, all_),
            formula="expected time of a run, or its roofline time where that is all",
        )
    need, small = min(((a.footprint.total_bytes, a) for a in all_), key=lambda pair: pair[0])
    yield KeyFigure(
        label="least memory",
        text=capacity(need),
        note=name_among(small, all_),
        formula="weights, activations and caches alive at the peak",
    )


def pictures(found: Analyses, _options: Options) -> tuple[Picture, ...]:
    """A bar for each: how long it takes, with its range; none where nothing is known of any."""
    return drawn_bars(
        "Time for one run",
        "Less is better.",
        (_bar(a, found.analyses) for a in found.analyses),
        unit="s",
        series=("expected", "roofline"),
        legend=partial(limit_keys, expected=True),
    )


def name_among(analysis: Analysis, among: tuple[Analysis, ...]) -> str:
    """What tells it from the others; its whole title where nothing does."""
    said = [(a.model.name, a.hardware.name, ", ".join(sizes(a)), a.model.precision) for a in among]
    differs = [len(set(column)) > 1 for column in zip(*said, strict=True)]
    own = said[among.index(analysis)]
    return ", ".join(part for part, d in zip(own, differs, strict=True) if d) or title(analysis)


def _bar(analysis: Analysis, among: tuple[Analysis, ...]) -> Bar:
    expected = analysis.expected_time_s
    limiter = limiter_of(analysis) or (analysis.bound.value if analysis.bound else "")
    values = (expected.value if expected else None, analysis.roofline_time_s)
    known = any(value is not None for value in values)
    return Bar(
        name=name_among(analysis, among),
        values=values if known else (None, None),
        color=_COLORS.get(limiter, limiter),
        ends=(expected.low, expected.high) if expected else None,
        missing="" if known else "the device publishes no roof for this work",
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
    if not seconds_whole or analysis.left_out:
        return None
    return items(analysis)[0] / seconds_whole


def _answer(found: tuple[Analysis, ...]) -> tuple[str, ...]:
    """Which of them does most a second."""
    fitting = (a for a in found if a.footprint.fits is not False)
    known = [(rate, a) for a in fitting if (rate := _rate(a)) is not None]
    units = {items(a)[1] for a in found}
    if not known or len(units) > 1:
        missing = next((a.left_out for a in found if a.left_out), "")
        return (f"Rates: unknown, as figures leave out {missing}",) if missing else ()
    rate, best = max(known, key=lambda pair: pair[0])
    kind = "expected" if best.total.expected_time_s else "at the roofline"
    return (f"Most {units.pop()}/s: {rate_text(rate)} {kind}, {title(best)}",)


def _table(found: tuple[Analysis, ...]) -> DataTable:
    timed = any(a.total.expected_time_s for a in found)
    limited = any(a.limited_by for a in found)
    lacking = any(a.footprint.fits is False for a in found)  # then nothing is more important
    units = "/".join(dict.fromkeys(items(a)[1] for a in found))
    bounds = tuple(a.bound.value if a.bound else "" for a in found)
    return table_of(
        found,
        col("model", "model.name", minimum=10),
        col("sizes", lambda a: ", ".join(sizes(a)) or "fixed"),
        col("device", "hardware.name", priority=6, minimum=12),
        col("precision", "model.precision", priority=5),
        col("runtime", "runtime", priority=7),
        col("expected", _expected, seconds) if timed else None,
        col("range", lambda a: range_text(a.expected_time_s), priority=6) if timed else None,
        col("confidence", _confidence, priority=6) if timed else None,
        col(f"{units}/s", _rate, rate_text, 1),
        col("limited by", lambda a: limiter_of(a) or "–", priority=2) if limited else None,
        col("bound", lambda a: bound_text(a.total), priority=1, styles=bounds),
        col("roofline", "roofline_time_s", seconds, 2),
        col("SOL", "sol_time_s", seconds, 4),
        col("FLOP/byte", "arithmetic_intensity", ratio, 3),
        col("compute", "compute_utilization", share, 5),
        col("memory", "memory_utilization", share, 5),
        col("FLOP", "flops", amount, 7),
        col("byte", "traffic_bytes", amount, 7),
        col("fits", lambda a: verdict_of_fit(a.footprint.fits), priority=0 if lacking else 4),
        col("coverage", "coverage", share, 8),
        all=True,
    )


def _expected(analysis: Analysis) -> float | None:
    return analysis.expected_time_s.value if analysis.expected_time_s else None


def _confidence(analysis: Analysis) -> str:
    return analysis.expected_time_s.confidence if analysis.expected_time_s else "unknown"
