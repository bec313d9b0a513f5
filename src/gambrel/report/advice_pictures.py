"""Pictures of comparisons, selections and what-ifs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.advise.compare import Comparison, Row, mark_pareto
from gambrel.advise.figures import Figure
from gambrel.advise.limits import METRICS
from gambrel.advise.select import Selection
from gambrel.advise.whatif import Side, WhatIf
from gambrel.analysis.result import Analysis
from gambrel.errors import InputError
from gambrel.report import chart as description
from gambrel.report.answers import Changed
from gambrel.report.builders.check import value_text
from gambrel.report.chart import Move, describe
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Dot, Key, Note
from gambrel.report.roofline_picture import picture_of

_FRONT, _OTHER = "c1", "c0"
#: A chart without two limited metrics shows these.
_AXES: Final = ("latency", "power")
#: More names than this would hide each other: only the front is named then.
_NAMED: Final = 15
#: Ops that get an arrow: those whose time changes most.
_ARROWS: Final = 40
#: Devices that are named where they have no place on a chart.
_FEW: Final = 4


def comparison(found: Comparison, _options: Options) -> tuple[Chart, ...]:
    """The first two metrics against each other, and the rows that no other beats.

    Rows are drawn of which both metrics are known, or limited from the unfavourable side; a hollow
    mark has a figure that is only a limit, such as power by the thermal design power.

    Raises:
        InputError: Fewer than two metrics, or no row with both.
    """
    y = found.metrics[0]
    x = next((m for m in found.metrics if m != y), "")
    if not x:
        raise InputError("a chart needs two metrics, e.g. --metric latency,power.")
    rows = [r for r in found.rows if r.fits is not False and all(_place(r, (x, y)))]
    if not rows:
        raise InputError(f"no row has both {x} and {y}: there is nothing to draw.")
    marked = sorted(mark_pareto(rows, (x, y)), key=lambda r: _place(r, (x, y)))
    front = [r for r in marked if r.pareto]
    named = front if len(rows) > _NAMED else marked
    line = Curve(name="", points=tuple(_place(r, (x, y)) for r in front), color=_FRONT)
    drawn = Chart(
        title=f"{y} against {x}{_left_out(found.rows, rows)}",
        about="",
        x=_axis(x),
        y=_axis(y),
        curves=(line,),
        dots=tuple(_dots(marked, (x, y))),
        notes=tuple(Note(at=_place(r, (x, y)), text=r.hardware) for r in named),
        legend=(Key(text="Pareto front", color=_FRONT), Key(text="others", color=_OTHER)),
    )
    return (drawn,)


def _left_out(every: Sequence[Row], shown: Sequence[Row]) -> str:
    """The devices that have no place on the chart: a figure is unknown, or the model too large."""
    out = [*dict.fromkeys(row.hardware for row in every if row not in shown)]
    if not out:
        return ""
    more = f" and {len(out) - _FEW} more" if len(out) > _FEW else ""
    return f" (unknown: {', '.join(out[:_FEW])}{more})"


def selection(found: Selection, options: Options) -> tuple[Chart, ...]:
    """As for a comparison, of the devices that meet the limits or nearly do, or are unknown."""
    limited = [limit.metric for limit in found.limits]
    metrics = tuple(dict.fromkeys((*limited, found.sort, *_AXES)))[:2]
    rows = [c.row for group in (found.meets, found.unknown, found.near) for c in group]
    return comparison(Comparison(metrics=metrics, rows=tuple(rows)), options)


def _axis(metric: str) -> Axis:
    unit = METRICS[metric].unit
    better = "more" if METRICS[metric].more_is_better else "less"
    title = f"{metric}{f', {unit}' if '/' in unit else ''} ({better} is better)"
    return Axis(title=title, unit="" if "/" in unit or unit == "byte" else unit)


def _place(row: Row, metrics: Sequence[str]) -> tuple[float, float]:
    first, second = (_value(row.figures[m]) for m in metrics)
    return first, second


def _value(figure: Figure) -> float:
    """The expected figure, else what it is at most (or, where more is better, at least)."""
    return figure.value if figure.value is not None else figure.worst or 0.0


def _dots(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[Dot]:
    for row in rows:
        sizes = ", ".join(f"{name} {value}" for name, value in row.sizes.items())
        yield Dot(
            at=_place(row, metrics),
            color=_FRONT if row.pareto else _OTHER,
            size=0.4,
            hollow=any(row.figures[m].value is None for m in metrics),
            group="Pareto front" if row.pareto else "others",
            about=(
                f"{row.model} on {row.hardware}",
                f"{row.precision}, {sizes}",
                *(f"{m} {value_text(row.figures[m])}" for m in reversed(metrics)),
            ),
        )


def whatif(record: Changed, _options: Options) -> tuple[Chart, ...]:
    """Both sides on one roofline, with an arrow from where each op is to where it would be."""
    return (picture_of(moved(record.before, record.after, record.found)),)


def moved(before: Analysis, after: Analysis, found: WhatIf) -> description.RooflineChart:
    """The chart of the second side, with where its dots come from and the roofs of both."""
    first, chart = describe(before), describe(after, _heading(found))
    # Of the first device only the roofs that were held against: all of both would hide each other.
    roofs = [roof for roof in first.roofs if roof.used]
    slopes = [roof for roof in first.memory_roofs if roof.used]
    whole = (found.before.total, found.after.total)
    sides = [whole, *((d.before, d.after) for d in found.ops[:_ARROWS])]
    moves = tuple(
        Move(start=start, end=end, bound=(then.bound or "memory"))
        for was, then in sides
        if then is not None
        and (start := _at(was)) is not None
        and (end := _at(then)) is not None
        and start != end
    )
    return replace(
        chart,
        moves=moves,
        roofs=tuple(dict.fromkeys((*chart.roofs, *roofs))),
        memory_roofs=tuple(dict.fromkeys((*chart.memory_roofs, *slopes))),
        x_range=_around(first.x_range, chart.x_range),
        y_range=_around(first.y_range, chart.y_range),
    )


def _heading(found: WhatIf) -> str:
    """What changes, and how many of the ops have an arrow."""
    text = f"{found.model} on {found.after.hardware}: {' + '.join(found.changes)}"
    if len(found.ops) <= _ARROWS:
        return text
    return f"{text} (the {_ARROWS} of {len(found.ops):,} ops that change most)"


def _at(side: Side | None) -> tuple[float, float] | None:
    """Intensity and expected rate, else that at the roofline; None without a place on the chart."""
    if side is None or not side.arithmetic_intensity or not side.flops or not side.time_s:
        return None
    return side.arithmetic_intensity, side.flops / side.time_s


def _around(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])
