"""What the page of a kind of result has beside its document: a roofline, pictures, details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gambrel.report.blocks import Document
from gambrel.report.chart import RooflineChart
from gambrel.report.picture import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What each row of a linked table says on request: texts, or numbers with words before them.

    Attributes:
        title: Heading.
        texts: One a row; empty ones are not shown.
        numbers: Word → column of numbers.
        unit: Of all numbers.
    """

    title: str
    texts: Sequence[str] = ()
    numbers: Mapping[str, Sequence[object]] = field(default_factory=dict)
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """The parts of one view of a page.

    Attributes:
        document: What there is to read.
        rooflines: The first is linked to the table of the document that says so.
        pictures: Further charts.
        details: Shown for a row of the linked table on request.
        commands: How to ask the same again: ``"shell"`` and ``"python"``.
    """

    document: Document
    rooflines: Sequence[RooflineChart] = ()
    pictures: Sequence[Picture] = ()
    details: Sequence[Detail] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
