"""The instruction roofline of measured kernels for a terminal; the page has it as a view."""

from __future__ import annotations

import math
from typing import Final

from gambrel.analysis.samples import Standing
from gambrel.analysis.samples.instructions import TRANSACTION_BYTES, peak_instructions, points
from gambrel.report.answers import Recorded
from gambrel.report.chart import Chart, MemoryRoof, Point, Roof
from gambrel.report.options import Options
from gambrel.report.samples_chart import LEVEL_SHAPES, describe, span, title
from gambrel.units import format_si

#: Stands for all kernels, which have no instructions of their own to draw.
_WHOLE: Final = Point(
    index=-1,
    name="all kernels",
    kind="all kernels",
    module="",
    bound="unknown",
    shape="star",
    arithmetic_intensity=None,
    flop_per_s=None,
    size=1.0,
    margin="left",
    along=0.5,
    note="not drawn",
)


def chart(standing: Standing, heading: str | None = None) -> Chart:
    """Describes the chart: warp instructions a second over those a transaction of 32 bytes."""
    found = points(standing)
    dots, roofs = _dots(standing), _roofs(standing)
    rates = [*(p.instruction_per_s for p in found), *(r.peak_flop_per_s for r in roofs)]
    return Chart(
        title=heading or f"Instructions: {title(standing)}",
        x_label="warp instructions a transaction of 32 bytes",
        y_label="warp instructions/s",
        x_range=span([p.per_transaction for p in found], (0.01, 100.0)),
        y_range=span(rates, (1e6, 1e12)),
        roofs=roofs,
        memory_roofs=tuple(
            MemoryRoof(
                label=m.label,
                byte_per_s=m.byte_per_s / TRANSACTION_BYTES,
                used=m.used,
                source=m.source,
            )
            for m in describe(standing).memory_roofs
        ),
        ridges=(),
        points=dots,
        total=_WHOLE,
        kinds={n: s for n, s in LEVEL_SHAPES.items() if any(p.kind == n for p in dots)},
        modules=(),
    )


def _dots(standing: Standing) -> tuple[Point, ...]:
    """A dot for each level of each kernel, its area the kernel's time."""
    longest = max((k.sample.time_s or 0.0 for k in standing.kernels), default=0.0)
    found = []
    for p in points(standing):
        kernel = standing.kernels[p.index]
        share = (kernel.sample.time_s or 0.0) / longest if longest else 0.0
        found.append(
            Point(
                index=p.index,
                name=kernel.sample.name,
                kind=p.level,
                module=kernel.sample.group,
                bound=kernel.bound.value if kernel.bound else "unknown",
                shape=LEVEL_SHAPES.get(p.level, "x"),
                arithmetic_intensity=p.per_transaction,
                flop_per_s=p.instruction_per_s,
                size=math.sqrt(share),
            )
        )
    return tuple(found)


def _roofs(standing: Standing) -> tuple[Roof, ...]:
    """The issue rate, where it is known."""
    peak = peak_instructions(standing.device)
    if not peak:
        return ()
    return (
        Roof(
            label=f"issue {format_si(peak, 'inst/s')}",
            peak_flop_per_s=peak,
            used=True,
            source="four warp instructions a cycle and multiprocessor, by the fp32 peak",
        ),
    )


def render(record: Recorded, options: Options) -> str:
    """Draws the chart for a terminal; one sentence where no instructions are recorded."""
    from gambrel.report.plot_terminal import draw

    standing = record.standing
    if not points(standing):
        return "No instruction roofline: the files hold no instructions (sm__inst_executed.sum)."
    return draw(chart(standing, options.title), options)
