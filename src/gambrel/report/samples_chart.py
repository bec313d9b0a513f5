"""Measured kernels as a roofline chart: a dot a memory level a kernel, under the device's roofs.

The description is that of `gambrel.report.chart`, so the same renderers draw it. Dots stand at the
rate that was achieved; one above a roof is drawn where it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from msgspec.structs import replace

from gambrel.analysis.samples import Placed, Standing
from gambrel.analysis.samples.movement import Movement
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, resolve
from gambrel.dtypes import BITS
from gambrel.report.answers import Recorded
from gambrel.report.chart import ChartPoint, Move, RooflineChart, fitted, size_of
from gambrel.report.options import Options
from gambrel.report.roof_lines import (
    Entry,
    RoofLine,
    format_of,
    main_ridge,
    memory_roofs_of,
    roofs_of,
    source_of,
)

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


def describe(
    standing: Standing, heading: str | None = None, movement: Movement | None = None
) -> RooflineChart:
    """Builds the chart of samples under the roofs of their device.

    Args:
        standing: What to draw.
        heading: Title; None takes "file on device".
        movement: The same beside another run, from whose places lines lead to the dots.
    """
    kernels = standing.kernels[:MOST]
    points = tuple(p for i, k in enumerate(kernels) for p in _points(i, k, kernels))
    roofs = _roofs(standing)
    levels = {p.kind for p in points}
    device = standing.device
    memory = memory_roofs_of(device, lambda m: m.name in levels) if device else ()
    chart = RooflineChart(
        title=title(standing) if heading is None else heading,
        x_label="arithmetic intensity at the level (FLOP/byte)",
        y_label="achieved rate (FLOP/s)",
        roofs=roofs,
        memory_roofs=memory,
        ridges=main_ridge(roofs, memory),
        points=points,
        total=_whole(standing),
        kinds=shapes_in(points),
        moves=tuple(_moves(points, came_from(standing, movement))),
        measured=True,
        kind_label="memory level",
    )
    return fitted(chart)


def shapes_in(points: Sequence[ChartPoint]) -> dict[str, str]:
    """The levels that have a dot, with their shapes."""
    return {n: s for n, s in LEVEL_SHAPES.items() if any(p.kind == n for p in points)}


def came_from(
    standing: Standing, movement: Movement | None
) -> dict[tuple[int, str], tuple[float, float]]:
    """Where dots stood in the other run: intensity and rate, by kernel and level.

    Args:
        standing: The kernels of the chart.
        movement: The same beside the other run; None where there is none.
    """
    before = {id(m.after): m.before for m in movement.moves} if movement else {}
    found = {}
    for index, kernel in enumerate(standing.kernels[:MOST]):
        old = before.get(id(kernel))
        for x in old.levels if old else ():
            if old and drawable(x.arithmetic_intensity) and drawable(old.flop_per_s):
                found[index, x.level] = (x.arithmetic_intensity, old.flop_per_s)
    return found


def _moves(
    points: Sequence[ChartPoint], before: Mapping[tuple[int, str], tuple[float, float]]
) -> Iterator[Move]:
    for p in points:
        start = before.get((p.index, p.kind))
        if start and p.arithmetic_intensity and p.flop_per_s:
            yield Move(start=start, end=(p.arithmetic_intensity, p.flop_per_s), bound=p.bound)


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

    return draw(describe(record.standing, options.title, record.movement), options)


def drawable(value: float | None) -> TypeGuard[float]:
    """Whether a value has a place on a logarithmic axis; beyond these, files are damaged."""
    return value is not None and _SMALLEST < value < _LARGEST


def _points(index: int, kernel: Placed, kernels: Sequence[Placed]) -> Iterator[ChartPoint]:
    """A dot a level; a kernel without a count of its work has no place in the chart."""
    for x in kernel.levels:
        if x.arithmetic_intensity is not None and kernel.flop_per_s is not None:
            made = dot(index, kernel, x.level, kernels)
            yield replace(made, **_placed(x.arithmetic_intensity, kernel.flop_per_s))


def _placed(intensity: float, rate: float) -> dict[str, Any]:
    at_rate = rate if drawable(rate) else None
    if drawable(intensity):
        return {"arithmetic_intensity": intensity, "flop_per_s": at_rate}
    margin, note = ("left", "no work") if intensity == 0 else ("right", "no traffic")
    return {"flop_per_s": at_rate, "margin": margin, "note": note}


def dot(index: int, kernel: Placed, level: str, kernels: Sequence[Placed]) -> ChartPoint:
    """A dot of a kernel at a level, without a place; its area is the kernel's time."""
    longest = max((k.sample.time_s or 0.0 for k in kernels), default=0.0)
    return ChartPoint(
        index=index,
        name=kernel.sample.name,
        kind=level,
        module=kernel.sample.group,
        bound=kernel.bound.value if kernel.bound else "unknown",
        shape=LEVEL_SHAPES.get(level, "x"),
        size=size_of(kernel.sample.time_s, longest),
        along=(index + 1) / (len(kernels) + 1),
    )


def _whole(standing: Standing) -> ChartPoint:
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
    return ChartPoint(
        name="all kernels",
        kind="all kernels" if len(known) == len(standing.kernels) else "kernels of known work",
        shape="star",
        arithmetic_intensity=flops / size if placed else None,
        flop_per_s=flops / time if placed else None,
        size=1.0,
        margin="" if placed else "left",
        along=0.5,
        note="" if placed else "the work, the bytes or the time of the kernels is unknown",
    )


def _roofs(standing: Standing) -> tuple[RoofLine, ...]:
    device = standing.device
    if device is None:
        return ()
    used, sparse_used = _used(standing, device, False), _used(standing, device, True)
    entries = []
    for c in device.ceilings:
        dtype = format_of(c) if c.dtype != "any" else ""
        entries.append((c.flop_per_s, Entry(c.engine, dtype, c.flop_per_s in used, source_of(c))))
        if c.sparse_flop_per_s is not None and c.sparse_flop_per_s in sparse_used:
            sparse = Entry(c.engine, f"{dtype} sparse", True, source_of(c))
            entries.append((c.sparse_flop_per_s, sparse))
    return roofs_of(entry for entry in entries if drawable(entry[0]))


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
