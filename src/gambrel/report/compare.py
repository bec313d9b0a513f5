"""A comparison for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gambrel.advise.compare import Comparison, Row
from gambrel.report.advice_json import document
from gambrel.report.check import value_text
from gambrel.report.layout import Column, line, listed, show, table
from gambrel.report.options import Options
from gambrel.report.text import clean

if TYPE_CHECKING:
    from rich.console import RenderableType


def render(found: Comparison, options: Options | None = None) -> str:
    """One line a row, best first."""
    options = options or Options()
    rows = found.rows[: options.top] if options.top else found.rows
    more = len(found.rows) - len(rows)
    columns = [*_varying(rows), *figure_columns(rows, found.metrics), *_about(rows)]
    return show(
        [
            [line((f"Best {found.metrics[0]} first", "bold"))],
            [table(columns, options.columns), *_more(more)],
            [line(_FOOT)],
            listed("Notes", (*_precisions(rows), *found.notes)),
        ],
        options,
    )


_FOOT = (
    "Expected values; where none is known, what it lies between, or is at most (for power: the "
    "thermal design power) or at least. * marks rows that no other beats in all these metrics."
)


def _more(count: int) -> list[RenderableType]:
    return [line(f"and {count:,} more; --top 0 shows all.")] if count else []


def to_json(found: Comparison) -> str:
    """The comparison as JSON text."""
    return document("gambrel/comparison", found)


def _varying(rows: Sequence[Row]) -> list[Column]:
    """What tells the rows apart: always the device, the rest where it differs."""
    columns = [
        Column(
            title="device",
            cells=tuple(f"{r.hardware}{' *' if r.pareto else ''}" for r in rows),
            align="left",
        ),
        Column(title="format", cells=tuple(r.precision for r in rows), align="left", priority=1),
    ]
    if len({r.model for r in rows}) > 1:
        columns.insert(0, Column(title="model", cells=tuple(r.model for r in rows), align="left"))
    if len({r.sizes.get("batch") for r in rows}) > 1:
        cells = tuple(str(r.sizes.get("batch", "–")) for r in rows)
        columns.append(Column(title="batch", cells=cells))
    return columns


def figure_columns(rows: Sequence[Row], metrics: Sequence[str]) -> list[Column]:
    """One column a metric; the first ones stay on narrow terminals."""
    return [
        Column(
            title=metric,
            cells=tuple(value_text(r.figures[metric]) for r in rows),
            priority=0 if i < 3 else i,
        )
        for i, metric in enumerate(metrics)
    ]


def _about(rows: Sequence[Row]) -> list[Column]:
    fits = {True: "yes", False: "NO", None: "unknown"}
    return [
        Column(
            title="bound",
            cells=tuple(r.bound.value if r.bound else "unknown" for r in rows),
            align="left",
            priority=6,
        ),
        Column(title="fits", cells=tuple(fits[r.fits] for r in rows), align="left", priority=5),
    ]


def _precisions(rows: Sequence[Row]) -> list[str]:
    """Why each device has the format that it has, where nobody asked for it."""
    chosen = [r.precision_reason for r in rows if r.precision_reason != "as asked"]
    distinct = list(dict.fromkeys(chosen))
    if len(distinct) > 4:
        return ["each device in the format that its engine is made for; choose with --precision."]
    return [f"{clean(reason).rstrip('.')}." for reason in distinct]
