"""A comparison as a chart: two metrics against each other, and the rows that no other beats."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gambrel.advise.compare import Comparison, Row, mark_pareto
from gambrel.advise.figures import Figure
from gambrel.advise.limits import METRICS
from gambrel.errors import InputError
from gambrel.report.builders.check import value_text
from gambrel.report.options import Options
from gambrel.report.text import clean

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FRONT, _OTHER = "#d55e00", "#0072b2"
#: More names than this would hide each other: only the front is named then.
NAMED = 15
#: Rows that are named where they have no place on a chart.
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What a chart of a comparison shows.

    Attributes:
        x: Metric of the horizontal axis.
        y: Metric of the vertical axis.
        rows: Those with both figures; marked where no other is better in both.
        left_out: What has no place, and why: it lacks a figure or does not fit.
    """

    x: str
    y: str
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()


def plot(found: Comparison, x: str = "", y: str = "") -> go.Figure:
    """Draws every row of which both metrics are known, or limited from the unfavourable side.

    A hollow mark has a figure that is only a limit, such as power by the thermal design power.

    Args:
        found: What to draw.
        x: Metric; empty takes the second one compared.
        y: Metric; empty takes the first one compared.

    Raises:
        InputError: Fewer than two metrics, or no row with both.
    """
    import plotly.graph_objects as go

    chosen = shown(found, x, y)
    x, y, rows = chosen.x, chosen.y, chosen.rows
    front = sorted((r for r in rows if r.pareto), key=lambda r: value(r.figures[x]))
    others = [r for r in rows if not r.pareto]
    few = len(rows) <= NAMED
    return go.Figure(
        data=[
            _trace(others, x, y, "others", "markers+text" if few else "markers", _OTHER),
            _trace(front, x, y, "Pareto front", "lines+markers+text", _FRONT),
        ],
        layout={
            "title": {"text": f"{y} against {x}{html.escape(left_out_text(chosen, '. '))}"},
            "xaxis": _axis(x),
            "yaxis": _axis(y),
            "template": "plotly_white",
        },
    )


def shown(found: Comparison, x: str = "", y: str = "") -> Front:
    """The rows that a chart shows; arguments and errors as for `plot`."""
    y = y or found.metrics[0]
    x = x or next((m for m in found.metrics if m != y), "")
    if not x:
        raise InputError("a chart needs two metrics, e.g. --metric latency,power.")
    rows = [r for r in found.rows if r.fits is not False and _known(r, x) and _known(r, y)]
    if not rows:
        raise InputError(f"no row has both {x} and {y}: there is nothing to draw.")
    others = [row for row in found.rows if row not in rows]
    out = tuple(dict.fromkeys(f"{clean(r.hardware)} ({_lacks(r, x, y)})" for r in others))
    return Front(x=x, y=y, rows=tuple(mark_pareto(rows, (x, y))), left_out=out)


def left_out_text(shown: Front, start: str) -> str:
    """The devices that a chart cannot show, a few by name; empty where there are none."""
    if not shown.left_out:
        return ""
    few, more = shown.left_out[:_FEW], len(shown.left_out) - _FEW
    return f"{start}Not shown: {', '.join(few)}{f' and {more} more' if more > 0 else ''}"


def _lacks(row: Row, x: str, y: str) -> str:
    if row.fits is False:
        return "does not fit"
    return f"{' and '.join(m for m in (x, y) if not _known(row, m))} unknown"


def render(found: Comparison, _options: Options) -> str:
    """The figure as a page that needs no network."""
    return str(plot(found).to_html(include_plotlyjs=True, full_html=True))


def axis_title(metric: str) -> str:
    """For example ``"latency, s (less is better)"``."""
    unit = METRICS[metric].unit
    better = "more" if METRICS[metric].more_is_better else "less"
    return f"{metric}{f', {unit}' if unit else ''} ({better} is better)"


def _axis(metric: str) -> dict[str, Any]:
    return {"title": {"text": axis_title(metric)}, "type": "log", "exponentformat": "SI"}


def value(figure: Figure) -> float:
    """The expected figure, else what it is at most (or, where more is better, at least)."""
    return figure.value if figure.value is not None else figure.worst or 0.0


def _known(row: Row, metric: str) -> bool:
    return value(row.figures[metric]) > 0


def _trace(rows: Sequence[Row], x: str, y: str, name: str, mode: str, color: str) -> dict[str, Any]:
    exact = [all(r.figures[m].value is not None for m in (x, y)) for r in rows]
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [value(r.figures[x]) for r in rows],
        "y": [value(r.figures[y]) for r in rows],
        "text": [html.escape(clean(r.hardware)) for r in rows],
        "textposition": "top center",
        "hovertext": [_hover(r, (y, x)) for r in rows],
        "hoverinfo": "text",
        "marker": {
            "size": 9,
            "color": color,
            "symbol": ["circle" if known else "circle-open" for known in exact],
        },
    }


def _hover(row: Row, metrics: Sequence[str]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in row.sizes.items())
    lines = [
        f"<b>{html.escape(clean(row.model))} on {html.escape(clean(row.hardware))}</b>",
        html.escape(f"{row.precision}, {sizes}"),
        *(f"{m} {html.escape(value_text(row.figures[m]))}" for m in metrics),
    ]
    return "<br>".join(lines)
