"""Pictures as plotly figures, for notebooks: ``analysis.plot()``."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.errors import require
from gambrel.report.chart import decades
from gambrel.report.picture import (
    COLORS,
    Arrow,
    Axis,
    Bar,
    Bars,
    Chart,
    Curve,
    Dot,
    Note,
    Picture,
    ReferenceLine,
    color,
    formatted,
)
from gambrel.report.roofline_picture import of_analysis
from gambrel.report.text import clean, shorten

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SMALLEST, _LARGEST = 6.0, 26.0  # marker diameters, pixels
_DASHES: Final = {"dashed": "dash", "faint": "dot"}


def plot(analysis: Analysis, heading: str | None = None, *, levels: bool = False) -> go.Figure:
    """Draws the roofline of an analysis as an interactive figure.

    Ops of one kind are one entry of the legend; a click hides or shows them. Hovering tells
    everything about an op.

    Args:
        analysis: What to draw.
        heading: Title; None takes "model on device".
        levels: Show each op once per memory level, linked, instead of once per kind.
    """
    return figure(of_analysis(analysis, heading, levels=levels))


def drawn(picture: Picture, heading: str | None = None) -> go.Figure:
    """Draws any picture.

    Args:
        picture: What to draw.
        heading: Title; None takes the picture's own.
    """
    if heading is not None:
        picture = msgspec.structs.replace(picture, title=heading)
    return bars(picture) if isinstance(picture, Bars) else figure(picture)


def bars(picture: Bars) -> go.Figure:
    """Draws bars with their ranges; what is unknown says why in place of a bar."""
    require("plotly", "notebook", "an interactive chart")
    import plotly.graph_objects as go

    rows = picture.rows[::-1]  # plotly draws from below
    series = [_series(picture, rows, i) for i in range(len(picture.series))]
    said = [_safe(row.said(picture.unit), 60) for row in rows]
    series[0] |= {"text": said, "textposition": "outside", "cliponaxis": False}
    layout = {
        "title": {"text": _safe(picture.title, 90)},
        "template": "plotly_white",
        "barmode": "group",
        "showlegend": len(picture.series) > 1,
        "xaxis": {"rangemode": "tozero", "exponentformat": "SI", "ticksuffix": picture.unit},
        "yaxis": {"automargin": True},
    }
    return go.Figure(data=series, layout=layout)


def _series(picture: Bars, rows: Sequence[Bar], index: int) -> dict[str, Any]:
    values = [row.values[index] if index < len(row.values) else None for row in rows]
    made: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "name": _safe(picture.series[index]),
        "x": values,
        "y": [_safe(row.name, 60) for row in rows],
        "marker": {"color": [COLORS[color(row.color or index)][0] for row in rows]},
    }
    if index or not any(row.ends for row in rows):
        return made
    reach = [_reach(row.ends, value) for row, value in zip(rows, values, strict=True)]
    error = {"type": "data", "symmetric": False, "arrayminus": [a for a, _ in reach]}
    return made | {"error_x": error | {"array": [b for _, b in reach]}}


def _reach(ends: tuple[float, float] | None, value: float | None) -> tuple[float, float]:
    """From a value down and up to the ends of its range."""
    if ends is None or value is None:
        return 0.0, 0.0
    return value - ends[0], ends[1] - value


def figure(chart: Chart) -> go.Figure:
    """Draws a picture over two axes."""
    require("plotly", "notebook", "an interactive chart")
    import plotly.graph_objects as go

    groups: dict[str, list[Dot]] = {}
    for dot in chart.dots:
        groups.setdefault(dot.group, []).append(dot)
    kinds = [key.text for key in chart.legend if key.text in groups]
    order = [*kinds, *(name for name in groups if name not in kinds)]
    lines = [_line(curve) for curve in chart.curves]
    dots = [_dots(groups[name], name) for name in order]
    marks = [_mark(chart.mark)] if chart.mark else []
    return go.Figure(data=[*lines, *dots, *marks], layout=_layout(chart))


def _mark(at: tuple[float, float]) -> dict[str, Any]:
    look = {"symbol": "star", "size": 14, "color": COLORS["star"][0], "line": {"width": 1}}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [at[0]],
        "y": [at[1]],
        "name": "this analysis",
        "marker": look,
    }


def _layout(chart: Chart) -> dict[str, Any]:
    return {
        "title": {"text": _safe(chart.title, 90)},
        "xaxis": _axis(chart.x),
        "yaxis": _axis(chart.y),
        "hovermode": "closest",
        "template": "plotly_white",
        "legend": {"title": {"text": "kind" if chart.legend else ""}, "groupclick": "togglegroup"},
        "annotations": [
            *(_note(note, chart) for note in chart.notes),
            *(_arrow(arrow, chart) for arrow in chart.arrows),
        ],
        "shapes": [_across(level) for level in chart.levels],
    }


def _across(level: ReferenceLine) -> dict[str, Any]:
    """A line over the whole width."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": level.value,
        "y1": level.value,
        "line": {"dash": "dot", "width": 1.5, "color": COLORS["ink"][0]},
        "label": {"text": _safe(level.name), "textposition": "start"},
    }


def _axis(axis: Axis) -> dict[str, Any]:
    made = {"title": {"text": axis.title}, "gridcolor": "#e4e4e4"}
    if axis.linear:
        return made | {"type": "linear", "rangemode": "tozero", "exponentformat": "SI"}
    made["type"] = "log"
    if axis.ends is None:
        return made | {"exponentformat": "SI"}
    low, high = axis.ends
    # Some decades more than are shown, for zooming out; plotly's own SI ticks end at tera.
    values = decades(low * 1e-6, high * 1e6)
    shown = [formatted(v, axis.unit) for v in values]
    span = [math.log10(low), math.log10(high)]
    return made | {"range": span, "tickvals": values, "ticktext": shown}


def _place(value: float, axis: Axis) -> float:
    """Annotations of a logarithmic axis take the logarithm as coordinate."""
    return value if axis.linear else math.log10(value)


def _line(curve: Curve) -> dict[str, Any]:
    return {
        "fill": "toself" if curve.style == "area" else None,
        "type": "scatter",
        "mode": "markers" if curve.style == "dots" else "lines",
        "x": [x for x, _ in curve.points],
        "y": [y for _, y in curve.points],
        "name": _safe(curve.name or curve.about),
        "text": _safe(curve.about),
        "hoverinfo": "text" if curve.about else "skip",
        "showlegend": bool(curve.name),
        "line": {
            "color": COLORS[color(curve.color)][0],
            "width": 2 if curve.style == "solid" else 1,
            "dash": _DASHES.get(curve.style, "solid"),
        },
    }


def _dots(dots: Sequence[Dot], name: str) -> dict[str, Any]:
    shades = [COLORS[color(d.color)][0] for d in dots]
    edge = COLORS["ink"][0] if any(d.color == "star" for d in dots) else "white"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [d.at[0] for d in dots],
        "y": [d.at[1] for d in dots],
        "name": _safe(name, 40),
        "text": ["<br>".join(_hover(d)) for d in dots],
        "hoverinfo": "text",
        "cliponaxis": False,
        "marker": {
            "symbol": [f"{d.shape}-open" if d.hollow else d.shape for d in dots],
            "size": [_SMALLEST + (_LARGEST - _SMALLEST) * d.size for d in dots],
            "color": shades,
            "opacity": 0.85,
            "line": {"width": 1, "color": shades if any(d.hollow for d in dots) else edge},
        },
    }


def _hover(dot: Dot) -> list[str]:
    """What is said of it, as the small HTML that plotly understands, escaped."""
    first, *rest = dot.about or ("",)
    return [f"<b>{_safe(first, 100)}</b>", *(_safe(line, 100) for line in rest if line)]


def _note(note: Note, chart: Chart) -> dict[str, Any]:
    return {
        "text": _safe(note.text),
        "x": _place(note.at[0], chart.x),
        "y": _place(note.at[1], chart.y),
        "xanchor": "right" if note.side == "left" or note.slanted else "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": COLORS["unknown" if note.faint else "ink"][0]},
    }


def _arrow(arrow: Arrow, chart: Chart) -> dict[str, Any]:
    return {
        "ax": _place(arrow.start[0], chart.x),
        "ay": _place(arrow.start[1], chart.y),
        "x": _place(arrow.end[0], chart.x),
        "y": _place(arrow.end[1], chart.y),
        "axref": "x",
        "ayref": "y",
        "showarrow": True,
        "arrowhead": 2,
        "arrowcolor": COLORS[color(arrow.color)][0],
        "opacity": 0.7,
    }


def _safe(text: str, width: int = 200) -> str:
    return html.escape(shorten(clean(text), width))
