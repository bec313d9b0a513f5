"""What the page of a kind of result has beside its document: a roofline, pictures, details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gambrel.report.blocks import Document
from gambrel.report.chart import Chart
from gambrel.report.picture import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """The parts of one view of a page.

    Attributes:
        document: What there is to read.
        rooflines: The first is linked to the table of the document that says so.
        pictures: Further charts.
        details: Heading and texts, one a row of the linked table, shown for a row on request.
        commands: How to ask the same again: ``"shell"`` and ``"python"``.
    """

    document: Document
    rooflines: Sequence[Chart] = ()
    pictures: Sequence[Picture] = ()
    details: Sequence[tuple[str, Sequence[str]]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
