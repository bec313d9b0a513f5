"""Recommendations for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gambrel.analysis.advise.below import Below
from gambrel.analysis.advise.recommend import Advice, Recommendation
from gambrel.report.layout import Column, line, show, table
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_capacity, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType


#: Effort → what it means for the user, as a heading; in this order.
HEADINGS: Final = {
    "software": "Same model, same batch: every run is faster",
    "batch": "Larger batch: more a second, but each batch takes longer",
    "retrain": "Only after retraining: accuracy is not judged here",
    "replace": "Another model or device: accuracy is not judged here",
}


def render_advice(found: Advice, options: Options | None = None) -> str:
    """Recommendations; whether to stop; which ops lie far below their roof, and why."""
    options = options or Options()
    blocks = _recommendations(found.recommendations, options)
    if found.stop:
        blocks = [[line((found.stop, "total"))], *blocks]
    elif found.attained is not None:
        blocks.append([line(attained_text(found.attained))])
    hints = [line(text) for text in found.hints]
    return show([*blocks, hints, _below(found.below, options)], options)


def attained_text(share: float) -> str:
    """How far the model is from what no software of this format beats."""
    speed = f"{format_percent(share)} of the speed of perfect fusion and overlap"
    return f"As it stands it attains {speed} in this format at this size."


def render_recommendations(found: Sequence[Recommendation], options: Options | None = None) -> str:
    """Tables of changes, one for each effort, with the times before and after."""
    options = options or Options()
    return show(_recommendations(found, options), options)


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


def _recommendations(
    found: Sequence[Recommendation], options: Options
) -> list[Sequence[RenderableType]]:
    head = line(("Recommendations", "bold"))
    foot = line(footnote(found))
    if not found:
        return [[head, foot]]
    parts: list[RenderableType] = []
    for heading, rows in grouped(found):
        parts += [line(heading), table(_columns(rows), options.columns)]
    costs = [line(f"• {text}") for text in what_they_cost(found)]
    return [[head, *parts, foot], [line(("What it takes", "bold")), *costs]]


def what_they_cost(found: Sequence[Recommendation]) -> list[str]:
    """What each single change is and costs, once; of a combination only what is new in it."""
    told: dict[str, str] = {}
    for r in sorted(found, key=lambda r: len(r.changes)):
        known = {name.partition("=")[0] for change in told for name in change.split(" + ")}
        if not {change.partition("=")[0] for change in r.changes or (r.change,)} <= known:
            told[r.change] = r.about
    return [f"{change}: {about}" for change, about in told.items()]


def _columns(found: Sequence[Recommendation]) -> list[Column]:
    larger = found[0].effort == "batch"
    now = [_latency_before(r) for r in found]
    then = [format_si(r.latency_after_s, "s", 3) for r in found]
    latency = [Column(title="latency", cells=tuple(now)), Column(title="then", cells=tuple(then))]
    item = [
        Column(title="per item", cells=tuple(format_si(r.time_before_s, "s", 3) for r in found)),
        Column(title="then", cells=tuple(format_si(r.time_after_s, "s", 3) for r in found)),
        _right("latency", 0, [f"{a} → {b}" for a, b in zip(now, then, strict=True)]),
    ]
    return [
        Column(title="change", cells=tuple(r.change for r in found), align="left"),
        _right("gain", 0, [f"{r.gain:.2f}×" for r in found]),
        *(item if larger else latency),
        Column(title="bound", cells=tuple(_bound(r) for r in found), align="left", priority=1),
        _right("memory", 3, [format_capacity(r.memory_after_bytes, 3) for r in found]),
        Column(
            title="confidence",
            cells=tuple(r.confidence or "bounds" for r in found),
            align="left",
            priority=2,
        ),
    ]


def _latency_before(r: Recommendation) -> str:
    """Older records do not say it."""
    return format_si(r.latency_before_s, "s", 3) if r.latency_before_s else "–"


def _below(found: Sequence[Below], options: Options) -> list[RenderableType]:
    if not found:
        return []
    columns = [
        Column(
            title="op",
            cells=tuple(f"{b.name} ×{b.count}" for b in found),
            align="left",
            minimum=20,
            shorten=shorten_path,
        ),
        _right("of time", 0, [format_percent(b.time_share) for b in found]),
        _right("of its roof", 0, [format_percent(b.attained) for b in found]),
        Column(title="cause", cells=tuple(b.cause for b in found), align="left"),
        Column(
            title="remedy",
            cells=tuple(b.remedy for b in found),
            align="left",
            priority=1,
            minimum=30,
        ),
    ]
    return [line(("Far below their roof", "bold")), table(columns, options.columns)]


def _bound(r: Recommendation) -> str:
    return r.bound_after.value if r.bound_after else "–"


def _right(title: str, priority: int, cells: Sequence[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
