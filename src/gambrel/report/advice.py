"""Recommendations for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gambrel.analysis.recommend import Recommendation
from gambrel.report.layout import Column, line, show, table
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_si


def render_recommendations(found: Sequence[Recommendation], options: Options | None = None) -> str:
    """A table of changes, best first, with the bound time per item before and after."""
    options = options or Options()
    head = line(("Recommendations", "bold"))
    if not found:
        text = (
            "None: no other precision of this device, larger batch or fusion lowers the bound "
            "per item by 5 % or more."
        )
        return show([[head, line(text)]], options)
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
    foot = (
        "Each change was applied to the model and analyzed again; times are roofline bounds per "
        "item of the batch, not forecasts."
    )
    return show([[head, table(columns, options.columns), line(foot)]], options)


def _bound(r: Recommendation) -> str:
    return r.bound_after.value if r.bound_after else "–"


def _right(title: str, priority: int, cells: Sequence[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
