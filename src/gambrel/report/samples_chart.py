"""Measured kernels as a roofline chart: a dot a memory level a kernel, under the device's roofs.

The description is that of `gambrel.report.chart`, so the same renderers draw it. Dots stand at the
rate that was achieved; one above a roof is drawn where it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeGuard

from gambrel.analysis.samples import Placed, Standing
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, resolve
from gambrel.dtypes import BITS
from gambrel.report.answers import Recorded
from gambrel.report.chart import Chart, MemoryRoof, Point, Ridge, Roof
from gambrel.report.options import Options
from gambrel.units import format_number, format_si

#: Shape of a dot by its memory level.
LEVEL_SHAPES: Final = {
    "DRAM": "circle",
    "L2": "square",
    "L1": "diamond",
    "shared": "triangle-up",
}
_SMALLEST, _LARGEST = 1e-30, 1e40
#: Kernels drawn: those with most time.
MOST: Final = 200


def describe(standing: Standing, heading: str | None = None) -> Chart:
    """Builds the chart of samples under the roofs of their device.

    Args:
        standing: What to draw.
        heading: Title; None takes "file on device".
    """
    kernels = standing.kernels[:MOST]
    points = tuple(p for i, k in enumerate(kernels) for p in _points(i, k, kernels))
    total = _whole(standing)
    roofs = _roofs(standing)
    memory = _memory(standing.device, {p.kind for p in points})
    ridges = _ridges(roofs, memory)
    xs = [p.arithmetic_intensity for p in (*points, total) if p.arithmetic_intensity]
    xs += [r.arithmetic_intensity for r in ridges]
    ys = [p.flop_per_s for p in (*points, total) if p.flop_per_s]
    ys += [r.peak_flop_per_s for r in roofs]
    return Chart(
        title=title(standing) if heading is None else heading,
        x_label="arithmetic intensity at the level (FLOP/byte)",
        y_label="achieved rate (FLOP/s)",
        x_range=span(xs, (0.1, 1000.0)),
        y_range=span(ys, (1e9, 1e14)),
        roofs=roofs,
        memory_roofs=memory,
        ridges=ridges,
        points=points,
        total=total,
        kinds={level: shape for level, shape in LEVEL_SHAPES.items() if _has(points, level)},
        modules=(),
    )


def title(standing: Standing) -> str:
    """For example ``"kernels.csv on NVIDIA A10"``."""
    sources = standing.samples.sources
    name = sources[0].replace("\\", "/").rpartition("/")[2]
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    device = standing.device.name if standing.device else standing.samples.device_name
    return f"{name}{more} on {device or 'an unknown device'}"


def render(record: Recorded, options: Options) -> str:
    """Draws the chart for a terminal."""
    from gambrel.report.plot_terminal import draw

    return draw(describe(record.standing, options.title), options)


def span(values: Sequence[float], empty: tuple[float, float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with room beside the outermost values, two decades at least."""
    values = [v for v in values if drawable(v)]
    if not values:
        return empty
    low, high = min(values) / 2, max(values) * 2
    widen = math.sqrt(max(100.0 / (high / low), 1.0))
    return low / widen, high * widen


def drawable(value: float | None) -> TypeGuard[float]:
    """Whether a value has a place on a logarithmic axis; beyond these, files are damaged."""
    return value is not None and _SMALLEST < value < _LARGEST


def _has(points: Sequence[Point], level: str) -> bool:
    return any(p.kind == level for p in points)


def _points(index: int, kernel: Placed, kernels: Sequence[Placed]) -> list[Point]:
    """A dot a level; a kernel without a count of its work has no place in the chart."""
    longest = max((k.sample.time_s or 0.0 for k in kernels), default=0.0)
    size = math.sqrt((kernel.sample.time_s or 0.0) / longest) if longest else 0.0
    found = []
    for x in kernel.levels:
        intensity = x.arithmetic_intensity
        if intensity is None or kernel.flop_per_s is None:
            continue
        placed = drawable(intensity)
        found.append(
            Point(
                index=index,
                name=kernel.sample.name,
                kind=x.level,
                module=kernel.sample.group,
                bound=kernel.bound.value if kernel.bound else "unknown",
                shape=LEVEL_SHAPES.get(x.level, "x"),
                arithmetic_intensity=intensity if placed else None,
                flop_per_s=kernel.flop_per_s if drawable(kernel.flop_per_s) else None,
                size=size,
                margin="" if placed else ("left" if intensity == 0 else "right"),
                along=(index + 1) / (len(kernels) + 1),
                note="" if placed else ("no work" if intensity == 0 else "no traffic"),
            )
        )
    return found


def _whole(standing: Standing) -> Point:
    """All kernels that have a place in the chart, added up."""
    known = [
        (flops, size, k.sample.time_s)
        for k in standing.kernels
        if (flops := k.sample.flops) is not None
        and (size := k.sample.bytes_at("DRAM")) is not None
        and k.sample.time_s
    ]
    flops, size, time = (sum(column) for column in zip(*known, strict=True)) if known else (0, 0, 0)
    placed = bool(flops and size) and drawable(flops / size) and drawable(flops / time)
    return Point(
        index=-1,
        name="all kernels",
        kind="all kernels" if len(known) == len(standing.kernels) else "kernels of known work",
        module="",
        bound="unknown",
        shape="star",
        arithmetic_intensity=flops / size if placed else None,
        flop_per_s=flops / time if placed else None,
        size=1.0,
        margin="" if placed else "left",
        along=0.5,
        note="" if placed else "the work, the bytes or the time of the kernels is unknown",
    )


def _roofs(standing: Standing) -> tuple[Roof, ...]:
    device = standing.device
    if device is None:
        return ()
    used, sparse_used = _used(standing, device, False), _used(standing, device, True)
    heights: dict[float, list[tuple[str, str]]] = {}
    for c in device.ceilings:
        dtype = f"{c.dtype}/{c.accumulate}" if c.accumulate else c.dtype
        label = f"{c.engine} {dtype}" if c.dtype != "any" else c.engine
        source = f"{c.kind.value}: {c.source.title}"
        heights.setdefault(c.flop_per_s, []).append((label, source))
        if c.sparse_flop_per_s in sparse_used:
            sparse = (f"{label} sparse", source)
            heights.setdefault(c.sparse_flop_per_s or 0.0, []).append(sparse)
    return tuple(
        Roof(
            label=f"{', '.join(dict.fromkeys(n for n, _ in heights[peak]))} "
            f"{format_si(peak, 'FLOP/s')}",
            peak_flop_per_s=peak,
            used=peak in used | sparse_used,
            source="; ".join(dict.fromkeys(s for _, s in heights[peak])),
        )
        for peak in sorted(filter(drawable, heights), reverse=True)
    )


def _used(standing: Standing, device: Device, sparse: bool) -> set[float]:
    """Roofs that the work of the kernels is held against, on the dense or the sparse path."""
    kinds = {
        (w.work_class, w.dtype)
        for k in standing.kernels
        for w in k.sample.work
        if w.flops and not w.suspect and w.sparse is sparse
    }
    found = set()
    for work_class, dtype in kinds:
        if dtype == "any":
            roof = resolve(device, "matrix", default_precision(device)[0])
        else:
            known = dtype in BITS
            roof = resolve(device, work_class, dtype, sparsity=sparse) if known else None
        if roof is not None:
            found.add(roof.flop_per_s)
    return found


def _memory(device: Device | None, levels: set[str]) -> tuple[MemoryRoof, ...]:
    if device is None:
        return ()
    known = [m for m in device.memory if drawable(m.byte_per_s)]
    return tuple(
        MemoryRoof(
            label=f"{m.name} {format_si(m.byte_per_s, 'B/s')}",
            byte_per_s=m.byte_per_s or 0.0,
            used=m.name in levels,
            source=m.bandwidth_source.title if m.bandwidth_source else m.kind.value,
        )
        for m in sorted(known, key=lambda m: -(m.byte_per_s or 0.0))
    )


def _ridges(roofs: Sequence[Roof], memory: Sequence[MemoryRoof]) -> tuple[Ridge, ...]:
    """Where the highest used compute roof meets DRAM, the lowest of the used memory roofs."""
    peaks = [r.peak_flop_per_s for r in roofs if r.used]
    slopes = [m.byte_per_s for m in memory if m.used]
    if not peaks or not slopes:
        return ()
    x = peaks[0] / slopes[-1]
    return (
        Ridge(
            arithmetic_intensity=x,
            flop_per_s=peaks[0],
            main=True,
            label=f"ridge {format_number(x, 3)} FLOP/byte",
        ),
    )
