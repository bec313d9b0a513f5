"""The pages of what was measured: profiles of a model, kernels that a profiler recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from gambrel.analysis.samples.instructions import points as instruction_points
from gambrel.report.answers import Profiled, Recorded
from gambrel.report.builders.overlay import slowest as slowest_of
from gambrel.report.builders.profile import slowest
from gambrel.report.chart import RooflineChart
from gambrel.report.options import Options
from gambrel.report.page import analyses
from gambrel.report.page.parts import Detail, PageParts
from gambrel.report.profile_chart import chart_of_overlay, chart_of_profile
from gambrel.report.registry import document
from gambrel.report.samples_chart import describe
from gambrel.report.samples_instructions import chart as instruction_chart
from gambrel.report.terms import range_text

if TYPE_CHECKING:
    from gambrel.analysis.overlay import Overlay
    from gambrel.analysis.result import Analysis
    from gambrel.measure.profile.points import RooflinePoint


def profile(record: Profiled, options: Options) -> PageParts:
    """Measured dots under the roofs, each with its expected rate, and the table of ops."""
    made, analysis = record.profile, record.analysis
    listed = slowest(made.ops)
    shown = document(msgspec.structs.replace(record, by="op"), options)
    if analysis is None:
        return PageParts(document=shown)
    chart = chart_of_profile(analysis, made.ops, made.totals, options.title)
    return PageParts(
        document=shown,
        rooflines=(_in_order(chart, made.ops, listed),),
        details=tuple(_about(listed, analysis, made.ops)),
    )


def _in_order(
    chart: RooflineChart, ops: tuple[RooflinePoint, ...], listed: list[RooflinePoint]
) -> RooflineChart:
    """The chart with the rows of the table as indices of its dots."""
    rank = {id(p): i for i, p in enumerate(listed)}
    points = tuple(msgspec.structs.replace(p, index=rank[id(ops[p.index])]) for p in chart.points)
    return msgspec.structs.replace(chart, points=points)


def _about(
    listed: list[RooflinePoint], analysis: Analysis, ops: tuple[RooflinePoint, ...]
) -> Iterator[Detail]:
    place = {id(p): i for i, p in enumerate(ops)}
    times = [analysis.ops[place[id(p)]].measures.expected_time_s for p in listed]
    spread = ["" if p.spread is None else f"{p.spread:.0%}" for p in listed]
    yield Detail(title="spread over the steps", texts=spread)
    yield Detail(title="expected", unit="s", numbers={"": [p.expected_time_s for p in listed]})
    yield Detail(title="its range", texts=[range_text(t) if t else "" for t in times])
    yield Detail(title="roofline time", unit="s", numbers={"": [p.roofline_time_s for p in listed]})
    yield Detail(title="why", texts=[p.reason for p in listed])


def overlay(record: Overlay, options: Options) -> PageParts:
    """The page of the analysis; measured dots stand beside the expected ones."""
    parts = analyses.parts(record.analysis, options)
    rows = slowest_of(record)
    chart = chart_of_overlay(record.analysis, rows, record.measured_time_s)
    return dataclasses.replace(
        parts, document=document(record, options), rooflines=(chart,) if rows else ()
    )


def samples(record: Recorded, options: Options) -> PageParts:
    """The hierarchical roofline of the kernels, and that of their instructions where recorded."""
    standing = record.standing
    charts = [describe(standing, options.title, record.movement)]
    charts += [instruction_chart(standing)] if instruction_points(standing) else []
    kernels = standing.kernels
    details = (
        Detail(title="kernel", texts=[k.sample.name for k in kernels]),
        Detail(title="looks wrong", texts=["; ".join(k.warnings) for k in kernels]),
        Detail(title="look at", texts=["; ".join(k.findings) for k in kernels]),
    )
    return PageParts(document=document(record, options), rooflines=charts, details=details)
