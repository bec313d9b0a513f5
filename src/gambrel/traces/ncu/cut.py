"""A file cut into tables, line by line, with the noise around them left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

_DATA_ROW: Final = re.compile(r'^"?\d+"?[,;\t]')
_UNITS_ROW: Final = re.compile(r'^(?:"")?[,;\t]')
_HEADER: Final = re.compile(
    r'^"?ID"?[,;\t]"?[A-Za-z]|^.{0,200}"?Kernel Name"?[,;\t].*"?Metric Name"?'
)


@dataclass(slots=True)
class Table:
    """What is learned of a file while it is read.

    Attributes:
        where: Its name, for errors.
        errors: What the profiler said went wrong (``==ERROR==`` lines).
        skipped: Rows that could not be used, by reason.
        heading: Line of the last heading, 1-based; 0 before one is found.
    """

    where: str
    errors: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    heading: int = 0

    def skip(self, reason: str) -> None:
        """Counts a row that is not used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def is_ncu(head: str) -> bool:
    """Whether text begins like an export of Nsight Compute."""
    for line in head.splitlines():
        if "Kernel Name" in line and _HEADER.match(line):
            return True
    return "==PROF==" in head or "==ERROR==" in head


class Cut:
    """A file cut at headings: each part is a heading and its rows, noise left out.

    Attributes:
        number: Of the line that was given last.
        start: Of the heading.
        heading: The heading's line.
    """

    def __init__(self, lines: Iterable[str], table: Table) -> None:
        self._lines = enumerate(lines, 1)
        self._table = table
        self._found = False
        self.number = 0
        self.start = 0
        self.heading = ""

    def find(self) -> bool:
        """Goes on to the next heading; False at the end of the file."""
        while not self._found:
            for _ in self._rows():
                pass  # nobody wanted the rest of the table
            if not self._found:
                return False
        self._found = False
        return True

    def rows(self) -> Iterator[str]:
        """The heading and the lines of the table's rows."""
        yield self.heading
        yield from self._rows()

    def _rows(self) -> Iterator[str]:
        """Lines of rows up to the next heading.

        A row may go on over several lines inside quotes (texts of rules do), so quotes are counted.
        """
        quoted, first = False, True
        data = _DATA_ROW.match
        for number, line in self._lines:
            self.number = number
            if quoted or (self.start and (data(line) or self._is_row(line, first))):
                first = False
                quoted ^= line.count('"') % 2 == 1
                yield line
            elif self._is_heading(line):
                return

    def _is_heading(self, line: str) -> bool:
        """Whether a line that is no row is a heading; what else it is, is noted."""
        if "Name" in line and _HEADER.match(line.lstrip("\ufeff")):
            self.heading = line.lstrip("\ufeff")
            self.start = self._table.heading = self.number
            self._found = True
        elif line.startswith("==ERROR=="):
            self._table.errors.append(line.removeprefix("==ERROR==").strip())
        elif self.start and line.strip() and not line.startswith("=="):
            self._table.skip("lines that are no row of the table")
        return self._found

    def _is_row(self, line: str, first: bool) -> bool:
        """Whether a line without a number goes on with the table.

        The units are a row that starts with an empty cell. A table without IDs has rows of all its
        columns.
        """
        if first and _UNITS_ROW.match(line):
            return True
        if self.heading.lstrip('"').startswith("ID") or line.startswith("==ERROR=="):
            return False
        delimiter = delimiter_of(self.heading)
        whole = line.count(delimiter) >= self.heading.count(delimiter)
        return whole and not ("Name" in line and _HEADER.match(line.lstrip("\ufeff")))


def delimiter_of(heading: str) -> str:
    """What stands between the cells of a table with this heading."""
    return max(",;\t", key=heading.count)
