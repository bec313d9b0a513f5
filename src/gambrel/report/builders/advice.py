"""Recommendations: changes by effort with times before and after, and ops far below their roof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from gambrel.analysis.estimate.store import load
from gambrel.analysis.result import Analysis
from gambrel.report.answers import Changes
from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    Section,
    capacity,
    col,
    seconds,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import cut, shorten_path
from gambrel.units import format_percent

if TYPE_CHECKING:
    from gambrel.advise.recommend import Advice, Recommendation
    from gambrel.advise.shortfall import Below

#: Effort → what it means for the user, as a heading; in this order.
HEADINGS: Final = {
    "software": "Same model, same batch: every run is faster",
    "batch": "Larger batch: more per second, but each batch takes longer",
    "retrain": "Only after retraining: accuracy is not judged here",
    "replace": "Another model or device: accuracy is not judged here",
}


def advice_of(analysis: Analysis) -> Advice | None:
    """Advice with the constants that this machine's user has calibrated; None without a time.

    That of the last analysis is kept: a page shows it twice.
    """
    from gambrel.advise.recommend import advise, has_time

    if analysis.workload is None or not has_time(analysis):
        return None
    if not _last or _last[0][0] is not analysis:
        _last[:] = [(analysis, advise(analysis, load()))]
    return _last[0][1]


_last: Final[list[tuple[Analysis, Advice]]] = []


def document(found: Advice | Changes, _options: Options) -> Document:
    """What to change, best first."""
    return Document(
        title="Recommendations",
        answer=_answer(found),
        sections=sections(*advice_sections(found, titled=False)),
        source="each change applied to the workload and analyzed again, on the same device",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Advice | Changes) -> Iterator[KeyFigure]:
    for best in found.recommendations[:1]:
        kind = "expected" if best.time_kind == "expected" else "roofline"
        yield KeyFigure(
            label="best gain",
            text=f"{best.gain:.2f}×",
            note=best.change,
            formula=f"{kind} time per item before / after",
            source=best.about,
            confidence=best.confidence or "",
        )
        yield KeyFigure(
            label="time per item",
            text=seconds(best.time_after_s),
            note=f"before {seconds(best.time_before_s)}",
            formula=f"{kind} time of a batch / items in it",
        )
        yield KeyFigure(
            label="memory",
            text=capacity(best.memory_after_bytes),
            note="after the change",
            formula="weights, activations and caches alive at the peak",
        )
    if not isinstance(found, Changes) and found.attained is not None:
        yield KeyFigure(
            label="attained",
            text=format_percent(found.attained),
            note="of perfect fusion and overlap",
            formula="expected time of perfect kernels / expected time as it stands",
        )
    if found.recommendations:
        yield KeyFigure(
            label="changes that help",
            text=f"{len(found.recommendations):,}",
            note="each beyond its own uncertainty",
            formula="changes whose gain is larger than its uncertainty, at most one of a kind",
        )


def _answer(found: Advice | Changes) -> tuple[str, ...]:
    stop = "" if isinstance(found, Changes) else found.stop
    if stop:
        return (stop,)
    if not found.recommendations:
        return (footnote(()),)
    best = found.recommendations[0]
    kind = "expected" if best.time_kind == "expected" else "roofline"
    return (f"Best: {best.change}, {best.gain:.2f}× per item by the {kind} time",)


def advice_sections(
    found: Advice | Changes, of: str = "", *, titled: bool = True
) -> tuple[Section, ...]:
    """The tables by effort, what each change takes, and ops far below their roof."""
    changes = found.recommendations
    tables = [_changes(heading, rows) for heading, rows in grouped(changes)]
    heading = f"{of}Recommendations" if titled else ""
    told = tuple(_said(found)) if changes else (*_said(found), footnote(changes))
    if tables:
        tables[-1] = replace(tables[-1], note=footnote(changes))
        if heading and not told:
            tables[0] = replace(tables[0], heading=f"{heading}. {tables[0].heading}")
    return (
        section(Notes(heading=heading, items=told)),
        section(*tables, Notes(heading="What it takes", items=tuple(what_they_cost(changes)))),
        section(None if isinstance(found, Changes) else _far(found.below)),
    )


def _said(found: Advice | Changes) -> list[str]:
    if isinstance(found, Changes):
        return []
    reached = "" if found.attained is None else attained_text(found.attained)
    return [text for text in (found.stop or reached, *found.hints) if text]


def _changes(heading: str, found: Sequence[Recommendation]) -> DataTable:
    larger = found[0].effort == "batch"
    per_item = 1 if larger else 5
    return table_of(
        found,
        col("change", "change"),
        col("gain", "gain", lambda v: f"{v:.2f}×"),
        col("before", "latency_before_s", _known),
        col("after", "latency_after_s", seconds),
        col("per item before", "time_before_s", seconds, per_item),
        col("after", "time_after_s", seconds, per_item),
        col("bound", bound_after, priority=3, key="bound_after"),
        col("memory", "memory_after_bytes", capacity, 4),
        col("confidence", lambda r: r.confidence or "roofline", priority=2),
        heading=heading,
        all=True,
    )


def _far(found: Sequence[Below]) -> DataTable:
    return table_of(
        found,
        col("op", lambda b: f"{b.name} ×{b.count}", minimum=20, shorten=shorten_path),
        col("of time", "time_share", share),
        col("of its roof", "attained", share),
        col("cause", "cause"),
        col("remedy", "remedy", priority=1, minimum=30, shorten=cut),
        heading="Far below their roof",
        all=True,
    )


def attained_text(part: float) -> str:
    """How far the model is from perfect fusion and overlap."""
    speed = f"{format_percent(part)} of the speed of perfect fusion and overlap"
    return f"As it stands it attains {speed} in this format at this size."


def grouped(found: Sequence[Recommendation]) -> list[tuple[str, list[Recommendation]]]:
    """Recommendations under the heading of their effort."""
    return [
        (heading, rows)
        for effort, heading in HEADINGS.items()
        if (rows := [r for r in found if r.effort == effort])
    ]


def footnote(found: Sequence[Recommendation]) -> str:
    """What the times are and how to repeat a change; without any, that there is none."""
    if not found:
        return (
            "None: no change of the catalogue makes an item 5 % faster, beyond its own uncertainty."
        )
    kinds = {r.time_kind == "expected" for r in found}
    if kinds == {True}:
        kind = "expected ones"
    elif kinds == {False}:
        kind = "those of the roofline, not forecasts"
    else:
        kind = "expected ones, or those of the roofline where the confidence says so"
    return (
        f"Each change was applied to the model and analyzed again; times are {kind}, of the whole "
        "batch where they do not say per item. 'gambrel what-if' repeats one."
    )


def what_they_cost(found: Sequence[Recommendation]) -> list[str]:
    """What each single change is and costs, once; of a combination only what is new in it."""
    told: dict[str, str] = {}
    for r in sorted(found, key=lambda r: len(r.changes)):
        known = {name.partition("=")[0] for change in told for name in change.split(" + ")}
        if not {change.partition("=")[0] for change in r.changes or (r.change,)} <= known:
            told[r.change] = r.about
    return [f"{change}: {about}" for change, about in told.items()]


def _known(value: Any) -> str:
    return seconds(value) if value else "–"  # older records do not say it


def bound_after(r: Recommendation) -> str:
    """The resource that limits after the change."""
    return r.bound_after.value if r.bound_after else "–"
