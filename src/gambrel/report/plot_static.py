"""Pictures as PNG and PDF, and for papers also as SVG, drawn by matplotlib.

On paper a picture is as wide as a column or a page, the roofs carry their names, what is faint on a
screen is left out, and fonts are embedded: TrueType in a PDF, outlines in an SVG.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from gambrel.errors import require
from gambrel.report.picture import (
    COLORS,
    Axis,
    Bars,
    Chart,
    Curve,
    Dot,
    Key,
    Note,
    Picture,
    color,
    formatted,
)
from gambrel.report.plot_labels import BEHIND, SLANTED, settle
from gambrel.report.text import clean, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_WIDE, _HIGH = 4.9, 3.8  # inches that layout leaves to the frame of a chart with a legend


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureStyle:
    """Size and look of a figure.

    Attributes:
        width: Inches.
        height: Inches of a picture with a legend; the others are a fifth lower.
        font: Points of the labels of axes.
        small: Points of notes and legend.
        smallest: Area of the smallest marker, square points.
        largest: Of the largest.
        paper: Without a title and what is faint, the legend below.
        columns: Of the legend below.
    """

    width: float
    height: float
    font: float
    small: float
    smallest: float
    largest: float
    paper: bool = True
    columns: int = 3


#: Widths of a column and of a page as common LaTeX classes have them (IEEEtran: 3.5 in, acmart's
#: sigconf: 3.33 in, USENIX: 3.33 in; 7 in for two), so that nothing is scaled.
FIGURE_STYLES: Final = {
    "screen": FigureStyle(
        width=7.2, height=4.6, font=8, small=6.5, smallest=14.0, largest=190.0, paper=False
    ),
    "column": FigureStyle(
        width=3.3, height=2.75, font=7, small=5.5, smallest=5.0, largest=48.0, columns=3
    ),
    "page": FigureStyle(
        width=7.0, height=3.9, font=8, small=6.5, smallest=10.0, largest=120.0, columns=6
    ),
}
_DPI: Final = 200
#: Characters of the name of a bar, and of a line of it, per inch of the figure.
_NAME: Final = 5
_INK: Final = COLORS["ink"][0]
_LINES: Final[dict[str, dict[str, Any]]] = {
    "solid": {"linewidth": 1.5},
    "dashed": {"linewidth": 1.0, "linestyle": "--"},
    "faint": {"linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 1.6},
    "dots": {"linestyle": "none", "marker": "."},
}

#: Everything that could change from run to run or machine to machine is pinned; text becomes
#: TrueType (42) rather than bitmaps.
STYLE: Final[Any] = {
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "gambrel",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "text.parse_math": False,  # a "$" in a name is no formula
    "path.simplify": False,
}
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": "gambrel"},
    "pdf": {"CreationDate": None, "Creator": "gambrel"},
    "svg": {"Date": None, "Creator": "gambrel"},
}


def save(pictures: Sequence[Picture], suffix: str, style: str = "screen") -> bytes:
    """Pictures below each other as the bytes of a file, the same on every run.

    Args:
        pictures: At least one.
        suffix: ``png``, ``pdf`` or ``svg``.
        style: A key of `FIGURE_STYLES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require("matplotlib", "plot", f"a .{suffix} picture")
    import matplotlib as mpl

    out, look = io.BytesIO(), FIGURE_STYLES[style]
    sizes: Any = {"font.size": look.font, "axes.labelsize": look.font}
    with mpl.rc_context({**STYLE, **sizes}), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the SVG keeps the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure(pictures, look).savefig(out, format=suffix, metadata=_METADATA[suffix], dpi=_DPI)
    return out.getvalue()


def figure(pictures: Sequence[Picture], look: FigureStyle = FIGURE_STYLES["screen"]) -> Figure:
    """Draws pictures on a new figure, without touching matplotlib's global state."""
    from matplotlib.figure import Figure

    heights = [look.height * (1.0 if isinstance(p, Chart) and p.legend else 0.8) for p in pictures]
    made = Figure(figsize=(look.width, sum(heights)), layout="constrained")
    axes = made.subplots(len(pictures), 1, squeeze=False, height_ratios=heights)[:, 0]
    for picture, one in zip(pictures, axes, strict=True):
        if not look.paper:
            title = shorten(clean(picture.title), 90)
            one.set_title(title, fontsize=9, loc="left", fontweight="bold")
        if isinstance(picture, Bars):
            _bars(one, picture, look)
        else:
            _chart(one, picture, look)
    settle(made)
    return made


def _on_paper(chart: Chart) -> Chart:
    """The chart without what is faint: in a column there is room for what matters only."""
    return structs.replace(
        chart,
        curves=tuple(c for c in chart.curves if c.style != "faint" or c.color != "grey"),
        notes=tuple(n for n in chart.notes if not n.faint),
    )


def _chart(axes: Axes, chart: Chart, look: FigureStyle) -> None:
    chart = _on_paper(chart) if look.paper else chart
    _scales(axes, chart)
    for curve in chart.curves:
        _curve(axes, curve)
    for level in chart.levels:
        axes.axhline(level.value, color=_INK, linestyle=":", linewidth=1.0)
        said = f"{level.name} {formatted(level.value, chart.y.unit)}"
        axes.annotate(said, (0.01, level.value), xycoords=("axes fraction", "data"), va="bottom")
    for arrow in chart.arrows:
        ring: Any = {"facecolors": "none", "edgecolors": _shade(arrow.color), "linewidths": 0.8}
        x, y = arrow.start
        axes.scatter([x], [y], s=16.0, zorder=2.6, clip_on=False, **ring)
        arms = {"arrowstyle": "->", "color": _shade(arrow.color), "linewidth": 0.8}
        axes.annotate("", arrow.end, xytext=arrow.start, arrowprops=arms, zorder=2.7)
    _dots(axes, chart.dots, look)
    for note in chart.notes:
        _note(axes, note, look)
    if chart.mark:
        star: Any = {"marker": "*", "markersize": 11, "color": COLORS["star"][0]}
        axes.plot(*chart.mark, markeredgecolor=_INK, **star)
    _legend(axes, chart, look)


def _scales(axes: Axes, chart: Chart) -> None:
    for name, axis in (("x", chart.x), ("y", chart.y)):
        if not axis.linear:
            getattr(axes, f"set_{name}scale")("log", base=axis.base)
        if axis.ends is not None:
            getattr(axes, f"set_{name}lim")(*axis.ends)
        elif axis.linear:
            getattr(axes, f"set_{name}lim")(0)
        getattr(axes, f"set_{name}label")(axis.title)
        _numbers(getattr(axes, f"{name}axis"), axis)
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)


def _numbers(drawn: Any, axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter

    drawn.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, axis.unit)))
    drawn.set_minor_formatter(NullFormatter())
    if not axis.linear:
        drawn.set_major_locator(LogLocator(base=axis.base, numticks=12))
    elif axis.unit == "capacity":  # binary steps, as the numbers are
        low, high = drawn.get_view_interval()
        drawn.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2((high - low) / 5))))


def _curve(axes: Axes, curve: Curve) -> None:
    xs, ys = zip(*curve.points, strict=True)
    said = shorten(clean(curve.name), 40) or None
    if curve.style == "area":
        axes.fill(xs, ys, color=_shade(curve.color), linewidth=0, label=said)
    else:
        axes.plot(xs, ys, color=_shade(curve.color), label=said, **_LINES[curve.style])


def _dots(axes: Axes, dots: Sequence[Dot], look: FigureStyle) -> None:
    """Draws dots of one look together: 2,000 single collections would take seconds."""
    edge = 0.5 if len(dots) <= 300 else 0.15
    looks: dict[tuple[str, bool, bool], list[Dot]] = {}
    for dot in dots:
        looks.setdefault((dot.shape, dot.hollow, dot.color == "star"), []).append(dot)
    for (shape, hollow, star), alike in looks.items():
        shades: Any = [_shade(d.color) for d in alike]
        axes.scatter(
            [d.at[0] for d in alike],
            [d.at[1] for d in alike],
            s=[look.smallest + (look.largest - look.smallest) * d.size**2 for d in alike],
            marker=_MARKERS[shape],
            facecolors="none" if hollow else shades,
            edgecolors=shades if hollow else _INK if star else "white",
            linewidths=0.8 if hollow or star else edge,
            alpha=1.0 if star else 0.85,
            zorder=5 if star else 3,
            clip_on=False,
        )


def _note(axes: Axes, note: Note, look: FigureStyle) -> None:
    turned: dict[str, Any] = {}
    if note.slanted:
        turned = {"rotation": _slant(axes), "rotation_mode": "anchor"}
    left = note.side == "left"
    axes.annotate(
        shorten(clean(note.text), 60),
        note.at,
        xytext=(-4 if left else 4, 4),
        textcoords="offset points",
        ha="right" if left else "left",
        va="bottom",
        fontsize=look.small,
        color="#777777" if note.faint else _INK,
        gid=SLANTED if note.slanted else None,
        in_layout=False,
        **turned,
    )


def _slant(axes: Axes) -> float:
    """Degrees at which a line of slope one on the logarithmic axes rises on paper, nearly."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return math.degrees(math.atan2(_HIGH / math.log(high / low), _WIDE / math.log(right / left)))


def _legend(axes: Axes, chart: Chart, look: FigureStyle) -> None:
    place, keys = _beside(look), chart.legend
    if look.paper:
        keys = tuple(key for key in keys if key.text)
    if keys:
        axes.legend(handles=[_mark(k) for k in keys], fontsize=look.small, **place)
    elif any(c.name for c in chart.curves):
        turned = any(c.style == "area" for c in chart.curves)
        axes.legend(fontsize=look.small if look.paper else 8, reverse=turned, **place)


def _beside(look: FigureStyle) -> dict[str, Any]:
    """Where a legend stands: at the right, on paper below."""
    if not look.paper:
        return {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False}
    under = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": look.columns}
    close = {"handletextpad": 0.1, "columnspacing": 0.8, "borderaxespad": 0.2}
    return {**under, **close, "frameon": False}


def _mark(key: Key) -> Any:
    from matplotlib.lines import Line2D

    shade = _shade(key.color) if key.text else "none"
    look: dict[str, Any] = {"color": shade, "linestyle": "none", "markersize": 5}
    if key.hollow:
        look["markerfacecolor"] = "none"
    if key.color == "star":
        look |= {"markeredgecolor": _INK, "markersize": 9}
    text = shorten(clean(key.text), 30) or " "
    return Line2D([], [], marker=_MARKERS[key.shape] if key.text else "", label=text, **look)


def _shade(key: int | str) -> str:
    return COLORS[color(key)][0]


def _bars(axes: Axes, bars: Bars, look: FigureStyle) -> None:
    from matplotlib.ticker import FuncFormatter

    names = [_wrapped(shorten(clean(row.name), 40), look) for row in bars.rows]
    shades = [_shade(row.color or 5) for row in bars.rows]
    places = range(len(names))
    for j in reversed(range(len(bars.series))):
        values = [row.values[j] or 0.0 for row in bars.rows]
        filled: dict[str, Any] = {"color": shades, "height": 0.4}
        if j:
            filled = {"color": "none", "edgecolor": shades, "height": 0.7}
        axes.barh(places, values, label=bars.series[j], **filled)
    longest = max((v for row in bars.rows for v in row.known), default=1.0)
    for place, row in zip(places, bars.rows, strict=True):
        end = max(row.known, default=0.0)
        if row.ends:
            low, high = row.ends
            axes.plot([low, min(high, longest * 1.3)], [place, place], color=_INK, linewidth=1.0)
            end = max(end, min(high, longest * 1.3))
        said = shorten(clean(row.said(bars.unit)), 60)
        shade = COLORS["unknown"][0] if row.missing else _INK
        beside: Any = {"va": "center", "fontsize": look.font, "gid": BEHIND, "in_layout": False}
        axes.annotate(f" {said}", (end, place), color=shade, **beside)
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.set_xlabel(bars.forms)
    if bars.legend:
        keys = [_mark(k) for k in bars.legend]
        axes.legend(handles=keys, fontsize=look.small, **_beside(look))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, bars.unit)))


def _wrapped(name: str, look: FigureStyle) -> str:
    """The name of a bar on as many lines as leave most of the width to the bars."""
    return textwrap.fill(name, max(12, int(_NAME * look.width)), break_long_words=False)
