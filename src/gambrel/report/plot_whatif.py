"""Two analyses on one roofline: an arrow an op, from where it is to where it would be."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Final

from gambrel.advise.whatif import Difference, Side, WhatIf
from gambrel.analysis.result import Analysis
from gambrel.report.answers import Changed
from gambrel.report.chart import describe
from gambrel.report.options import Options
from gambrel.report.plot_interactive import plot as plot_roofline
from gambrel.report.text import clean, shorten
from gambrel.units import format_number, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BEFORE, _AFTER, _TOTAL = "#9a9a9a", "#0072b2", "#d55e00"
#: Ops that get an arrow: those whose time changes most; more would hide each other.
ARROWS: Final = 40


def heading(found: WhatIf) -> str:
    """Title of a chart, with how many of the ops it shows."""
    text = f"{found.model} on {found.after.hardware}: {' + '.join(found.changes)}"
    if len(found.ops) <= ARROWS:
        return text
    return f"{text} (the {ARROWS} of {len(found.ops):,} ops that change most)"


def plot(before: Analysis, after: Analysis, found: WhatIf) -> go.Figure:
    """Draws both sides on the roofs of both: formats and devices that change have their own.

    An op stands at its intensity and at its rate within the roofline time.

    Args:
        before: As it is.
        after: As it would be.
        found: Their differences.
    """
    import plotly.graph_objects as go

    told = heading(found)
    roofs = plot_roofline(before, told)
    kept = [trace for trace in roofs.data if trace.mode == "lines"]
    if _roofs(before) != _roofs(after):
        kept += [t for t in plot_roofline(after, told).data if t.mode == "lines"]
    moved = [d for d in found.ops if at(d.before) and at(d.after)][:ARROWS]
    whole = Difference(name="whole model", before=found.before.total, after=found.after.total)
    once = {(t.name, str(t.line)): t for t in kept}  # most roofs are those of both
    figure = go.Figure(data=list(once.values()), layout=roofs.layout)
    figure.add_traces([*_dots(moved), *_ends(whole)])
    for op in moved:
        _arrow(figure, op, _BEFORE)
    _arrow(figure, whole, _TOTAL)
    figure.update_xaxes(autorange=True)
    figure.update_yaxes(autorange=True)
    return figure


def render(record: Changed, _options: Options) -> str:
    """The figure as a page that needs no network."""
    return str(
        plot(record.before, record.after, record.found).to_html(
            include_plotlyjs=True, full_html=True
        )
    )


def _roofs(analysis: Analysis) -> tuple[Any, ...]:
    """What decides which roofs are drawn and which of them are held against."""
    chart = describe(analysis)
    return (analysis.hardware.id, analysis.sparsity, *chart.roofs, *chart.memory_roofs)


def at(side: Side | None) -> tuple[float, float] | None:
    """Intensity and rate; None for what has no place on a logarithmic chart."""
    if side is None or not side.arithmetic_intensity or not side.roofline_time_s:
        return None
    return side.arithmetic_intensity, side.flops / side.roofline_time_s


def _dots(moved: list[Difference]) -> list[dict[str, Any]]:
    return [
        _trace([(d.name, s) for d in moved if (s := d.before)], "ops before", _BEFORE, 7),
        _trace([(d.name, s) for d in moved if (s := d.after)], "ops after", _AFTER, 7),
    ]


def _ends(whole: Difference) -> list[dict[str, Any]]:
    ends = ((whole.before, "before", "circle-open"), (whole.after, "after", "circle"))
    return [
        _trace([(whole.name, side)], f"whole model {label}", _TOTAL, 12, symbol)
        for side, label, symbol in ends
        if side is not None
    ]


def _trace(
    sides: list[tuple[str, Side]], name: str, color: str, diameter: float, symbol: str = "circle"
) -> dict[str, Any]:
    placed = [(op, side, place) for op, side in sides if (place := at(side))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [place[0] for _, _, place in placed],
        "y": [place[1] for _, _, place in placed],
        "text": [_hover(op, side) for op, side, _ in placed],
        "hoverinfo": "text",
        "marker": {"size": diameter, "color": color, "symbol": symbol},
    }


def _hover(name: str, side: Side) -> str:
    lines = [
        f"<b>{html.escape(shorten(clean(name), 80))}</b>",
        f"{format_number(side.arithmetic_intensity)} FLOP/byte",
        f"roofline time {format_si(side.roofline_time_s, 's')}",
    ]
    if side.expected_time_s is not None:
        lines.append(f"expected {format_si(side.expected_time_s.value, 's')}")
    return "<br>".join(lines)


def _arrow(figure: Any, moved: Difference, color: str) -> None:
    start, end = at(moved.before), at(moved.after)
    if start is None or end is None or start == end:
        return
    # Annotations of a logarithmic axis take the logarithm as coordinate.
    figure.add_annotation(
        ax=math.log10(start[0]),
        ay=math.log10(start[1]),
        x=math.log10(end[0]),
        y=math.log10(end[1]),
        axref="x",
        ayref="y",
        showarrow=True,
        arrowhead=2,
        arrowwidth=1.2,
        arrowcolor=color,
        opacity=0.7,
    )
