"""Memory over the course of a run: in a terminal, as a plotly figure, as a picture for papers."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.analysis.timeline import LiveTensor, Timeline, memory_timeline
from gambrel.errors import InputError, UnknownNameError
from gambrel.report.options import Options
from gambrel.report.terms import title
from gambrel.report.text import clean, shorten
from gambrel.units import format_capacity, format_si

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
#: Suffixes that `write_memory` knows.
SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ROWS: Final = 8
_LEFT: Final = 10
_LISTED: Final = 5


def render(
    analysis: Analysis, options: Options | None = None, checkpoint: bool | str = False
) -> str:
    """Returns the timeline as text: a chart of live bytes, the peak and what is alive there.

    Args:
        analysis: With its workload.
        options: Width.
        checkpoint: As for `gambrel.analysis.timeline.memory_timeline`.
    """
    options = options or Options()
    found = memory_timeline(analysis, checkpoint)
    width = options.columns
    heading = f"Memory over time: {title(analysis)}"
    lines = [shorten(clean(heading), width), *_chart(found, width), ""]
    for line in _facts(found):
        lines += textwrap.wrap(line, width, subsequent_indent=" " * 12)
    lines += [shorten(line, width) for line in _largest(found.at_peak)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _chart(found: Timeline, width: int) -> list[str]:
    """Live bytes above those that are always there, in eighths of a row."""
    totals = [p.total_bytes for p in found.points]
    if not totals:
        return ["no ops"]
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
    return lines


def _resampled(values: Sequence[int], columns: int) -> list[int]:
    """The largest value of each column; fewer values than columns are drawn wider."""
    n = len(values)
    edges = [i * n // columns for i in range(columns + 1)]
    return [max(values[a : max(b, a + 1)]) for a, b in pairwise(edges)]


def _facts(found: Timeline) -> list[str]:
    peak = found.peak
    if peak is None:
        return []
    parts = ", ".join(
        f"{name} {format_capacity(size)}"
        for part, (name, _) in PARTS.items()
        if (size := getattr(peak, f"{part}_bytes"))
    )
    lines = [
        f"Peak        {format_capacity(found.peak_bytes)} at {clean(peak.op)} ({peak.phase}): "
        f"{parts}",
    ]
    if found.capacity_bytes is not None:
        share = found.peak_bytes / found.capacity_bytes
        lines.append(f"Capacity    {format_capacity(found.capacity_bytes)}, {share:.1%} in use")
    if found.checkpointed:
        lines.append(
            f"Checkpoints {found.blocks} blocks run again in backward: "
            f"{format_si(found.recomputed_flops, 'FLOP')} of matrix work more"
        )
    return lines


def _largest(alive: Sequence[LiveTensor]) -> list[str]:
    lines = [f"Largest of {len(alive):,} alive at the peak"] if alive else []
    for tensor in alive[:_LISTED]:
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        size = format_capacity(tensor.nbytes)
        lines.append(
            f"  {size:>10}  {tensor.part:<11} {shape} {tensor.dtype}  {clean(tensor.name)}"
        )
    return lines


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


def write_memory(analysis: Analysis, path: str | Path, checkpoint: bool | str = False) -> Path:
    """Writes the timeline as a picture or page; the suffix chooses among `SUFFIXES`.

    Raises:
        UnknownNameError: Another suffix.
        InputError: The folder does not exist, or the analysis has no workload.
    """
    target = check_memory_path(path)
    if target.suffix.lower() == ".html":
        page = plot(analysis, checkpoint).to_html(include_plotlyjs=True)
        content = page.encode()
    else:
        content = picture(analysis, target.suffix.lower()[1:], checkpoint)
    from gambrel.report.registry import replace_file

    replace_file(target, content)
    return target


def check_memory_path(path: str | Path) -> Path:
    """Refuses a file that `write_memory` could not write; see there."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise UnknownNameError(
            "file suffix", target.suffix, hint=f"{target}: write one of {', '.join(SUFFIXES)}."
        )
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: there is no folder {target.parent}.")
    return target


def picture(analysis: Analysis, suffix: str, checkpoint: bool | str = False) -> bytes:
    """The timeline drawn by matplotlib, as the bytes of a ``svg``, ``png`` or ``pdf`` file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = memory_timeline(analysis, checkpoint)
    style: Any = {"svg.hashsalt": "gambrel", "svg.fonttype": "none", "pdf.fonttype": 42}
    style |= {"font.family": "DejaVu Sans", "font.size": 8, "text.parse_math": False}
    out = io.BytesIO()
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        _draw_timeline(figure, found)
        figure.axes[0].set_title(shorten(clean(title(analysis)), 90))
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix, {})
        figure.savefig(out, format=suffix, dpi=200, metadata=metadata)
    return out.getvalue()


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
