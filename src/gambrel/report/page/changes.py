"""The pages of what moved: a what-if, and two runs, each dot with an arrow from where it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.advise.whatif import Side
from gambrel.report.advice_pictures import moved
from gambrel.report.answers import Changed
from gambrel.report.chart import Chart, Move
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.registry import document
from gambrel.report.runs_chart import describe

if TYPE_CHECKING:
    from gambrel.measure.runs.pair import Pairing

#: Ops that get an arrow: those whose time changes most.
_ARROWS: Final = 40


def what_if(record: Changed, options: Options) -> PageParts:
    """Both sides on one roofline, dots and arrows at expected rates."""
    chart = moved(record.before, record.after, record.found)
    return PageParts(document=document(record, options), rooflines=(_linked(chart, record),))


def _linked(chart: Chart, record: Changed) -> Chart:
    """The chart with the rows of the table of ops as indices, arrows between expected rates."""
    ops = record.found.ops
    row = {d.name: i for i, d in enumerate(ops)}
    points = tuple(
        msgspec.structs.replace(p, index=row[p.name]) for p in chart.points if p.name in row
    )
    return msgspec.structs.replace(chart, points=points, moves=tuple(_moves(record)))


def _moves(record: Changed) -> Iterator[Move]:
    found = record.found
    whole = (found.before.total, found.after.total)
    for was, then in [whole, *((d.before, d.after) for d in found.ops[:_ARROWS])]:
        start, end = _at(was), _at(then)
        if then is not None and start and end and start != end:
            yield Move(start=start, end=end, bound=then.bound.value if then.bound else "unknown")


def _at(side: Side | None) -> tuple[float, float] | None:
    """Intensity, and rate in the expected or else the roofline time."""
    if side is None or not side.arithmetic_intensity or not side.flops or not side.time_s:
        return None
    return side.arithmetic_intensity, side.flops / side.time_s


def runs(record: Pairing, options: Options) -> PageParts:
    """Dots of the second run, each with an arrow from its place in the first."""
    return PageParts(
        document=document(record, options), rooflines=(describe(record, options.title),)
    )
