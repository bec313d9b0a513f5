"""Charts of comparisons, selections and what-ifs as files: HTML, SVG, PNG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.advise.compare import Comparison, Row
from gambrel.advise.limits import METRICS
from gambrel.advise.select import Selection
from gambrel.advise.whatif import WhatIf
from gambrel.analysis.result import Analysis
from gambrel.report import plot_compare, plot_whatif
from gambrel.report.answers import Changed
from gambrel.report.chart import Chart, Move, describe
from gambrel.report.options import Options
from gambrel.report.plot_static import figure, save
from gambrel.report.text import clean
from gambrel.units import format_si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRONT, _OTHER = "#d55e00", "#0072b2"
#: A chart without two limited metrics shows these.
_AXES: Final = ("latency", "power")


def comparison(found: Comparison, _options: Options, name: str) -> bytes:
    """The first two metrics against each other, and the rows that no other beats.

    Raises:
        InputError: Fewer than two metrics, or no row with both.
    """
    return save(lambda: _front(found), name)


def selection(found: Selection, options: Options, name: str) -> bytes:
    """As for a comparison, of the devices that meet the limits or nearly do, or are unknown."""
    return comparison(_as_comparison(found), options, name)


def selection_html(found: Selection, options: Options) -> str:
    """The same as a page."""
    return plot_compare.render(_as_comparison(found), options)


def _as_comparison(found: Selection) -> Comparison:
    limited = [limit.metric for limit in found.limits]
    metrics = tuple(dict.fromkeys((*limited, found.sort, *_AXES)))[:2]
    rows = [c.row for group in (found.meets, found.unknown, found.near) for c in group]
    return Comparison(metrics=metrics, rows=tuple(rows))


def whatif(record: Changed, _options: Options, name: str) -> bytes:
    """Both sides on one roofline, with an arrow from where each op is to where it would be."""
    return save(lambda: figure(_moved(record.before, record.after, record.found)), name)


def _moved(before: Analysis, after: Analysis, found: WhatIf) -> Chart:
    """The chart of the second side, with where its dots come from and the roofs of both."""
    first, chart = describe(before), describe(after, plot_whatif.heading(found))
    # Of the first device only the roofs that were held against: all of both would hide each other.
    roofs = [roof for roof in first.roofs if roof.used]
    slopes = [roof for roof in first.memory_roofs if roof.used]
    whole = (found.before.total, found.after.total)
    sides = [whole, *((d.before, d.after) for d in found.ops[: plot_whatif.ARROWS])]
    moves = tuple(
        Move(start=start, end=end, bound=(then.bound or "memory"))
        for was, then in sides
        if then is not None
        and (start := plot_whatif.at(was)) is not None
        and (end := plot_whatif.at(then)) is not None
        and start != end
    )
    return msgspec.structs.replace(
        chart,
        moves=moves,
        roofs=tuple(dict.fromkeys((*chart.roofs, *roofs))),
        memory_roofs=tuple(dict.fromkeys((*chart.memory_roofs, *slopes))),
        x_range=_around(first.x_range, chart.x_range),
        y_range=_around(first.y_range, chart.y_range),
    )


def _around(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def _front(found: Comparison) -> Figure:
    from matplotlib.figure import Figure

    shown = plot_compare.shown(found)
    result = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = result.add_subplot()
    front = sorted(
        (r for r in shown.rows if r.pareto), key=lambda r: plot_compare.value(r.figures[shown.x])
    )
    others = [r for r in shown.rows if not r.pareto]
    _rows(axes, others, shown, _OTHER, "others")
    _rows(axes, front, shown, _FRONT, "Pareto front")
    axes.plot(*_places(front, shown), color=_FRONT, linewidth=0.9, zorder=2)
    for row in front if len(shown.rows) > plot_compare.NAMED else shown.rows:
        (x,), (y,) = _places([row], shown)
        name = clean(row.hardware)
        axes.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=6)
    _scales(axes, shown)
    axes.legend(loc="best", fontsize=7, frameon=False)
    return result


def _places(rows: Sequence[Row], shown: plot_compare.Front) -> tuple[list[float], list[float]]:
    xs = [plot_compare.value(r.figures[shown.x]) for r in rows]
    return xs, [plot_compare.value(r.figures[shown.y]) for r in rows]


def _rows(
    axes: Axes, rows: Sequence[Row], shown: plot_compare.Front, color: str, label: str
) -> None:
    """A dot a row; hollow where a figure is only a limit."""
    exact = [all(r.figures[m].value is not None for m in (shown.x, shown.y)) for r in rows]
    filled: Any = [color if known else "none" for known in exact]
    axes.scatter(
        *_places(rows, shown), s=22, facecolors=filled, edgecolors=color, linewidths=0.9, zorder=3
    )
    axes.scatter([], [], s=22, color=color, label=label)


def _scales(axes: Axes, shown: plot_compare.Front) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, metric in ((axes.xaxis, shown.x), (axes.yaxis, shown.y)):
        unit = METRICS[metric].unit
        plain = "" if "/" in unit or unit in {"", "byte"} else unit
        axis.set_major_formatter(FuncFormatter(lambda v, _, u=plain: format_si(v, u)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_label_text(plot_compare.axis_title(metric))
    title = f"{shown.y} against {shown.x}"
    axes.set_title(title, fontsize=9, loc="left", fontweight="bold")
    if shown.left_out:
        axes.set_title(plot_compare.left_out_text(shown, "\n"), fontsize=6, loc="right")
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
