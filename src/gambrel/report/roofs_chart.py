"""The roofs of a device as a chart without a model, to draw measurements under."""

from __future__ import annotations

from msgspec.structs import replace

from gambrel.device.model import Device
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import parse_dtype
from gambrel.report.answers import Peaks
from gambrel.report.chart import Chart, fitted
from gambrel.report.options import Options
from gambrel.report.picture import Picture
from gambrel.report.roof_lines import Entry, Roof, main_ridge, memory_roofs_of, roofs_of, source_of
from gambrel.report.roofline_picture import picture_of


def chart_of(device: Device, precision: str = "fp32", title: str = "") -> Chart:
    """All roofs of a device: engines and formats, memory levels from the innermost out.

    Args:
        device: Its ceilings.
        precision: The format whose roof is drawn strong.
        title: Heading; empty takes the device's name.
    """
    main = main_memory(device)
    roofs, memory = _roofs(device, precision), memory_roofs_of(device, lambda m: m == main)
    ridges = main_ridge(roofs, memory)
    chart = Chart(
        title=title or device.name,
        x_label="arithmetic intensity (FLOP/byte)",
        y_label="rate (FLOP/s)",
        roofs=roofs,
        memory_roofs=memory,
        ridges=ridges,
    )
    chart, levels = fitted(chart), [m.byte_per_s for m in memory]
    if not (ridges and levels):
        return chart
    # The innermost level meets the roof further left than DRAM.
    left = min(chart.x_range[0], ridges[0].flop_per_s / max(levels) / 4)
    low = min(chart.y_range[0], left * min(levels))
    return replace(chart, x_range=(left, chart.x_range[1]), y_range=(low, chart.y_range[1]))


def pictures(record: Peaks, options: Options) -> tuple[Picture, ...]:
    """The measured roofs."""
    survey = record.peaks.survey
    heading = options.title or f"{survey.name}, measured {survey.date}"
    drawn = chart_of(record.peaks.to_device(), parse_dtype(record.precision), heading)
    return (picture_of(drawn),)


def _roofs(device: Device, precision: str) -> tuple[Roof, ...]:
    found = {resolve(device, work, precision) for work in ("matrix", "vector")}
    used = {roof.flop_per_s for roof in found if roof is not None}
    return roofs_of(
        (c.flop_per_s, Entry(c.engine, c.dtype, c.flop_per_s in used, source_of(c)))
        for c in device.ceilings
    )
