"""The traffic of each memory level of an analysis."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.levels.hierarchy import hierarchy_of
from gambrel.analysis.result import Analysis
from gambrel.analysis.roofs import roofs_of
from gambrel.report.blocks import (
    Block,
    DataTable,
    Notes,
    Section,
    amount,
    col,
    figures,
    ratio,
    seconds,
    section,
    table_of,
    words,
)
from gambrel.units import format_percent, format_si

_LISTED: Final = 5
_ABOUT: Final = "traffic by memory level"


def level_section(analysis: Analysis, *, folded: bool, left: bool = False) -> Section:
    """Bytes, intensity, bandwidth and time of each level, and the slowest ops by level.

    Args:
        analysis: The result.
        folded: Whether the section is only named.
        left: Whether the levels were not worked out because they are only named.
    """
    found = analysis.total.levels
    if not found:
        if folded:
            return _unread(analysis) if left else section()
        return section(Notes(items=(f"{analysis.hardware.name}: no memory level is known.",)))
    blocks: list[Block] = [_whole(analysis), Notes(items=tuple(_remarks(analysis)))]
    if len(found) > 1:
        blocks.append(_ops(analysis))
    return section(*blocks, folded=_ABOUT if folded else "")


def _unread(analysis: Analysis) -> Section:
    """Levels that were not worked out because nobody reads them, but that there are."""
    device = analysis.hardware
    if roofs_of(device).off_chip_only or not hierarchy_of(device):
        return section()
    return section(Notes(items=("Not worked out.",)), folded=_ABOUT)


def _whole(analysis: Analysis) -> DataTable:
    from gambrel.analysis.levels.total import binding_level

    levels, binding = analysis.total.levels, binding_level(analysis.total.levels)
    return table_of(
        levels,
        col("level", "name"),
        col("byte", "traffic_bytes", amount),
        col("FLOP/byte", "arithmetic_intensity", ratio),
        col("byte/s", "peak_byte_per_s", amount),
        col("time", "time_s", seconds),
        col("", lambda x: "longest" if x.name == binding else "", priority=1),
        heading="Memory levels",
        all=True,
    )


def _remarks(analysis: Analysis) -> list[str]:
    outer, total = analysis.total.levels[0], analysis.total
    remarks = [
        f"The kernels move {format_si(total.traffic_bytes, 'B')} through {outer.name}; with what "
        f"the caches keep it is {format_si(outer.traffic_bytes, 'B')}.",
        f"With each level's own traffic: {format_si(analysis.cached_roofline_time_s, 's', 3)}; "
        f"without caches between ops: {format_si(total.roofline_time_s, 's', 3)}.",
    ]
    if len(total.levels) > 1:
        from gambrel.analysis.levels.predict import USABLE

        usable = format_percent(USABLE)
        remarks.append(f"{usable} of each cache is taken as usable: an assumption, not measured.")
        remarks += [text[0].upper() + text[1:] for text in analysis.cache_notes]
    else:
        remarks.append(
            "The nearer levels are left out: the size of what lies inside them is not known."
        )
    return remarks


def _ops(analysis: Analysis) -> DataTable:
    from gambrel.report.builders.analysis import slowest
    from gambrel.report.text import shorten_path

    ops = [op for op in slowest(analysis) if op.measures.levels][:_LISTED]
    names = words("slowest ops", (op.name for op in ops), minimum=20, shorten=shorten_path)
    traffic = [
        figures(
            level.name,
            (op.measures.levels[i].traffic_bytes for op in ops),
            lambda value: format_si(value, "B"),
        )
        for i, level in enumerate(analysis.total.levels)
    ]
    from gambrel.analysis.levels.total import binding_level

    longest = (binding_level(op.measures.levels) or "unknown" for op in ops)
    return DataTable(columns=(names, *traffic, words("longest", longest, priority=1)), all=True)
