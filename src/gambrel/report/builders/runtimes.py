"""The list of runtimes."""

from __future__ import annotations

from gambrel.report.answers import Runtimes
from gambrel.report.blocks import (
    Document,
    col,
    count,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_count


def document(found: Runtimes, _options: Options) -> Document:
    """One line a runtime."""
    rows = found.runtimes
    if not rows:
        return Document(title="No runtime matches. Run 'gambrel runtimes list' to see all.")
    table = table_of(
        rows,
        col("runtime", "id"),
        col("name", "name", priority=4),
        col("kernels", "kernels.value", priority=2, key="kernels"),
        col("runs on", lambda r: _some(r.runs_on), None, 3, key="runs_on", minimum=16, shorten=cut),
        col("formats", lambda r: _some(r.formats), None, 5, key="formats", minimum=12, shorten=cut),
        col("rows", lambda r: sum(e.rows for e in r.evidence), count, 6, key="evidence_rows"),
        col("about", "about", priority=1, minimum=24, shorten=cut),
        note="rows: measurements behind its expected times; 'gambrel runtimes show NAME' has them.",
        all=True,
        listing=True,
    )
    return Document(title=format_count(len(rows), "runtime"), sections=sections(section(table)))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "any"
