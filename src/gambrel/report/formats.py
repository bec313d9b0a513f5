"""The formats in which results are written, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    Attributes:
        name: As the user writes it.
        about: One line for a list of formats.
        suffixes: Of files, lower case; empty when it is for the terminal only.
        every: Whether every kind of result has it; the others name who draws it.
    """

    name: str
    about: str
    suffixes: tuple[str, ...] = ()
    every: bool = False


#: All formats by name.
FORMATS: Final[dict[str, Format]] = {
    f.name: f
    for f in (
        Format(name="table", about="text for a terminal", suffixes=(".txt",), every=True),
        Format(name="json", about="every figure, with units", suffixes=(".json",), every=True),
        Format(name="csv", about="the main table, SI base units", suffixes=(".csv",), every=True),
        Format(name="markdown", about="for an issue or text", suffixes=(".md",), every=True),
        Format(
            name="html", about="a page that opens offline", suffixes=(".html", ".htm"), every=True
        ),
        Format(name="svg", about="the chart, for papers", suffixes=(".svg",)),
        Format(name="png", about="the chart as a picture", suffixes=(".png",)),
        Format(name="pdf", about="the chart, for papers", suffixes=(".pdf",)),
        Format(name="roofline", about="the chart for a terminal"),
        Format(name="instructions", about="the instruction roofline for a terminal"),
    )
}
#: Formats of pictures.
PICTURES: Final = ("svg", "png", "pdf")
