"""A profile as a chart description: measured rates under the roofs they were held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.report.answers import Profiled
from gambrel.report.chart import Chart, Point, describe, fitted, size_of
from gambrel.report.options import Options
from gambrel.report.picture import Chart as Picture
from gambrel.report.plot_terminal import draw
from gambrel.report.roofline_picture import picture_of
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.points import RooflinePoint, Totals


def chart_of_profile(
    analysis: Analysis,
    points: Sequence[RooflinePoint],
    totals: Totals,
    title: str | None = None,
) -> Chart:
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
    rate = analysis.total.flops / totals.plain_s if totals.plain_s else None
    whole = msgspec.structs.replace(base.total, flop_per_s=rate or None, measured=True)
    chart = msgspec.structs.replace(
        base,
        y_label="measured rate (FLOP/s)",
        points=tuple(drawn),
        total=whole,
        measured=True,
    )
    return fitted(chart)


def _measured(at: Point, point: RooflinePoint, longest: float) -> Point:
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


def picture(drawn: Chart, points: Sequence[RooflinePoint]) -> Picture:
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
