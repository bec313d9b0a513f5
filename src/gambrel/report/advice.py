"""Recommendations for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.advise.below import Below
from gambrel.advise.recommend import Advice, Recommendation
from gambrel.report.advice_section import (
    attained_text,
    bound_after,
    footnote,
    grouped,
    latency_before,
    what_they_cost,
)
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
        blocks.append([line(attained_text(found.attained))])
    hints = [line(text) for text in found.hints]
    return show([*blocks, hints, _below(found.below, options)], options)


def render_recommendations(found: Sequence[Recommendation], options: Options | None = None) -> str:
    """Tables of changes, one for each effort, with the times before and after."""
    options = options or Options()
    return show(_recommendations(found, options), options)


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


def _columns(found: Sequence[Recommendation]) -> list[Column]:
    larger = found[0].effort == "batch"
    now = [latency_before(r) for r in found]
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
        Column(title="bound", cells=tuple(bound_after(r) for r in found), align="left", priority=1),
        _right("memory", 3, [format_capacity(r.memory_after_bytes, 3) for r in found]),
        Column(
            title="confidence",
            cells=tuple(r.confidence or "bounds" for r in found),
            align="left",
            priority=2,
        ),
    ]


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


def _right(title: str, priority: int, cells: Sequence[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
