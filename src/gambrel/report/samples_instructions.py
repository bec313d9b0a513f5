"""The instruction roofline of measured kernels for a terminal, and both rooflines as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.samples import Placed, Standing
from gambrel.analysis.samples.instructions import TRANSACTION_BYTES, peak_instructions, points
from gambrel.report.answers import Recorded
from gambrel.report.chart import ChartPoint, RooflineChart, fitted
from gambrel.report.options import Options
from gambrel.report.picture import Picture
from gambrel.report.roof_lines import MemoryRoof, RoofLine
from gambrel.report.roofline_picture import picture_of
from gambrel.report.samples_chart import describe, dot, shapes_in, title
from gambrel.units import format_number, format_percent, format_si

#: Stands for all kernels, which have no instructions of their own to draw.
_WHOLE: Final = ChartPoint(name="all kernels", kind="all kernels", shape="star", margin="left")


def chart(standing: Standing, heading: str | None = None) -> RooflineChart:
    """Describes the chart: warp instructions per second over those a transaction of 32 bytes."""
    dots = _dots(standing)
    made = RooflineChart(
        title=heading or f"Instructions: {title(standing)}",
        x_label="warp instructions a transaction of 32 bytes",
        y_label="warp instructions/s",
        roofs=_roofs(standing),
        memory_roofs=tuple(
            MemoryRoof(
                label=m.label,
                byte_per_s=m.byte_per_s / TRANSACTION_BYTES,
                used=m.used,
                source=m.source,
            )
            for m in describe(standing).memory_roofs
        ),
        points=dots,
        total=_WHOLE,
        kinds=shapes_in(dots),
        measured=True,
        kind_label="memory level",
        x_unit="inst/transaction",
        y_unit="inst/s",
    )
    return fitted(made)


def _dots(standing: Standing) -> tuple[ChartPoint, ...]:
    """A dot for each level of each kernel."""
    return tuple(
        replace(
            dot(p.index, standing.kernels[p.index], p.level, standing.kernels),
            arithmetic_intensity=p.per_transaction,
            flop_per_s=p.instruction_per_s,
        )
        for p in points(standing)
    )


def _roofs(standing: Standing) -> tuple[RoofLine, ...]:
    """The issue rate, where it is known."""
    peak = peak_instructions(standing.device)
    if not peak:
        return ()
    return (
        RoofLine(
            label=f"issue {format_si(peak, 'inst/s')}",
            peak_flop_per_s=peak,
            used=True,
            source="four warp instructions per cycle and multiprocessor, by the fp32 peak",
        ),
    )


def pictures(record: Recorded, options: Options) -> tuple[Picture, ...]:
    """The roofline of the kernels, and that of their instructions where they are recorded."""
    standing = record.standing
    charts = [describe(standing, options.title, record.movement)]
    charts += [chart(standing)] if points(standing) else []
    return tuple(picture_of(each, lambda p: _about(standing.kernels, p)) for each in charts)


def _about(kernels: Sequence[Placed], point: ChartPoint) -> Iterator[str]:
    """What is known of a kernel at a level."""
    yield point.name
    if point.index < 0:
        return
    k = kernels[point.index]
    level = k.level(point.kind)
    yield f"{format_si(k.sample.time_s, 's')} in {k.sample.count:,} launches"
    yield f"{format_si(k.sample.flops, 'FLOP')}, {format_si(k.flop_per_s, 'FLOP/s')}"
    if level is not None:
        yield (
            f"{level.level}: {format_si(level.traffic_bytes, 'B')}, "
            f"{format_number(level.arithmetic_intensity)} FLOP/byte, "
            f"{format_percent(level.utilization)} used; {level.how}"
        )
    bound = f"{point.bound}-bound" if k.bound else "bound unknown"
    yield f"{bound}, {format_percent(k.roofline_efficiency)} of the roof"
    yield from (*k.warnings, *k.findings)


def render(record: Recorded, options: Options) -> str:
    """Draws the chart for a terminal; one sentence where no instructions are recorded."""
    from gambrel.report.plot_terminal import draw

    standing = record.standing
    if not points(standing):
        return "No instruction roofline: the files hold no instructions (sm__inst_executed.sum)."
    return draw(chart(standing, options.title), options)
