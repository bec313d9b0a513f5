"""Recommendations for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.analysis.advise.below import Below
from gambrel.analysis.advise.recommend import Advice, Recommendation
from gambrel.report.layout import Column, line, show, table
from gambrel.report.options import Options
from gambrel.report.text import shorten_path
from gambrel.units import format_capacity, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_advice(found: Advice, options: Options | None = None) -> str:
    """Recommendations; whether to stop; which ops lie far below their roof, and why."""
    options = options or Options()
    blocks = _recommendations(found.recommendations, options)
    if found.stop:
        blocks = [[line((found.stop, "total"))], *blocks]
    elif found.attained is not None:
        share = f"{format_percent(found.attained)} of the speed of perfect fusion and overlap"
        blocks.append([line(f"As it stands it attains {share} in this format at this size.")])
    hints = [line(text) for text in found.hints]
    return show([*blocks, _below(found.below, options), hints], options)


def render_recommendations(found: Sequence[Recommendation], options: Options | None = None) -> str:
    """A table of changes, best first, with the time per item before and after."""
    options = options or Options()
    return show(_recommendations(found, options), options)


def _recommendations(
    found: Sequence[Recommendation], options: Options
) -> list[Sequence[RenderableType]]:
    head = line(("Recommendations", "bold"))
    if not found:
        text = (
            "None: no change of the catalogue makes an item 5 % faster, beyond its own uncertainty."
        )
        return [[head, line(text)]]
    columns = [
        Column(title="change", cells=tuple(r.change for r in found), align="left"),
        _right("gain", 0, [f"{r.gain:.2f}×" for r in found]),
        _right("per item", 0, [format_si(r.time_before_s, "s", 3) for r in found]),
        _right("then", 0, [format_si(r.time_after_s, "s", 3) for r in found]),
        _right("latency", 2, [format_si(r.latency_after_s, "s", 3) for r in found]),
        Column(title="bound", cells=tuple(_bound(r) for r in found), align="left", priority=1),
        _right("memory", 3, [format_capacity(r.memory_after_bytes, 3) for r in found]),
        Column(
            title="about", cells=tuple(r.about for r in found), align="left", priority=5, minimum=30
        ),
    ]
    expected = all(r.time_kind == "expected" for r in found)
    kind = "expected ones" if expected else "roofline bounds, not forecasts,"
    foot = (
        f"Each change was applied to the model and analyzed again; times are {kind} per item of "
        "the batch. Repeat one with 'gambrel what-if --change'."
    )
    return [[head, table(columns, options.columns), line(foot)]]


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
