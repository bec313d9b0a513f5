"""What advice says, as headings, tables and sentences for any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gambrel.advise.below import Below
from gambrel.advise.recommend import Advice, Recommendation, advise
from gambrel.analysis.estimate.store import load
from gambrel.analysis.result import Analysis
from gambrel.units import format_capacity, format_percent, format_si

#: Effort → what it means for the user, as a heading; in this order.
HEADINGS: Final = {
    "software": "Same model, same batch: every run is faster",
    "batch": "Larger batch: more a second, but each batch takes longer",
    "retrain": "Only after retraining: accuracy is not judged here",
    "replace": "Another model or device: accuracy is not judged here",
}

#: Units of the figures of advice in JSON.
UNITS: Final = {
    "gain": "1",
    "gain_low": "1",
    "time_before_s": "s",
    "time_after_s": "s",
    "latency_before_s": "s",
    "latency_after_s": "s",
    "memory_after_bytes": "byte",
    "attained": "1",
    "time_share": "1",
    "count": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table under a heading.

    Attributes:
        heading: Above it.
        header: One title a column.
        rows: Cells; the first column is text, the others figures and words.
    """

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def advice_of(analysis: Analysis) -> Advice | None:
    """Advice with the constants that this machine's user has calibrated; None without a time."""
    if analysis.workload is None or analysis.total.roofline_time_s is None:
        return None
    return advise(analysis, load())


def sections(found: Advice) -> tuple[Section, ...]:
    """The tables: a group of recommendations each, then ops far below their roof."""
    tables = [_changes(heading, rows) for heading, rows in grouped(found.recommendations)]
    return (*tables, *([_far(found.below)] if found.below else []))


def sentences(found: Advice) -> tuple[str, ...]:
    """Everything that is no table."""
    reached = "" if found.attained is None else attained_text(found.attained)
    told = (found.stop or reached, *found.hints, footnote(found.recommendations))
    return tuple(text for text in (*told, *what_they_cost(found.recommendations)) if text)


def _changes(heading: str, found: Sequence[Recommendation]) -> Section:
    header = ("change", "gain", "latency", "then", "per item", "then", "bound", "memory")
    return Section(
        heading=heading,
        header=(*header, "confidence"),
        rows=tuple(
            (
                r.change,
                f"{r.gain:.2f}×",
                latency_before(r),
                format_si(r.latency_after_s, "s", 3),
                format_si(r.time_before_s, "s", 3),
                format_si(r.time_after_s, "s", 3),
                bound_after(r),
                format_capacity(r.memory_after_bytes, 3),
                r.confidence or "bounds",
            )
            for r in found
        ),
    )


def _far(found: Sequence[Below]) -> Section:
    return Section(
        heading="Far below their roof",
        header=("op", "of time", "of its roof", "cause", "remedy"),
        rows=tuple(
            (
                f"{b.name} ×{b.count}",
                format_percent(b.time_share),
                format_percent(b.attained),
                b.cause,
                b.remedy,
            )
            for b in found
        ),
    )


def attained_text(share: float) -> str:
    """How far the model is from what no software of this format beats."""
    speed = f"{format_percent(share)} of the speed of perfect fusion and overlap"
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
    expected = all(r.time_kind == "expected" for r in found)
    kind = "expected ones" if expected else "roofline bounds, not forecasts"
    return (
        f"Each change was applied to the model and analyzed again; times are {kind}, of the whole "
        "batch where they do not say per item. Repeat one with 'gambrel what-if --change'."
    )


def what_they_cost(found: Sequence[Recommendation]) -> list[str]:
    """What each single change is and costs, once; of a combination only what is new in it."""
    told: dict[str, str] = {}
    for r in sorted(found, key=lambda r: len(r.changes)):
        known = {name.partition("=")[0] for change in told for name in change.split(" + ")}
        if not {change.partition("=")[0] for change in r.changes or (r.change,)} <= known:
            told[r.change] = r.about
    return [f"{change}: {about}" for change, about in told.items()]


def latency_before(r: Recommendation) -> str:
    """Time of the whole batch now; older records do not say it."""
    return format_si(r.latency_before_s, "s", 3) if r.latency_before_s else "–"


def bound_after(r: Recommendation) -> str:
    """The resource that limits then."""
    return r.bound_after.value if r.bound_after else "–"
