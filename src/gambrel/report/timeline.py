"""Memory over the course of a run drawn: in a terminal, as a plotly figure, for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.analysis.timeline import Timeline, memory_timeline
from gambrel.report.answers import Memory
from gambrel.report.options import Options
from gambrel.report.plot_static import save
from gambrel.report.terms import title
from gambrel.report.text import clean, shorten
from gambrel.units import format_capacity

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Part of the memory → what readers call it and its colour (Okabe and Ito's palette).
PARTS: Final = {
    "weights": ("weights", "#0072B2"),
    "optimizer": ("optimizer", "#CC79A7"),
    "gradients": ("gradients", "#E69F00"),
    "kv_cache": ("KV cache", "#009E73"),
    "activations": ("activations", "#D55E00"),
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
    import plotly.graph_objects as go

    found = memory_timeline(analysis, checkpoint)
    steps = list(range(len(found.points)))
    traces: list[Any] = [
        go.Scatter(
            x=steps,
            y=[getattr(p, f"{part}_bytes") for p in found.points],
            name=name,
            stackgroup="memory",
            line={"shape": "hv", "width": 0.5, "color": color},
            customdata=[
                [_safe(p.op), p.phase, format_capacity(p.total_bytes)] for p in found.points
            ],
            hovertemplate="%{customdata[0]} (%{customdata[1]})<br>%{y:.4s}B of %{customdata[2]}",
        )
        for part, (name, color) in PARTS.items()
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


def render_html(record: Memory, _options: Options) -> str:
    """The figure as a page that needs no network."""
    return str(plot(record.analysis, record.checkpoint).to_html(include_plotlyjs=True))


def picture(record: Memory, _options: Options, name: str) -> bytes:
    """The timeline drawn by matplotlib."""
    found = memory_timeline(record.analysis, record.checkpoint)

    def draw() -> Figure:
        from matplotlib.figure import Figure

        made = Figure(figsize=(7.2, 3.4), layout="constrained")
        _draw_timeline(made, found)
        made.axes[0].set_title(shorten(clean(title(record.analysis)), 90))
        return made

    return save(draw, name)


def _draw_timeline(figure: Figure, found: Timeline) -> None:
    """Stacked parts, the phases of a training step, and the peak with its op."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    axes = figure.add_subplot()
    axes.set_xlabel("op, in execution order")
    axes.set_ylabel("live memory")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: format_capacity(v, 3)))
    if not found.points:
        return
    shown = [
        (name, color, [getattr(p, f"{part}_bytes") for p in found.points])
        for part, (name, color) in PARTS.items()
    ]
    shown = [entry for entry in shown if any(entry[2])]
    axes.stackplot(
        range(len(found.points) + 1),
        [[*values, values[-1]] for _, _, values in shown],  # the last op has a width as well
        labels=[name for name, _, _ in shown],
        colors=[color for _, color, _ in shown],
        step="post",
        linewidth=0,
    )
    top = found.peak_bytes or 1
    axes.set_xlim(0, len(found.points))
    axes.set_ylim(0, top * 1.18)
    axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(top / 5))))
    figure.legend(loc="outside right upper", frameon=False, reverse=True)
    _draw_phases(axes, found, top)
    if found.peak is not None:
        axes.plot([found.peak_index + 0.5], [top], marker="v", color="#222222", markersize=4)
        left = found.peak_index < len(found.points) / 2
        axes.annotate(
            shorten(clean(f"peak {format_capacity(top)} at {found.peak.op}"), 60),
            (found.peak_index + 0.5, top),
            xytext=(4 if left else -4, 4),
            textcoords="offset points",
            ha="left" if left else "right",
        )


def _draw_phases(axes: Axes, found: Timeline, top: int) -> None:
    """Where backward and the optimizer begin; nothing in a forward pass alone."""
    phases = [p.phase for p in found.points]
    starts = [i for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]]
    for i in starts if len(starts) > 1 else ():
        if i:
            axes.axvline(i, color="#222222", linestyle=":", linewidth=0.8)
        axes.annotate(phases[i], (i, top * 1.18), xytext=(3, -9), textcoords="offset points")
