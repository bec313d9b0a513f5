"""Measured kernels as a picture: the chart with the levels of a kernel joined, as SVG, PNG, PDF.

With a second run, an arrow leads from where a dot stood to where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gambrel.analysis.samples import Standing
from gambrel.analysis.samples.movement import Movement
from gambrel.report.answers import Recorded
from gambrel.report.chart import Chart
from gambrel.report.options import Options
from gambrel.report.plot_static import save
from gambrel.report.samples_chart import MOST, describe, drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ARROW: Final = "#a34a9c"
#: Intensity and rate.
Place = tuple[float, float]


def picture(record: Recorded, options: Options, name: str) -> bytes:
    """The chart as ``svg``, ``png`` or ``pdf``, the same bytes on every run."""
    standing, movement = record.standing, record.movement
    chart = _widened(describe(standing, options.title), standing, movement)
    return save(lambda: _figure(chart, came_from(standing, movement)), name)


def came_from(standing: Standing, movement: Movement | None) -> dict[tuple[int, str], Place]:
    """Where dots stood in the other run: intensity and rate, by kernel and level.

    Args:
        standing: The kernels of the chart.
        movement: The same beside the other run; None where there is none.
    """
    before = {id(m.after): m.before for m in movement.moves} if movement else {}
    found = {}
    for index, kernel in enumerate(standing.kernels[:MOST]):
        old = before.get(id(kernel))
        for x in old.levels if old else ():
            if old and drawable(x.arithmetic_intensity) and drawable(old.flop_per_s):
                found[index, x.level] = (x.arithmetic_intensity, old.flop_per_s)
    return found


def _figure(chart: Chart, before: Mapping[tuple[int, str], Place]) -> Figure:
    """The chart with the levels of one kernel joined by a line, and arrows from the other run."""
    from gambrel.report.plot_static import figure

    drawn = figure(chart)
    axes = drawn.axes[0]
    rows: dict[int, list[Place]] = {}
    for p in chart.points:
        if p.arithmetic_intensity and p.flop_per_s:
            rows.setdefault(p.index, []).append((p.arithmetic_intensity, p.flop_per_s))
    for places in rows.values():
        if len(places) > 1:
            axes.plot(
                [x for x, _ in places],
                [y for _, y in places],
                color="#888888",
                linewidth=0.6,
                zorder=2.5,
            )
    _arrows(axes, chart, before)
    return drawn


def _arrows(axes: Axes, chart: Chart, before: Mapping[tuple[int, str], Place]) -> None:
    """An arrow from where each dot stood to where it stands, and a ring at its tail."""
    tails = []
    for p in chart.points:
        tail = before.get((p.index, p.kind))
        if tail is None or not p.arithmetic_intensity or not p.flop_per_s:
            continue
        tails.append(tail)
        axes.annotate(
            "",
            xy=(p.arithmetic_intensity, p.flop_per_s),
            xytext=tail,
            arrowprops={"arrowstyle": "->", "color": _ARROW, "linewidth": 0.9},
            zorder=6,
        )
    if tails:
        axes.scatter(
            [x for x, _ in tails],
            [y for _, y in tails],
            s=16,
            facecolors="none",
            edgecolors=_ARROW,
            linewidths=0.9,
            zorder=6,
        )
        axes.text(
            1.03,
            0.24,
            "ring and arrow:\nfrom the other run",
            transform=axes.transAxes,
            color=_ARROW,
            fontsize=6.5,
            va="top",
        )


def _widened(chart: Chart, standing: Standing, movement: Movement | None) -> Chart:
    """The chart with room for where dots stood in the other run."""
    places = came_from(standing, movement).values()
    if not places:
        return chart
    xs, ys = zip(*places, strict=True)
    x_range = min(chart.x_range[0], min(xs) / 2), max(chart.x_range[1], max(xs) * 2)
    y_range = min(chart.y_range[0], min(ys) / 2), max(chart.y_range[1], max(ys) * 2)
    return replace(chart, x_range=x_range, y_range=y_range)
