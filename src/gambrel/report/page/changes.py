"""The pages of what moved: a what-if, and two runs, each dot with an arrow from where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gambrel.report.advice_pictures import moved
from gambrel.report.answers import Changed
from gambrel.report.chart import RooflineChart
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.registry import document
from gambrel.report.runs_chart import describe

if TYPE_CHECKING:
    from gambrel.measure.runs.pair import Pairing


def what_if(record: Changed, options: Options) -> PageParts:
    """Both sides on one roofline, dots and arrows at expected rates."""
    chart = moved(record.before, record.after, record.found)
    return PageParts(document=document(record, options), rooflines=(_linked(chart, record),))


def _linked(chart: RooflineChart, record: Changed) -> RooflineChart:
    """The chart with the rows of the table of ops as indices."""
    ops = record.found.ops
    row = {d.name: i for i, d in enumerate(ops)}
    points = tuple(
        msgspec.structs.replace(p, index=row[p.name]) for p in chart.points if p.name in row
    )
    return msgspec.structs.replace(chart, points=points)


def runs(record: Pairing, options: Options) -> PageParts:
    """Dots of the second run, each with an arrow from its place in the first."""
    return PageParts(
        document=document(record, options), rooflines=(describe(record, options.title),)
    )
