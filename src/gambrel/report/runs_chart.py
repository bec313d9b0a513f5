"""Two runs as a chart: dots of the second, each with a line from its place in the first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.report.chart import ChartPoint, Move, RooflineChart, fitted, shapes_of, size_of
from gambrel.report.options import Options
from gambrel.report.picture import Picture
from gambrel.report.plot_terminal import draw
from gambrel.report.roofline_picture import picture_of
from gambrel.report.roofs_chart import chart_of

if TYPE_CHECKING:
    from gambrel.measure.runs.load import RunPoint
    from gambrel.measure.runs.pair import Pairing

#: Dots drawn: those with most time.
_MOST: Final = 200


def render(pairing: Pairing, options: Options) -> str:
    """Draws the chart for a terminal."""
    return draw(describe(pairing, options.title), options)


def pictures(pairing: Pairing, options: Options) -> tuple[Picture, ...]:
    """The chart as a picture."""
    return (picture_of(describe(pairing, options.title)),)


def describe(pairing: Pairing, title: str | None = None) -> RooflineChart:
    """The chart: dots of the second run, each with a line from its place in the first.

    Args:
        pairing: The two runs.
        title: Heading; None takes "first to second".
    """
    second = pairing.second
    base = chart_of(second.hardware, second.model.precision)
    order = enumerate(pairing.ranked())  # as the table of the two runs
    shown = sorted(order, key=lambda row: -max(_s(row[1].first), _s(row[1].second)))[:_MOST]
    kinds = dict.fromkeys(p.second.kind for _, p in shown if p.second)
    shapes = shapes_of(kinds)
    longest = max((_s(p.second) for _, p in shown), default=0.0)
    points = tuple(
        _point(i, p.second, shapes[p.second.kind], longest)
        for i, p in shown
        if p.second and _place(p.second)
    )
    moves = [m for _, p in shown if (m := _move(p.first, p.second))]
    whole = msgspec.structs.replace(_point(-1, second.whole, "star", 0.0), size=1.0)
    shift = _move(pairing.first.whole, second.whole)
    moves += [shift] if shift else []
    chart = msgspec.structs.replace(
        base,
        title=title or f"{pairing.first.label} to {second.label} on {second.hardware.name}",
        y_label="rate (FLOP/s)",
        points=points,
        total=whole,
        kinds=shapes,
        moves=tuple(moves),
        measured="measured" in second.times,
    )
    return fitted(chart)


def _s(point: RunPoint | None) -> float:
    return point.time_s or 0.0 if point else 0.0


def _place(point: RunPoint | None) -> tuple[float, float] | None:
    """Where a dot is; None where it has no place on logarithmic axes."""
    if point is None:
        return None
    x, y = point.arithmetic_intensity, point.flop_per_s
    return (x, y) if 0 < x < math.inf and y else None


def _move(first: RunPoint | None, second: RunPoint | None) -> Move | None:
    start, end = _place(first), _place(second)
    if start is None or end is None or second is None:
        return None
    return Move(start=start, end=end, bound=second.bound)


def _point(index: int, point: RunPoint, shape: str, longest: float) -> ChartPoint:
    x, y = _place(point) or (None, None)
    return ChartPoint(
        index=index,
        name=point.name,
        kind=point.kind,
        bound=point.bound,
        shape=shape,
        arithmetic_intensity=x,
        flop_per_s=y,
        size=size_of(point.time_s, longest),
    )
