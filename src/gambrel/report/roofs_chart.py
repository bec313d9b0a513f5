"""The roofs of a device as a chart without a model, to draw measurements under."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from gambrel.device.model import Device
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import parse_dtype
from gambrel.report.answers import Peaks, Sheet
from gambrel.report.chart import RooflineChart, fitted
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.picture import Picture
from gambrel.report.registry import document
from gambrel.report.roof_lines import (
    Entry,
    RoofLine,
    main_ridge,
    memory_roofs_of,
    roofs_of,
    source_of,
)
from gambrel.report.roofline_picture import picture_of

#: Formats of models, the usual first: the roof that is drawn strong.
_MAIN: Final = ("fp16", "bf16", "int8", "fp32")


def chart_of(device: Device, precision: str = "fp32", title: str = "") -> RooflineChart:
    """All roofs of a device: engines and formats, memory levels from the innermost out.

    Args:
        device: Its ceilings.
        precision: The format whose roof is drawn strong.
        title: Heading; empty takes the device's name.
    """
    main = main_memory(device)
    roofs, memory = _roofs(device, precision), memory_roofs_of(device, lambda m: m == main)
    ridges = main_ridge(roofs, memory)
    chart = RooflineChart(
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


def pictures(record: Peaks | Sheet, options: Options) -> tuple[Picture, ...]:
    """The roofs; none where no memory bandwidth or no peak is known."""
    drawn = describe(record, options)
    return (picture_of(drawn),) if drawn else ()


def describe(record: Peaks | Sheet, options: Options) -> RooflineChart | None:
    """The measured roofs, or the published ones of a device."""
    if isinstance(record, Peaks):
        survey = record.peaks.survey
        heading = options.title or f"{survey.name}, measured {survey.date}"
        return chart_of(record.peaks.to_device(), parse_dtype(record.precision), heading)
    device = record.device
    strong, main = main_format(device), main_memory(device)
    if not strong or not memory_roofs_of(device, lambda m: m == main):
        return None
    return chart_of(device, strong, options.title or "")


def main_format(device: Device) -> str:
    """The format whose roof stands for a device; empty where it has none."""
    formats = [c.dtype for c in device.ceilings]
    return next((f for f in (*_MAIN, *formats) if f in formats), "")


def page(record: Peaks | Sheet, options: Options) -> PageParts:
    """The roofs beside the sheet."""
    drawn = describe(record, options)
    return PageParts(document=document(record, options), rooflines=(drawn,) if drawn else ())


def _roofs(device: Device, precision: str) -> tuple[RoofLine, ...]:
    found = {resolve(device, work, precision) for work in ("matrix", "vector")}
    used = {roof.flop_per_s for roof in found if roof is not None}
    return roofs_of(
        (c.flop_per_s, Entry(c.engine, c.dtype, c.flop_per_s in used, source_of(c)))
        for c in device.ceilings
    )
