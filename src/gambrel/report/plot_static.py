"""The roofline for papers: SVG, PNG and PDF drawn by matplotlib from the chart description."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel import roofline
from gambrel.analysis.result import Analysis
from gambrel.report.chart import BOUND_COLORS, Chart, Point, Ridge, decades, describe
from gambrel.report.level_points import LevelChart, LevelPoint, level_color
from gambrel.report.options import Options
from gambrel.report.text import clean, shorten
from gambrel.units import format_number, format_si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: Shape to matplotlib marker.
_MARKERS: Final = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "pentagon": "p",
    "hexagon": "h",
    "star": "*",
}
_INCHES: Final = (7.2, 4.6)
#: Left, bottom, width and height of the plot as shares of the figure; fixed rather than found by a
#: layout engine, so that labels can follow the slant of their lines.
_FRAME: Final = (0.085, 0.095, 0.705, 0.855)
_SMALLEST, _LARGEST = 14.0, 190.0  # marker areas, square points
_MOST_KINDS: Final = 10
_GREY: Final = "#9a9a9a"
_INK: Final = "#222222"
_STAR: Final = "#ffd43b"

#: Everything that could change from run to run or machine to machine is pinned: ids in the SVG come
#: from ``hashsalt``, text stays text (``none``) or becomes TrueType (42) rather than bitmaps.
STYLE: Final[Any] = {
    "svg.hashsalt": "gambrel",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "text.parse_math": False,  # a "$" in a name is no formula
    "path.simplify": False,
}


def picture(analysis: Analysis, options: Options, name: str) -> bytes:
    """The chart of an analysis as ``svg``, ``png`` (200 dots per inch) or ``pdf``."""
    chart = describe(analysis, options.title, levels=options.levels)
    return save(lambda: figure(chart), name)


def figure(chart: Chart) -> Figure:
    """Draws a chart on a new figure, without touching matplotlib's global state.

    Args:
        chart: What to draw.
    """
    from matplotlib.figure import Figure

    result = Figure(figsize=_INCHES)
    axes = result.add_axes(_FRAME)
    _axes(axes, chart)
    _roofs(axes, chart)
    if chart.levels is None:
        _moves(axes, chart)
        _points(axes, chart)
        _legends(axes, chart)
    else:
        _level_points(axes, chart.levels)
        _level_legend(axes, chart.levels)
    return result


#: Without what changes from run to run.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": "gambrel"},
    "png": {"Software": "gambrel"},
    "pdf": {"CreationDate": None, "Creator": "gambrel"},
}


def save(draw: Callable[[], Figure], suffix: str) -> bytes:
    """A figure as the bytes of a file, the same on every run.

    Args:
        draw: Makes the figure; called with the style of all static charts.
        suffix: ``svg``, ``png`` or ``pdf``.
    """
    import matplotlib as mpl

    out = io.BytesIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; SVG and PDF keep the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        draw().savefig(out, format=suffix, metadata=_METADATA[suffix], dpi=200)
    return out.getvalue()


def _axes(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*chart.x_range)
    axes.set_ylim(*chart.y_range)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.set_title(shorten(clean(chart.title), 90), fontsize=9, loc="left", fontweight="bold")
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="#888888", width=0.5)
    for axis, ends in ((axes.xaxis, chart.x_range), (axes.yaxis, chart.y_range)):
        axis.set_major_locator(FixedLocator(decades(*ends)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "")))
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))


def _roofs(axes: Axes, chart: Chart) -> None:
    """Draws each roof where it limits: right of, or below, where it meets the used ones."""
    left, right = chart.x_range
    slope = next((m.byte_per_s for m in chart.memory_roofs if m.used), None)
    top = max((r.peak_flop_per_s for r in chart.roofs if r.used), default=chart.y_range[1])
    for roof in chart.roofs:
        start = max(left, roof.peak_flop_per_s / slope) if slope else left
        style = _line(roof.used)
        axes.plot([start, right], [roof.peak_flop_per_s] * 2, **style)
        _label(axes, (right, roof.peak_flop_per_s), roof.label, (-4, 5), "right", roof.used)
    for memory in chart.memory_roofs:
        end = min(right, roofline.ratio(top, memory.byte_per_s))
        if end <= left:
            continue
        axes.plot(
            [left, end], [left * memory.byte_per_s, end * memory.byte_per_s], **_line(memory.used)
        )
        _memory_label(axes, chart, memory.label, memory.byte_per_s, memory.used)
    for ridge in chart.ridges:
        if ridge.main:
            _ridge(axes, chart, ridge)


def _ridge(axes: Axes, chart: Chart, ridge: Ridge) -> None:
    low, x = chart.y_range[0], ridge.arithmetic_intensity
    dots: dict[str, Any] = {
        "color": _GREY,
        "linewidth": 0.7,
        "linestyle": (0, (2, 3)),
        "zorder": 1.5,
    }
    axes.plot([x, x], [low, ridge.flop_per_s], **dots)
    left, right = chart.x_range
    # In the right third the label stands left of its line, or it would leave the frame.
    late = math.log(x / left) > 0.65 * math.log(right / left)
    offset = (-3, 4) if late else (3, 4)
    _label(axes, (x, low), ridge.label, offset, "right" if late else "left", True)


def _line(used: bool) -> dict[str, Any]:
    if used:
        return {"color": _INK, "linewidth": 1.4, "zorder": 2}
    return {"color": _GREY, "linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 1.6}


def _label(
    axes: Axes,
    at: tuple[float, float],
    text: str,
    offset: tuple[float, float],
    side: str,
    used: bool,
) -> None:
    axes.annotate(
        shorten(clean(text), 60),
        at,
        xytext=offset,
        textcoords="offset points",
        ha=side,
        va="bottom",
        fontsize=6.5,
        color=_INK if used else "#777777",
    )


def _memory_label(axes: Axes, chart: Chart, text: str, slope: float, used: bool) -> None:
    """Writes along the line, where it has risen a fifth of the height."""
    low, high = chart.y_range
    rate = max(low * (high / low) ** 0.2, chart.x_range[0] * slope * 1.5)
    axes.annotate(
        clean(text),
        (rate / slope, rate),
        xytext=(-3, 5),
        textcoords="offset points",
        rotation=_slant(chart),
        rotation_mode="anchor",
        fontsize=6.5,
        color=_INK if used else "#777777",
    )


def _slant(chart: Chart) -> float:
    """Degrees at which a line of slope one on the logarithmic axes rises on paper."""
    (left, right), (low, high) = chart.x_range, chart.y_range
    up = _FRAME[3] * _INCHES[1] / math.log(high / low)
    along = _FRAME[2] * _INCHES[0] / math.log(right / left)
    return math.degrees(math.atan2(up, along))


def _points(axes: Axes, chart: Chart) -> None:
    """Draws ops of one shape together: 2,000 single collections would take seconds."""
    edge = 0.5 if len(chart.points) <= 300 else 0.15
    groups: dict[tuple[str, bool], list[Point]] = {}
    for point in chart.points:
        groups.setdefault((point.shape, bool(point.margin)), []).append(point)
    for (shape, at_margin), points in groups.items():
        places = [_place(chart, p) for p in points]
        colors = [BOUND_COLORS[p.bound][0] for p in points]
        axes.scatter(
            [x for x, _ in places],
            [y for _, y in places],
            s=[_SMALLEST + (_LARGEST - _SMALLEST) * p.size**2 for p in points],
            marker=_MARKERS[shape],
            facecolors="none" if at_margin else colors,
            edgecolors=colors if at_margin else "white",
            linewidths=0.8 if at_margin else edge,
            alpha=0.85,
            zorder=3,
            clip_on=False,
        )
    if not chart.total.name:
        return  # roofs alone: there is no model
    x, y = _place(chart, chart.total)
    star: dict[str, Any] = {"facecolors": _STAR, "edgecolors": _INK, "linewidths": 0.8}
    axes.scatter([x], [y], s=150.0, marker="*", zorder=5, clip_on=False, **star)


def _moves(axes: Axes, chart: Chart) -> None:
    """An arrow from where a dot was, which is drawn hollow, to where it is."""
    for move in chart.moves:
        color = BOUND_COLORS[move.bound][0]
        x, y = move.start
        hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": color, "linewidths": 0.7}
        axes.scatter([x], [y], s=16.0, zorder=2.6, clip_on=False, **hollow)
        arrow: dict[str, Any] = {"arrowstyle": "->", "color": color, "linewidth": 0.7, "alpha": 0.8}
        axes.annotate("", move.end, xytext=move.start, arrowprops=arrow, zorder=2.7)


def _level_points(axes: Axes, levels: LevelChart) -> None:
    """Each op as a thin line at its rate, with a dot for every level; the whole as stars."""
    for p in levels.points:
        known = [x for x in p.intensities if x is not None]
        rates = [p.flop_per_s] * len(known)
        axes.plot(known, rates, color=_GREY, linewidth=0.3, alpha=0.6, zorder=2.5)
    whole = [levels.total] if levels.total else []
    for i, name in enumerate(levels.names):
        style: dict[str, Any] = {"color": level_color(name)}
        size = 24 * 0.6**i  # where levels coincide, the inner one lies within the outer
        _scatter(axes, levels.points, i, {"s": size, "edgecolors": "white", **style})
        _scatter(axes, whole, i, {"s": 110, "marker": "*", "edgecolors": _INK, **style})


def _scatter(axes: Axes, points: Sequence[LevelPoint], i: int, style: dict[str, Any]) -> None:
    shown = [p for p in points if p.intensities[i] is not None]
    xs = [p.intensities[i] or 0.0 for p in shown]
    axes.scatter(xs, [p.flop_per_s for p in shown], linewidths=0.3, zorder=3, **style)


def _level_legend(axes: Axes, levels: LevelChart) -> None:
    handles = [_mark("o", level_color(name), f"at {name}") for name in levels.names]
    handles.append(_mark("*", "#666666", "whole model", markersize=9))
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    axes.legend(handles=handles, frameon=False, fontsize=6.5, labelspacing=0.55, **place)


def _place(chart: Chart, point: Point) -> tuple[float, float]:
    """Coordinates of a point; at a margin it stands on the frame, hollow."""
    low, high = chart.y_range
    x, y = point.arithmetic_intensity, point.flop_per_s
    if y is None:
        y = low if point.margin == "bottom" else high * (low / high) ** point.along
    if x is None:
        x = chart.x_range[1 if point.margin == "right" else 0]
    return x, y


def _legends(axes: Axes, chart: Chart) -> None:
    """Explains colours, then shapes, then the rest, with a blank line between."""
    blank = _mark("none", "none", " ")
    bounds = dict.fromkeys(p.bound for p in chart.points)
    handles = [
        _mark("o", BOUND_COLORS[b][0], f"{b}-bound" if b != "unknown" else "bound unknown")
        for b in bounds
    ]
    handles += [blank, *_kind_marks(chart), blank]
    if chart.total.name:
        handles.append(_mark("*", _STAR, chart.total.kind, markeredgecolor=_INK, markersize=9))
    if chart.moves:
        handles.append(_mark("o", "#666666", "first run", markerfacecolor="none", markersize=4))
    if any(p.margin for p in chart.points):
        text = "on the frame: no work,\nno traffic or unknown"
        handles.append(_mark("o", "#666666", text, markerfacecolor="none"))
    if not chart.total.name:
        return
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    axes.legend(handles=handles, frameon=False, fontsize=6.5, labelspacing=0.55, **place)


def _kind_marks(chart: Chart) -> list[Line2D]:
    shown = {p.kind for p in chart.points}
    kinds = [kind for kind in chart.kinds if kind in shown]
    named = kinds if len(kinds) <= _MOST_KINDS else kinds[: _MOST_KINDS - 1]
    marks = [_mark(_MARKERS[chart.kinds[k]], "#666666", shorten(clean(k), 24)) for k in named]
    if len(named) < len(kinds):
        marks.append(_mark("h", "#666666", f"{len(kinds) - len(named)} more kinds"))
    return marks


def _mark(marker: str, color: str, label: str, **style: Any) -> Line2D:
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": color, "linestyle": "none", "markersize": 5} | style
    return Line2D([], [], marker=marker, label=label, **look)
