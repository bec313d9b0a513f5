"""Memory over the course of a run drawn: in a terminal, as a plotly figure, as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.analysis.timeline import Timeline, memory_timeline
from gambrel.errors import require
from gambrel.report.answers import Memory
from gambrel.report.options import Options
from gambrel.report.picture import COLORS, Axis, Chart, Curve, Note
from gambrel.report.terms import title
from gambrel.report.text import clean, shorten
from gambrel.units import format_capacity

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from gambrel.llm.training import TrainingStep

#: Part of the memory → what readers call it and the name of its colour.
PARTS: Final = {
    "weights": ("weights", "c0"),
    "optimizer": ("optimizer", "c3"),
    "gradients": ("gradients", "c4"),
    "kv_cache": ("KV cache", "c2"),
    "activations": ("activations", "c1"),
    "workspace": ("kernel workspace", "c5"),
}
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ROWS: Final = 8
_LEFT: Final = 10


def chart(found: Timeline, width: int) -> str:
    """Live bytes above those that are always there, in eighths of a row."""
    totals = [p.total_bytes for p in found.points]
    if not totals:
        return "no ops"
    columns = _resampled(totals, width - _LEFT - 1)
    low, high = min(totals), max(totals)
    span = high - low
    heights = [round((v - low) / span * _ROWS * 8) if span else 0 for v in columns]
    lines = []
    for row in range(_ROWS - 1, -1, -1):
        value = low + span * (row + 1) / _ROWS
        label = format_capacity(value, 3) if row % 2 else ""
        cells = "".join(_BLOCKS[min(max(h - row * 8, 0), 8)] for h in heights)
        lines.append(f"{label:>{_LEFT}}│{cells}")
    where = int(found.peak_index * len(columns) / len(totals))
    lines.append(
        f"{format_capacity(low, 3):>{_LEFT}}└{'─' * where}▲{'─' * (len(columns) - where - 1)}"
    )
    return "\n".join(lines)


def _resampled(values: Sequence[int], columns: int) -> list[int]:
    """The largest value of each column; fewer values than columns are drawn wider."""
    n = len(values)
    edges = [i * n // columns for i in range(columns + 1)]
    return [max(values[a : max(b, a + 1)]) for a, b in pairwise(edges)]


def plot(analysis: Analysis, checkpoint: bool | str = False) -> go.Figure:
    """The timeline as a plotly figure: stacked live bytes by part, one step an op."""
    require("plotly", "notebook", "an interactive chart")
    import plotly.graph_objects as go

    found = memory_timeline(analysis, checkpoint)
    steps = list(range(len(found.points)))
    traces: list[Any] = [
        go.Scatter(
            x=steps,
            y=[getattr(p, f"{part}_bytes") for p in found.points],
            name=name,
            stackgroup="memory",
            line={"shape": "hv", "width": 0.5, "color": COLORS[shade][0]},
            customdata=[
                [_safe(p.op), p.phase, format_capacity(p.total_bytes)] for p in found.points
            ],
            hovertemplate="%{customdata[0]} (%{customdata[1]})<br>%{y:.4s}B of %{customdata[2]}",
        )
        for part, (name, shade) in PARTS.items()
        if any(getattr(p, f"{part}_bytes") for p in found.points)
    ]
    figure = go.Figure(data=traces)
    figure.update_layout(
        title={"text": f"Memory over time: {_safe(title(analysis))}"},
        xaxis={"title": {"text": "op, in execution order"}},
        yaxis={"title": {"text": "live bytes"}, "ticksuffix": "B", "rangemode": "tozero"},
        template="plotly_white",
        hovermode="x unified",
    )
    if found.peak is not None:
        figure.add_vline(
            x=found.peak_index,
            line={"dash": "dot", "color": "#222222"},
            annotation_text=f"peak {format_capacity(found.peak_bytes)}",
        )
    return figure


def _safe(text: str) -> str:
    import html

    return html.escape(shorten(clean(text), 100))


def pictures(record: Memory, _options: Options) -> tuple[Chart, ...]:
    """Live memory of what was analyzed, op by op."""
    found = memory_timeline(record.analysis, record.checkpoint)
    return drawn(found, title(record.analysis), "op, in execution order")


def training(record: TrainingStep, _options: Options) -> tuple[Chart, ...]:
    """Live memory of the fullest device over a training step."""
    if record.timeline is None:
        return ()
    axis = f"passes of stage {record.memory.stage}" if len(record.ranks) > 1 else "passes"
    shown = f"Memory over a step: {record.passes.model.name} on {record.passes.hardware.id}"
    return drawn(record.timeline, shown, f"{axis}, in order")


def drawn(found: Timeline, name: str, axis: str) -> tuple[Chart, ...]:
    """Stacked parts, the phases of a training step, and the peak with its op."""
    steps, top = len(found.points), found.peak_bytes or 1
    starts = [i for i, p in enumerate(found.points) if i and p.phase != found.points[i - 1].phase]
    notes = [Note(at=(i, top * 1.27), text=found.points[i].phase) for i in (0, *starts) if starts]
    if found.peak is not None:
        at = (found.peak_index + 0.5, float(top))
        said = f"peak {format_capacity(top)} at {found.peak.op}"
        notes.append(Note(at=at, text=said, side="right" if at[0] < steps / 2 else "left"))
    edges = (((i, 0.0), (i, top * 1.15)) for i in starts)
    return (
        Chart(
            title=name,
            about="",
            x=Axis(title=axis, ends=(0, max(steps, 1)), linear=True),
            y=Axis(title="live memory", unit="capacity", ends=(0, top * 1.36), linear=True),
            curves=(
                *_areas(found),
                *(Curve(name="", points=e, style="faint", color="ink") for e in edges),
            ),
            notes=tuple(notes),
        ),
    )


def _areas(found: Timeline) -> Iterator[Curve]:
    """The parts, each on those below it; an op is as wide as another."""
    base = [0] * len(found.points)
    for part, (name, shade) in PARTS.items():
        sizes = [getattr(p, f"{part}_bytes") for p in found.points]
        if any(sizes):
            top = [a + b for a, b in zip(base, sizes, strict=True)]
            points = (*reversed(list(_steps(base))), *_steps(top))
            yield Curve(name=name, points=points, style="area", color=shade)
            base = top


def _steps(values: Sequence[int]) -> Iterator[tuple[float, float]]:
    for i, value in enumerate(values):
        yield from ((i, value), (i + 1, value))
