"""Constants that were fitted to measured kernels."""

from __future__ import annotations

from gambrel.report.answers import Calibrated
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    Notes,
    col,
    count,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_count


def document(found: Calibrated, _options: Options) -> Document:
    """One line a class."""
    rows = found.classes
    points = sum(r.points for r in rows)
    table = table_of(
        rows,
        col("class", "name", minimum=20),
        col("points", "points", count),
        col("measured / expected", "low_ratio", _ratio),
        col("to", "high_ratio", _ratio),
        col("confidence", lambda r: r.confidence or "–", priority=1, key="confidence"),
        all=True,
    )
    return Document(
        title=f"{format_count(len(rows), 'class', 'classes')} fitted to "
        f"{format_count(points, 'measurement')}",
        answer=(f"Stored in {found.stored}; used from now on.", *found.notes),
        sections=sections(
            section(table),
            section(Notes(heading="Warnings", items=found.warnings, style="warning")),
        ),
        source=f"measurements of this machine, kept in {found.stored}",
        figures=(
            KeyFigure(
                label="classes",
                text=f"{len(rows):,}",
                note="of op, device and format",
                formula="classes with enough measurements for constants of their own",
            ),
            KeyFigure(
                label="measurements",
                text=f"{points:,}",
                formula="sum of the points of all classes",
            ),
        ),
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}"
