"""The hierarchical roofline: every op at each memory level, at one rate, linked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from gambrel.analysis.levels.total import cached_time
from gambrel.analysis.measures import Measures
from gambrel.analysis.result import Analysis, OpResult


class LevelPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One op, or the whole, at each level.

    Attributes:
        index: Row in ``Analysis.ops``; -1 for the whole.
        flop_per_s: Rate when every level and engine carries its own load: the slowest sets it.
        intensities: FLOP/byte at each level of `LevelChart.names`; from the first to the last it
            never rises. None where the level moves nothing.
    """

    index: int
    flop_per_s: float
    intensities: tuple[float | None, ...]


class LevelChart(msgspec.Struct, frozen=True, kw_only=True):
    """What a chart needs to show levels.

    Attributes:
        names: Levels, outermost first.
        byte_per_s: Their bandwidths; None where unknown.
        points: Ops with work and a known rate.
        total: The whole; None without work or a known rate.
    """

    names: tuple[str, ...]
    byte_per_s: tuple[float | None, ...]
    points: tuple[LevelPoint, ...]
    total: LevelPoint | None


def level_chart(analysis: Analysis, ops: Sequence[OpResult] | None = None) -> LevelChart | None:
    """The points of an analysis at each level; None where fewer than two levels are known.

    Args:
        analysis: Whose levels.
        ops: Rows that get points; None takes those of the analysis.
    """
    levels = analysis.total.levels
    if len(levels) < 2:
        return None
    rows = analysis.ops if ops is None else ops
    points = (_point(i, op.measures, cached_time(op.measures)) for i, op in enumerate(rows))
    return LevelChart(
        names=tuple(level.name for level in levels),
        byte_per_s=tuple(level.peak_byte_per_s for level in levels),
        points=tuple(p for p in points if p is not None),
        total=_point(-1, analysis.total, analysis.cached_roofline_time_s),
    )


def _point(index: int, measures: Measures, seconds: float | None) -> LevelPoint | None:
    if not measures.flops or not seconds or not measures.levels:
        return None
    intensities = (level.arithmetic_intensity for level in measures.levels)
    return LevelPoint(
        index=index,
        flop_per_s=measures.flops / seconds,
        intensities=tuple(None if math.isinf(i) else i for i in intensities),
    )
