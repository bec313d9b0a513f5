"""Pictures as plotly figures, for notebooks: ``analysis.plot()``."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.errors import require
from gambrel.report.chart import decades
from gambrel.report.picture import COLORS, Arrow, Axis, Chart, Curve, Dot, Note, color, formatted
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


def figure(chart: Chart) -> go.Figure:
    """Draws a picture over logarithmic axes."""
    require("plotly", "notebook", "an interactive chart")
    import plotly.graph_objects as go

    groups: dict[str, list[Dot]] = {}
    for dot in chart.dots:
        groups.setdefault(dot.group, []).append(dot)
    kinds = [key.text for key in chart.legend if key.text in groups]
    order = [*kinds, *(name for name in groups if name not in kinds)]
    lines = [_line(curve) for curve in chart.curves]
    dots = [_dots(groups[name], name) for name in order]
    return go.Figure(data=[*lines, *dots], layout=_layout(chart))


def _layout(chart: Chart) -> dict[str, Any]:
    return {
        "title": {"text": _safe(chart.title, 90)},
        "xaxis": _axis(chart.x),
        "yaxis": _axis(chart.y),
        "hovermode": "closest",
        "template": "plotly_white",
        "legend": {"title": {"text": "kind"}, "groupclick": "togglegroup"},
        "annotations": [*map(_note, chart.notes), *map(_arrow, chart.arrows)],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    made = {"type": "log", "title": {"text": axis.title}, "gridcolor": "#e4e4e4"}
    if axis.ends is None:
        return made | {"exponentformat": "SI"}
    low, high = axis.ends
    # Some decades more than are shown, for zooming out; plotly's own SI ticks end at tera.
    values = decades(low * 1e-6, high * 1e6)
    shown = [formatted(v, axis.unit) for v in values]
    span = [math.log10(low), math.log10(high)]
    return made | {"range": span, "tickvals": values, "ticktext": shown}


def _line(curve: Curve) -> dict[str, Any]:
    return {
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


def _note(note: Note) -> dict[str, Any]:
    # Annotations of a logarithmic axis take the logarithm as coordinate.
    return {
        "text": _safe(note.text),
        "x": math.log10(note.at[0]),
        "y": math.log10(note.at[1]),
        "xanchor": "right" if note.side == "left" or note.slanted else "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": COLORS["unknown" if note.faint else "ink"][0]},
    }


def _arrow(arrow: Arrow) -> dict[str, Any]:
    return {
        "ax": math.log10(arrow.start[0]),
        "ay": math.log10(arrow.start[1]),
        "x": math.log10(arrow.end[0]),
        "y": math.log10(arrow.end[1]),
        "axref": "x",
        "ayref": "y",
        "showarrow": True,
        "arrowhead": 2,
        "arrowcolor": COLORS[color(arrow.color)][0],
        "opacity": 0.7,
    }


def _safe(text: str, width: int = 200) -> str:
    return html.escape(shorten(clean(text), width))
