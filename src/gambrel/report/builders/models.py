"""The list of built-in models."""

from __future__ import annotations

from gambrel.report.answers import Models
from gambrel.report.blocks import (
    DataTable,
    Document,
    Notes,
    amount,
    figures,
    section,
    sections,
    words,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.workload import WorkloadSummary

_FOOT = (
    "FLOP: multiply-accumulate work (FMA = 2) at the sizes shown; choose others with --batch, "
    "--seq, --context, --image or --size NAME=NUMBER."
)


def document(found: Models, _options: Options) -> Document:
    """One line a model."""
    rows = found.models
    if not rows and not found.language:
        return Document(title="No model matches. Run 'gambrel models list' to see all.")
    table = DataTable(
        columns=(
            words("model", (m.name for m in rows), "name", minimum=16),
            words("family", (m.family for m in rows), "family", priority=4),
            figures("parameters", (m.parameters for m in rows), amount, "parameters", priority=1),
            figures("FLOP", (m.flops for m in rows), amount, "flops"),
            words("sizes", map(_sizes, rows), "sizes", priority=2, minimum=16, shorten=cut),
            words("about", (m.about for m in rows), "about", priority=6, minimum=20, shorten=cut),
            words(
                "origin", (m.origin for m in rows), "origin", priority=8, minimum=20, shorten=cut
            ),
        ),
        note=_FOOT,
        all=True,
    )
    language = (
        "From their published configuration, in any phase (--phase prefill or decode): "
        f"{', '.join(found.language)}.",
    )
    return Document(
        title=f"{len(rows)} models",
        sections=sections(
            section(table if rows else None),
            section(Notes(items=language if found.language else ())),
        ),
    )


def _sizes(model: WorkloadSummary) -> str:
    return ", ".join(f"{s.name}={s.default}" for s in model.symbols) or "fixed"
