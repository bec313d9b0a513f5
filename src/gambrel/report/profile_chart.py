"""A profile as a chart description: measured rates under the roofs they were held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.answers import Profiled
from gambrel.report.chart import ChartPoint, RooflineChart, describe, fitted, size_of
from gambrel.report.options import Options
from gambrel.report.picture import Chart as Picture
from gambrel.report.plot_terminal import draw
from gambrel.report.roofline_picture import picture_of
from gambrel.roofline import rate
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.points import RooflinePoint, Totals


def chart_of_profile(
    analysis: Analysis,
    points: Sequence[RooflinePoint],
    totals: Totals,
    title: str | None = None,
) -> RooflineChart:
    """The chart that every renderer draws; a dot's area shows its measured time.

    Args:
        analysis: Of the same capture, one row a point.
        points: What was measured of each row.
        totals: The whole; its star is at the end-to-end rate.
        title: Heading; None takes "model on device, measured".
    """
    heading = title or f"{analysis.model.name} on {analysis.hardware.name}, measured"
    base = describe(analysis, heading)
    longest = max((p.time_s or 0.0 for p in points), default=0.0)
    drawn = sorted(
        (_measured(at, points[at.index], longest) for at in base.points),
        key=lambda at: -(points[at.index].time_s or 0.0),
    )
    return _with(base, drawn, analysis, totals.plain_s)


def chart_of_overlay(
    analysis: Analysis, rows: Sequence[tuple[OpResult, float | None]], total_s: float | None
) -> RooflineChart:
    """The chart of an analysis with measured dots; ops that were not measured stay as expected.

    Args:
        analysis: What is expected.
        rows: Ops, as the table shows them, with their measured seconds.
        total_s: Measured, of the whole.
    """
    base = describe(analysis, levels=True, rows=[op for op, _ in rows])
    longest = max((time or 0.0 for _, time in rows), default=0.0)
    drawn = [_laid(at, *rows[at.index], longest) for at in base.points]
    return _with(base, drawn, analysis, total_s)


def _with(
    base: RooflineChart, drawn: Sequence[ChartPoint], analysis: Analysis, total_s: float | None
) -> RooflineChart:
    """The chart with measured dots, its star at the measured rate of the whole."""
    whole = rate(analysis.total.flops, total_s) if total_s else None
    chart = msgspec.structs.replace(
        base,
        y_label="measured rate (FLOP/s)",
        points=tuple(drawn),
        total=msgspec.structs.replace(base.total, flop_per_s=whole or None, measured=True),
        measured=True,
    )
    return fitted(chart)


def _laid(at: ChartPoint, op: OpResult, time: float | None, longest: float) -> ChartPoint:
    """The dot of an op at its measured rate, or where it is expected."""
    if not time:
        return msgspec.structs.replace(at, flop_per_s=None, note=at.note or "not measured")
    return msgspec.structs.replace(
        at,
        module=op.module,
        flop_per_s=rate(op.measures.flops, time) or None,
        measured=True,
        size=size_of(time, longest),
        note=at.note or f"measured {format_si(time, 's')}",
    )


def _measured(at: ChartPoint, point: RooflinePoint, longest: float) -> ChartPoint:
    """The dot at its measured rate; one without a measured time goes to the lower margin."""
    if not point.time_s:
        unseen = "" if at.margin else "bottom"
        return msgspec.structs.replace(
            at,
            flop_per_s=None,
            measured=True,
            size=0.0,
            margin=at.margin or unseen,
            note=at.note or point.reason,
        )
    return msgspec.structs.replace(
        at,
        flop_per_s=point.achieved_flop_per_s or None,
        measured=True,
        size=size_of(point.time_s, longest),
        note=at.note or point.reason,
    )


def picture(drawn: RooflineChart, points: Sequence[RooflinePoint]) -> Picture:
    """The chart as a picture; each dot says what was measured."""
    return picture_of(drawn, lambda p: _about(points[p.index]) if p.index >= 0 else (p.name,))


def _about(p: RooflinePoint) -> Sequence[str]:
    return (
        p.name,
        p.type,
        f"work {format_si(p.flops, 'FLOP')}, traffic {format_si(p.traffic_bytes, 'B')}",
        f"intensity {format_number(p.arithmetic_intensity)} FLOP/byte",
        f"measured {format_si(p.time_s, 's')}, "
        f"roofline {format_si(p.roofline_time_s, 's')} ({p.bound})",
        f"{format_si(p.achieved_flop_per_s, 'FLOP/s')}, "
        f"{format_percent(p.utilization)} of the roof",
        p.reason,
    )


def pictures(record: Profiled, options: Options) -> tuple[Picture, ...]:
    """The measured chart; none without the analysis of the same capture."""
    if record.analysis is None:
        return ()
    ops, totals = record.profile.ops, record.profile.totals
    return (picture(chart_of_profile(record.analysis, ops, totals, options.title), ops),)


def render_terminal(record: Profiled, options: Options) -> str:
    """Draws the chart for a terminal; nothing without the analysis of the same capture."""
    if record.analysis is None:
        return ""
    profile = record.profile
    chart = chart_of_profile(record.analysis, profile.ops, profile.totals, options.title)
    return draw(chart, options)
