"""A profile as a plotly figure: measured points under the roofs that they were held against."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.report.chart import BOUND_COLORS
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from gambrel.measure.profile.points import RooflinePoint


def plot(analysis: Analysis, points: tuple[RooflinePoint, ...], title: str | None) -> go.Figure:
    """Draws the roofs and, for every op, the rate that was measured; size shows time.

    Args:
        analysis: Of the same capture on the measured device.
        points: One an op.
        title: Heading; None takes "model on device, measured".
    """
    import plotly.graph_objects as go

    from gambrel.report.plot_interactive import plot as plot_bounds

    heading = title or f"{analysis.model.name} on {analysis.hardware.name}, measured"
    figure = plot_bounds(analysis, heading)
    # The points at their bounds give way to the measured ones; the roofs stay.
    roofs = [trace for trace in figure.data if trace.mode == "lines"]
    drawn = [p for p in points if p.achieved_flop_per_s and 0 < p.arithmetic_intensity < math.inf]
    chosen = go.Figure(data=[*roofs, *_traces(drawn)], layout=figure.layout)
    chosen.update_yaxes(title="achieved rate (FLOP/s)", range=_range(figure, drawn))
    hidden = len(points) - len(drawn)
    if hidden:
        chosen.update_layout(
            {
                "title": {
                    "text": f"{figure.layout.title.text}<br><sup>{hidden} ops without FLOPs, "
                    "traffic or a measured time are not drawn</sup>"
                }
            }
        )
    return chosen


def _traces(points: list[RooflinePoint]) -> list[dict[str, Any]]:
    longest = max((p.time_s or 0.0 for p in points), default=1.0)
    kinds = dict.fromkeys(p.type for p in points)
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": kind,
            "x": [p.arithmetic_intensity for p in points if p.type == kind],
            "y": [p.achieved_flop_per_s for p in points if p.type == kind],
            "text": [_hover(p) for p in points if p.type == kind],
            "hoverinfo": "text",
            "marker": {
                "size": [
                    6 + 20 * math.sqrt((p.time_s or 0.0) / longest)
                    for p in points
                    if p.type == kind
                ],
                "color": [
                    BOUND_COLORS.get(p.bound, BOUND_COLORS["unknown"])[0]
                    for p in points
                    if p.type == kind
                ],
                "line": {"width": 1, "color": "white"},
            },
        }
        for kind in kinds
    ]


def _hover(p: RooflinePoint) -> str:
    import html

    fields = msgspec.structs.asdict(p)
    lines = [
        f"<b>{html.escape(str(fields['name']))}</b>",
        html.escape(p.type),
        f"work {format_si(p.flops, 'FLOP')}, traffic {format_si(p.traffic_bytes, 'B')}",
        f"intensity {format_number(p.arithmetic_intensity)} FLOP/byte",
        f"measured {format_si(p.time_s, 's')}, "
        f"roofline {format_si(p.roofline_time_s, 's')} ({p.bound})",
        f"{format_si(p.achieved_flop_per_s, 'FLOP/s')}, "
        f"{format_percent(p.utilization)} of the roof",
        html.escape(p.reason),
    ]
    return "<br>".join(line for line in lines if line)


def _range(figure: Any, points: list[RooflinePoint]) -> list[float]:
    """The figure's own limits, lowered so that every measured point is in sight."""
    low, high = figure.layout.yaxis.range
    rates = [math.log10(p.achieved_flop_per_s) for p in points if p.achieved_flop_per_s]
    return [min([low, *(r - 0.3 for r in rates)]), max([high, *(r + 0.3 for r in rates)])]
