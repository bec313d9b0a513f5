"""Which entries of a list are shown."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import LISTED, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ListFields:
    """Which entries of a list are shown."""

    text: str | None = field(
        *(f.TEXT, LISTED, "devices models", "Only names that contain this text.", "--text")
    )
    family: str | None = field(*(f.TEXT, LISTED, "models", "Only this family.", "--family"))
    vendor: str | None = field(*(f.TEXT, LISTED, "devices", "Only this vendor.", "--vendor"))
    category: str | None = field(
        *(f.TEXT, LISTED, "devices"),
        *("Only this class, e.g. 'datacenter gpu', edge, tpu, cpu.", "--category"),
    )
    min_memory: str | None = field(
        *(f.TEXT, LISTED, "devices", "Minimum memory, e.g. 24GiB.", "--min-memory")
    )
    max_tdp: str | None = field(*(f.TEXT, LISTED, "devices", "Maximum TDP, e.g. 75W.", "--max-tdp"))
    term: str | None = field(
        *(
            f.TEXT,
            LISTED,
            "explain",
            "A term, e.g. 'ridge point'; by default all of them.",
            "--term",
        )
    )
