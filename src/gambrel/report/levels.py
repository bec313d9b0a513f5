"""The memory levels of an analysis, for a terminal: ``gambrel analyze --levels``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.analysis.levels import USABLE, binding_level
from gambrel.analysis.measures import LevelTraffic
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.layout import Column, line, show, table
from gambrel.report.options import Options
from gambrel.report.summary import slowest
from gambrel.report.text import clean, shorten_path
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType

_LISTED = 5


def render_levels(analysis: Analysis, options: Options | None = None) -> str:
    """A table of bytes, intensity, bandwidth and time per level, and the slowest ops by level.

    Args:
        analysis: What to report.
        options: Width and colour.
    """
    options = options or Options()
    head = line(("Memory levels", "bold"))
    levels = analysis.total.levels
    if not levels:
        text = f"{analysis.hardware.name}: no memory level is known."
        return show([[head, line(text)]], options)
    first: list[RenderableType] = [
        head,
        table(_columns(analysis), options.columns),
        *map(line, _remarks(analysis)),
    ]
    ops = [op for op in slowest(analysis) if op.measures.levels][:_LISTED]
    if len(levels) < 2 or not ops:
        return show([first], options)
    rows: list[RenderableType] = [table(_op_columns(ops, levels), options.columns)]
    return show([first, rows], options)


def _columns(analysis: Analysis) -> list[Column]:
    levels, binding = analysis.total.levels, binding_level(analysis.total.levels)
    marks = tuple("longest" if level.name == binding else "" for level in levels)
    return [
        Column(title="level", cells=tuple(level.name for level in levels), align="left"),
        Column(title="byte", cells=tuple(format_si(level.traffic_bytes, "") for level in levels)),
        Column(
            title="FLOP/byte",
            cells=tuple(format_number(level.arithmetic_intensity) for level in levels),
        ),
        Column(
            title="byte/s", cells=tuple(format_si(level.peak_byte_per_s, "") for level in levels)
        ),
        Column(title="time", cells=tuple(format_si(level.time_s, "s", 3) for level in levels)),
        Column(title="", cells=marks, align="left", priority=1),
    ]


def _remarks(analysis: Analysis) -> list[str]:
    outer, total = analysis.total.levels[0], analysis.total
    remarks = [
        f"Every op by itself moves {format_si(total.traffic_bytes, 'B')} through {outer.name}; "
        f"with what the caches keep it is {format_si(outer.traffic_bytes, 'B')}.",
        f"With each level's own traffic: {format_si(analysis.cached_roofline_time_s, 's', 3)}; "
        f"without caches between ops: {format_si(total.roofline_time_s, 's', 3)}.",
    ]
    if len(total.levels) > 1:
        share = format_percent(USABLE)
        remarks.append(f"{share} of each cache is taken as usable: an assumption, not measured.")
    if len(total.levels) == 1:
        remarks.append(
            "The nearer levels are left out: the size of what lies inside them is not known."
        )
    return remarks


def _op_columns(ops: Sequence[OpResult], levels: Sequence[LevelTraffic]) -> list[Column]:
    names = tuple(clean(op.name) for op in ops)
    columns = [
        Column(title="slowest ops", cells=names, align="left", minimum=20, shorten=shorten_path)
    ]
    for i, level in enumerate(levels):
        cells = tuple(format_si(op.measures.levels[i].traffic_bytes, "B") for op in ops)
        columns.append(Column(title=level.name, cells=cells))
    bindings = tuple(binding_level(op.measures.levels) or "unknown" for op in ops)
    return [*columns, Column(title="longest", cells=bindings, align="left", priority=1)]
