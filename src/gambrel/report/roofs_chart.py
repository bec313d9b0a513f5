"""The roofs of a device as a chart without a model, to draw measurements under."""

from __future__ import annotations

from collections import defaultdict

from gambrel.device.model import Device
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import parse_dtype
from gambrel.report.answers import Peaks
from gambrel.report.chart import Chart, MemoryRoof, Point, Ridge, Roof, limits
from gambrel.report.options import Options
from gambrel.report.plot_static import figure, save
from gambrel.units import format_number, format_si

#: Stands where a chart of roofs alone has no model.
NO_MODEL = Point(
    index=-1,
    name="",
    kind="",
    module="",
    bound="unknown",
    shape="star",
    arithmetic_intensity=None,
    flop_per_s=None,
    size=0.0,
)


def chart_of(device: Device, precision: str = "fp32", title: str = "") -> Chart:
    """All roofs of a device: engines and formats, memory levels from the innermost out.

    Args:
        device: Its ceilings.
        precision: The format whose roof is drawn strong.
        title: Heading; empty takes the device's name.
    """
    roofs, memory = _roofs(device, precision), _memory(device)
    ridges = _ridges(roofs, memory)
    x_range, y_range = limits([], ridges, roofs, memory, None)
    levels = [m.byte_per_s for m in memory]
    if ridges and levels:  # the innermost level meets the roof further left than DRAM
        x_range = (min(x_range[0], ridges[0].flop_per_s / max(levels) / 4), x_range[1])
        y_range = (min(y_range[0], x_range[0] * min(levels)), y_range[1])
    return Chart(
        title=title or device.name,
        x_label="arithmetic intensity (FLOP/byte)",
        y_label="rate (FLOP/s)",
        x_range=x_range,
        y_range=y_range,
        roofs=roofs,
        memory_roofs=memory,
        ridges=ridges,
        points=(),
        total=NO_MODEL,
        kinds={},
        modules=(),
    )


def picture(record: Peaks, options: Options, name: str) -> bytes:
    """The measured roofs as ``svg``, ``png`` or ``pdf``."""
    survey = record.peaks.survey
    heading = options.title or f"{survey.name}, measured {survey.date}"
    chart = chart_of(record.peaks.to_device(), parse_dtype(record.precision), heading)
    return save(lambda: figure(chart), name)


def _roofs(device: Device, precision: str) -> tuple[Roof, ...]:
    found = {resolve(device, work, precision) for work in ("matrix", "vector")}
    used = {roof.flop_per_s for roof in found if roof is not None}
    names: dict[float, list[str]] = defaultdict(list)
    sources: dict[float, str] = {}
    for c in device.ceilings:
        names[c.flop_per_s].append(f"{c.engine} {c.dtype}")
        sources[c.flop_per_s] = f"{c.kind.value}: {c.source.title}"
    return tuple(
        Roof(
            label=f"{', '.join(dict.fromkeys(names[peak]))} {format_si(peak, 'FLOP/s', 3)}",
            peak_flop_per_s=peak,
            used=peak in used,
            source=sources[peak],
        )
        for peak in sorted(names, reverse=True)
    )


def _memory(device: Device) -> tuple[MemoryRoof, ...]:
    main = main_memory(device)
    return tuple(
        MemoryRoof(
            label=f"{m.name} {format_si(m.byte_per_s, 'B/s', 3)}",
            byte_per_s=m.byte_per_s or 0.0,
            used=m is main or m == main,
            source=m.bandwidth_source.title if m.bandwidth_source else m.kind.value,
        )
        for m in sorted(device.memory, key=lambda m: -(m.byte_per_s or 0.0))
        if m.byte_per_s
    )


def _ridges(roofs: tuple[Roof, ...], memory: tuple[MemoryRoof, ...]) -> tuple[Ridge, ...]:
    peaks = [r.peak_flop_per_s for r in roofs if r.used]
    slopes = [m.byte_per_s for m in memory if m.used]
    if not peaks or not slopes:
        return ()
    x = peaks[0] / slopes[0]
    return (
        Ridge(
            arithmetic_intensity=x,
            flop_per_s=peaks[0],
            main=True,
            label=f"ridge {format_number(x, 3)} FLOP/byte",
        ),
    )
