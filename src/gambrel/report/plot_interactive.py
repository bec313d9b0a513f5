"""The roofline as a plotly figure, for notebooks: ``analysis.plot()``."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel import roofline
from gambrel.analysis.result import Analysis
from gambrel.report.chart import BOUND_COLORS, Chart, Point, decades, describe
from gambrel.report.level_points import LevelChart, LevelPoint, level_color
from gambrel.report.text import clean, shorten
from gambrel.units import format_number, format_percent, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

_INK: Final = "#222222"
_GREY: Final = "#9a9a9a"
_SMALLEST, _LARGEST = 6.0, 26.0  # marker diameters, pixels


def plot(analysis: Analysis, heading: str | None = None, *, levels: bool = False) -> go.Figure:
    """Draws the roofline of an analysis as an interactive figure.

    Ops of one kind are one entry of the legend; a click hides or shows them. Hovering tells
    everything about an op.

    Args:
        analysis: What to draw.
        heading: Title; None takes "model on device".
        levels: Show each op once per memory level, linked, instead of once per kind.
    """
    import plotly.graph_objects as go

    chart = describe(analysis, heading, levels=levels)
    if chart.levels is None:
        dots = [*_kind_traces(chart, analysis), _total_trace(chart, analysis)]
    else:
        dots = [_link_trace(chart.levels), *_level_traces(chart.levels, analysis)]
    return go.Figure(data=[*_roof_traces(chart), *dots], layout=_layout(chart))


def _layout(chart: Chart) -> dict[str, Any]:
    def axis(
        title: str, limits: tuple[float, float], tick: Callable[[float], str]
    ) -> dict[str, Any]:
        low, high = limits
        # Some decades more than are shown, for zooming out; plotly's own SI ticks end at tera.
        values = decades(low * 1e-6, high * 1e6)
        return {
            "type": "log",
            "title": {"text": title},
            "range": [math.log10(low), math.log10(high)],
            "tickvals": values,
            "ticktext": [tick(v) for v in values],
            "gridcolor": "#e4e4e4",
        }

    return {
        "title": {"text": _safe(chart.title, 90)},
        "xaxis": axis(chart.x_label, chart.x_range, format_number),
        "yaxis": axis(chart.y_label, chart.y_range, lambda v: format_si(v, "")),
        "hovermode": "closest",
        "template": "plotly_white",
        "legend": {"title": {"text": "kind"}, "groupclick": "togglegroup"},
        "annotations": _annotations(chart),
    }


def _annotations(chart: Chart) -> list[dict[str, Any]]:
    right, floor = math.log10(chart.x_range[1]), math.log10(chart.y_range[0])
    found = [
        _note(_safe(r.label), right, math.log10(r.peak_flop_per_s), "right", r.used)
        for r in chart.roofs
    ]
    # A memory roof is named left of its line, where it has risen a fifth of the height.
    rise = floor + 0.2 * (math.log10(chart.y_range[1]) - floor)
    left = math.log10(chart.x_range[0])
    for memory in chart.memory_roofs:
        x = rise - math.log10(memory.byte_per_s)
        if x > left:
            found.append(_note(f"{_safe(memory.label)} ", x, rise, "right", memory.used))
    found += [
        _note(_safe(r.label), math.log10(r.arithmetic_intensity), floor, "left", True)
        for r in chart.ridges
        if r.main
    ]
    return found


def _note(text: str, x: float, y: float, side: str, used: bool) -> dict[str, Any]:
    # Annotations of a logarithmic axis take the logarithm as coordinate.
    return {
        "text": text,
        "x": x,
        "y": y,
        "xanchor": side,
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": _INK if used else "#777777"},
    }


def _roof_traces(chart: Chart) -> list[dict[str, Any]]:
    left, right = chart.x_range
    slope = next((m.byte_per_s for m in chart.memory_roofs if m.used), None)
    top = max((r.peak_flop_per_s for r in chart.roofs if r.used), default=chart.y_range[1])
    traces = []
    for roof in chart.roofs:
        start = max(left, roof.peak_flop_per_s / slope) if slope else left
        ends = [start, right], [roof.peak_flop_per_s] * 2
        traces.append(_roof_trace(ends, roof.label, roof.used, roof.source))
    for memory in chart.memory_roofs:
        end = min(right, roofline.ratio(top, memory.byte_per_s))
        ends = [left, end], [left * memory.byte_per_s, end * memory.byte_per_s]
        traces.append(_roof_trace(ends, memory.label, memory.used, memory.source))
    for ridge in chart.ridges:
        ends = [ridge.arithmetic_intensity] * 2, [chart.y_range[0], ridge.flop_per_s]
        if ridge.main:
            traces.append(_roof_trace(ends, ridge.label, False, "peak FLOP/s / peak byte/s"))
    return traces


def _roof_trace(
    ends: tuple[Sequence[float], Sequence[float]], label: str, used: bool, source: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(ends[0]),
        "y": list(ends[1]),
        "name": _safe(label),
        "text": f"{_safe(label)}<br>{_safe(source)}",
        "hoverinfo": "text",
        "showlegend": False,
        "line": {
            "color": _INK if used else _GREY,
            "width": 2 if used else 1,
            "dash": "solid" if used else "dot",
        },
    }


def _kind_traces(chart: Chart, analysis: Analysis) -> list[dict[str, Any]]:
    return [
        _trace(chart, [p for p in chart.points if p.kind == kind], analysis, _safe(kind, 40))
        for kind in chart.kinds
    ]


def _total_trace(chart: Chart, analysis: Analysis) -> dict[str, Any]:
    trace = _trace(chart, [chart.total], analysis, "whole model")
    trace["marker"] |= {"size": 18, "color": "#ffd43b", "line": {"color": _INK, "width": 1}}
    return trace


def _link_trace(levels: LevelChart) -> dict[str, Any]:
    """One line a point, from its outermost to its innermost level; gaps separate them."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for p in levels.points:
        known = [x for x in p.intensities if x is not None]
        xs += [*known, None]
        ys += [*[p.flop_per_s] * len(known), None]
    line = {"color": _GREY, "width": 0.5}
    look = {"mode": "lines", "line": line, "hoverinfo": "skip", "showlegend": False}
    return {"type": "scatter", "x": xs, "y": ys} | look


def _level_traces(levels: LevelChart, analysis: Analysis) -> list[dict[str, Any]]:
    points = [*levels.points, *([levels.total] if levels.total else [])]
    traces = []
    for i, name in enumerate(levels.names):
        shown = [p for p in points if p.intensities[i] is not None]
        marker = {
            "color": level_color(name),
            "size": [16 if p.index < 0 else 7 for p in shown],
            "symbol": ["star" if p.index < 0 else "circle" for p in shown],
            "line": {"width": 1, "color": "white"},
        }
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "name": f"at {name}",
            "x": [p.intensities[i] for p in shown],
            "y": [p.flop_per_s for p in shown],
            "text": [_level_hover(p, i, analysis) for p in shown],
            "hoverinfo": "text",
            "marker": marker,
        }
        traces.append(trace)
    return traces


def _level_hover(point: LevelPoint, i: int, analysis: Analysis) -> str:
    op = analysis.ops[point.index] if point.index >= 0 else None
    level = (op.measures if op else analysis.total).levels[i]
    lines = [
        f"<b>{_safe(op.name if op else analysis.model.name, 100)}</b>",
        f"{_safe(level.name)}: {format_si(level.traffic_bytes, 'B')}, "
        f"{format_number(level.arithmetic_intensity)} FLOP/byte",
        f"time at this level: {format_si(level.time_s, 's')}",
        f"rate with each level's own traffic: {format_si(point.flop_per_s, 'FLOP/s')}",
    ]
    return "<br>".join(lines)


def _trace(chart: Chart, points: Sequence[Point], analysis: Analysis, name: str) -> dict[str, Any]:
    places = [_place(chart, point) for point in points]
    colors = [BOUND_COLORS[p.bound][0] for p in points]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "name": name,
        "text": [_hover(p, analysis) for p in points],
        "hoverinfo": "text",
        "cliponaxis": False,
        "marker": {
            "symbol": [f"{p.shape}-open" if p.margin else p.shape for p in points],
            "size": [_SMALLEST + (_LARGEST - _SMALLEST) * p.size for p in points],
            "color": colors,
            "opacity": 0.85,
            "line": {"width": 1, "color": "white" if not any(p.margin for p in points) else colors},
        },
    }


def _place(chart: Chart, point: Point) -> tuple[float, float]:
    low, high = chart.y_range
    x, y = point.arithmetic_intensity, point.flop_per_s
    if y is None:
        y = low if point.margin == "bottom" else high * (low / high) ** point.along
    if x is None:
        x = chart.x_range[1 if point.margin == "right" else 0]
    return x, y


def _hover(point: Point, analysis: Analysis) -> str:
    """Everything about an op, as the small HTML that plotly understands, escaped."""
    op = analysis.ops[point.index] if point.index >= 0 else None
    m = op.measures if op else analysis.total
    lines = [f"<b>{_safe(point.name, 100)}</b>"]
    if op:
        lines += [f"{_safe(op.kind)} ×{op.count}", _safe(op.shapes, 100)]
    lines += [
        f"work: matrix {format_si(m.matrix_flops, 'FLOP')}, "
        f"vector {format_si(m.vector_flops, 'FLOP')}",
        f"traffic: {format_si(m.traffic_bytes, 'B')}",
        f"intensity: {format_number(m.arithmetic_intensity)} FLOP/byte "
        f"(ridge {format_number(m.ridge_point)})",
        f"bound: {point.bound}, {format_si(m.roofline_time_s, 's')} "
        f"({format_percent(m.time_share)})",
        f"rate at the roofline: {format_si(point.flop_per_s, 'FLOP/s')}",
        f"utilization: compute {format_percent(m.compute_utilization)}, "
        f"memory {format_percent(m.memory_utilization)}",
    ]
    return "<br>".join([*lines, f"<i>{point.note}</i>"] if point.note else lines)


def _safe(text: str, width: int = 200) -> str:
    return html.escape(shorten(clean(text), width))
