"""The list of built-in models."""

from __future__ import annotations

from gambrel.report.answers import Models
from gambrel.report.blocks import (
    Document,
    Notes,
    amount,
    col,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_count
from gambrel.workload import WorkloadSummary

_FOOT = (
    "FLOP: multiply-accumulate work (FMA = 2) at the sizes shown; choose others with e.g. "
    "'gambrel analyze resnet50 --hardware a100 --batch 8'. Networks of timm and classifiers of "
    "torchvision take any side of the image (--image 384), with these installed."
)


def document(found: Models, _options: Options) -> Document:
    """One line a model."""
    rows = found.models
    if not rows and not found.language:
        return Document(title="No model matches. Run 'gambrel models list' to see all.")
    table = table_of(
        rows,
        col("model", "name", minimum=16),
        col("family", "family", priority=4),
        col("parameters", "parameters", amount, 1),
        col("FLOP", "flops", amount),
        col("sizes", _sizes, priority=2, key="sizes", minimum=16, shorten=cut),
        col("about", "about", priority=6, minimum=20, shorten=cut),
        col("origin", "origin", priority=8, minimum=20, shorten=cut),
        note=_FOOT,
        all=True,
        listing=True,
    )
    language = (
        "From their published configuration, in either phase (prefill, decode): "
        f"{', '.join(found.language)}.",
    )
    return Document(
        title=format_count(len(rows), "model"),
        sections=sections(
            section(table),
            section(Notes(items=language if found.language else ())),
        ),
    )


def _sizes(model: WorkloadSummary) -> str:
    return ", ".join(f"{s.name}={s.default}" for s in model.symbols) or "fixed"
