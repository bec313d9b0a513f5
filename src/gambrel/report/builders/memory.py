"""Memory over the course of a run: the peak, what is alive there, and a chart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gambrel.analysis.timeline import Timeline, memory_timeline
from gambrel.report.answers import Memory
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    TextChart,
    capacity,
    col,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.terms import title
from gambrel.report.timeline import PARTS, chart
from gambrel.units import format_capacity, format_si

_LISTED: Final = 5


def document(record: Memory, _options: Options) -> Document:
    """The peak leads."""
    found = memory_timeline(record.analysis, record.checkpoint)
    return Document(
        title=f"Memory over time: {title(record.analysis)}",
        answer=tuple(_answer(found)),
        sections=sections(
            section(TextChart(draw=lambda options: chart(found, options.columns))),
            section(FactList(items=tuple(_checkpoints(found)))),
            section(_largest(found)),
        ),
        source="lifetimes and sizes of the model's tensors, in execution order",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Timeline) -> Iterator[KeyFigure]:
    peak = found.peak
    if peak is None:
        return
    yield KeyFigure(
        label="peak",
        text=capacity(found.peak_bytes),
        note=f"at {peak.op}",
        formula="largest sum, over the ops in order, of what is alive during one",
    )
    for part, (name, _) in PARTS.items():
        size = getattr(peak, f"{part}_bytes")
        if size:
            yield KeyFigure(
                label=name,
                text=capacity(size),
                note="at the peak",
                formula="sum of its tensors that are alive during the op of the peak",
            )
    if found.capacity_bytes is not None:
        yield KeyFigure(
            label="in use",
            text=f"{found.peak_bytes / found.capacity_bytes:.1%}",
            note=f"of {capacity(found.capacity_bytes)}",
            formula="peak / capacity of the device's memory",
        )


def content(record: Memory, _options: Options | None = None) -> dict[str, Any]:
    """Every step and what is alive at the peak."""
    return {"timeline": memory_timeline(record.analysis, record.checkpoint)}


def _answer(found: Timeline) -> Iterator[str]:
    peak = found.peak
    if peak is None:
        yield "No ops."
        return
    parts = ", ".join(
        f"{name} {format_capacity(size)}"
        for part, (name, _) in PARTS.items()
        if (size := getattr(peak, f"{part}_bytes"))
    )
    yield f"Peak: {format_capacity(found.peak_bytes)} at {peak.op} ({peak.phase}): {parts}"
    if found.capacity_bytes is not None:
        used = found.peak_bytes / found.capacity_bytes
        yield f"Capacity: {format_capacity(found.capacity_bytes)}, {used:.1%} in use"


def _checkpoints(found: Timeline) -> Iterator[tuple[str, str]]:
    if found.checkpointed:
        yield (
            "Checkpoints",
            f"{found.blocks} blocks run again in backward: "
            f"{format_si(found.recomputed_flops, 'FLOP')} more matrix work",
        )


def _largest(found: Timeline) -> DataTable:
    alive = found.at_peak
    return table_of(
        alive[:_LISTED],
        col("size", "nbytes", capacity),
        col("part", "part"),
        col("shape", lambda t: "x".join(map(str, t.shape)) or "scalar", priority=1),
        col("format", "dtype", priority=2),
        col("name", "name", minimum=16),
        heading=f"Largest of {len(alive):,} alive at the peak",
        all=True,
    )


def rows(record: Memory) -> DataTable:
    """One row per op: live bytes by part."""
    points = memory_timeline(record.analysis, record.checkpoint).points
    parts = [f"{part}_bytes" for part in PARTS]
    return table_of(
        points, col("op", "op"), col("phase", "phase"), *(col(p, p, str) for p in parts)
    )
