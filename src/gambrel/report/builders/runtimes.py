"""The list of runtimes."""

from __future__ import annotations

from gambrel.report.answers import Runtimes
from gambrel.report.blocks import DataTable, Document, count, figures, section, sections, words
from gambrel.report.options import Options
from gambrel.report.text import cut


def document(found: Runtimes, _options: Options) -> Document:
    """One line a runtime."""
    rows = found.runtimes
    if not rows:
        return Document(title="No runtime matches. Run 'gambrel runtimes list' to see all.")
    table = DataTable(
        columns=(
            words("runtime", (r.id for r in rows), "id"),
            words("name", (r.name for r in rows), "name", priority=4),
            words("kernels", (r.kernels.value for r in rows), "kernels", priority=2),
            words(
                "runs on",
                (_some(r.runs_on) for r in rows),
                "runs_on",
                priority=3,
                minimum=16,
                shorten=cut,
            ),
            words(
                "formats",
                (_some(r.formats) for r in rows),
                "formats",
                priority=5,
                minimum=12,
                shorten=cut,
            ),
            figures(
                "rows",
                (sum(e.rows for e in r.evidence) for r in rows),
                count,
                "evidence_rows",
                priority=6,
            ),
            words("about", (r.about for r in rows), "about", priority=1, minimum=24, shorten=cut),
        ),
        note="rows: measurements behind its expected times; 'gambrel runtimes show NAME' has them.",
        all=True,
    )
    return Document(title=f"{len(rows)} runtimes", sections=sections(section(table)))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "any"
