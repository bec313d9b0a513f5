"""Constants that were fitted to measured kernels."""

from __future__ import annotations

from gambrel.report.answers import Calibrated
from gambrel.report.blocks import (
    DataTable,
    Document,
    Notes,
    count,
    figures,
    section,
    sections,
    words,
)
from gambrel.report.options import Options


def document(found: Calibrated, _options: Options) -> Document:
    """One line a class."""
    rows = found.classes
    points = sum(r.points for r in rows)
    table = DataTable(
        columns=(
            words("class", (r.name for r in rows), "name", minimum=20),
            figures("points", (r.points for r in rows), count, "points"),
            figures("measured / expected", (r.low_ratio for r in rows), _ratio, "low_ratio"),
            figures("to", (r.high_ratio for r in rows), _ratio, "high_ratio"),
            words("confidence", (r.confidence or "–" for r in rows), "confidence", priority=1),
        ),
        all=True,
    )
    return Document(
        title=f"{len(rows)} classes fitted to {points:,} measurements",
        answer=(f"Stored in {found.stored}; used from now on.",),
        sections=sections(
            section(table),
            section(Notes(heading="Warnings", items=found.warnings, style="warning")),
        ),
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}"
