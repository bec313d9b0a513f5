"""The pictures of a language model: as text, their captions."""

from __future__ import annotations

from typing import Any

from gambrel.report.answers import Pictures
from gambrel.report.blocks import (
    Document,
    Notes,
    section,
)
from gambrel.report.builders import analysis
from gambrel.report.llm_pictures import pictures
from gambrel.report.options import Options
from gambrel.report.terms import title


def document(found: Pictures, options: Options) -> Document:
    """What each picture shows."""
    told = tuple(f"{p.title}: {p.about}" for p in pictures(found.analysis))
    return Document(
        title=title(found.analysis),
        answer=analysis.document(found.analysis, options).answer,
        sections=(section(Notes(items=told), folded="what each picture shows"),),
        figures=tuple(analysis.key_figures(found.analysis)),
    )


def content(found: Pictures, _options: Options | None = None) -> dict[str, Any]:
    """The pictures as data."""
    return {"pictures": pictures(found.analysis)}
