"""A result as a document: sections of facts, tables, charts and notes; renderers know no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import msgspec

from gambrel.report.options import Options
from gambrel.report.text import clean, display_width, shorten
from gambrel.units import format_capacity, format_number, format_percent, format_si

Align = Literal["left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: Heading.
        cells: One text a row; control characters are made visible.
        values: The same in base SI units, for CSV; empty when the cells say it all.
        key: Name of the field in JSON, which has its unit; the heading in CSV.
        priority: 0 stays at every width; of the others the largest is dropped first.
        align: ``"left"`` or ``"right"``.
        minimum: Columns to which the texts may be shortened; 0 when they may not.
        shorten: How they are shortened.
        styles: A style a row; empty for plain.
    """

    title: str
    cells: tuple[str, ...]
    values: tuple[object, ...] = ()
    key: str = ""
    priority: int = 0
    align: Align = "right"
    minimum: int = 0
    shorten: Callable[[str, int], str] = shorten
    styles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(map(clean, self.cells)))

    @property
    def natural(self) -> int:
        """Terminal columns needed to show everything."""
        return max(map(display_width, (self.title, *self.cells)))

    @property
    def least(self) -> int:
        """Terminal columns needed at least."""
        if not self.minimum:
            return self.natural
        return min(self.natural, max(self.minimum, display_width(self.title)))

    def first(self, count: int) -> Column:
        """The same of the first rows."""
        return replace(
            self,
            cells=self.cells[:count],
            values=self.values[:count],
            styles=self.styles[:count],
        )


class DataTable(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under headings.

    Attributes:
        columns: All of one length.
        heading: Above it; empty for none.
        note: A sentence below it.
        shares: Share of the whole in each row, to say what the rows left out take.
        whole: What the shares are of, e.g. ``"the expected time"``.
        outside: What the part of the whole is that belongs to no row.
        all: Show every row, whatever the reader's limit.
        linked: Its rows are the dots of the chart, on a page.
        listing: A list of the catalog, which other programs get in full.
    """

    columns: tuple[Column, ...]
    heading: str = ""
    note: str = ""
    shares: tuple[float, ...] = ()
    whole: str = ""
    outside: str = ""
    all: bool = False
    linked: bool = False
    listing: bool = False

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.columns[0].cells) if self.columns else 0

    def cut(self, top: int) -> tuple[DataTable, str]:
        """The first ``top`` rows (0: all), and a sentence about the others."""
        left_out = self.rows - top
        if self.all or not top or left_out <= 0:
            return self, ""
        shown = msgspec.structs.replace(self, columns=tuple(c.first(top) for c in self.columns))
        taken = ""
        if self.whole:
            taken = f" take {format_percent(sum(self.shares[top:]))} of {self.whole}"
        return shown, f"{left_out:,} more{taken}; --top 0 shows all."


class FactList(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled sentences.

    Attributes:
        items: Label and text.
        heading: Above them; empty for none.
    """

    items: tuple[tuple[str, str], ...]
    heading: str = ""


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences, one bullet each.

    Attributes:
        items: The sentences; none shows nothing.
        heading: Above them; empty for none.
        style: Of the heading.
    """

    items: tuple[str, ...]
    heading: str = ""
    style: str = "bold"


class TextChart(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of characters.

    Attributes:
        draw: Gives it for the width, height and colour of a terminal.
    """

    draw: Callable[[Options], str]


Block = FactList | DataTable | Notes | TextChart


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks that belong together.

    Attributes:
        blocks: In the order to be read.
        folded: Shown under ``--verbose`` only.
        about: What is folded, for the line that says what ``--verbose`` shows.
    """

    blocks: tuple[Block, ...]
    folded: bool = False
    about: str = ""


class KeyFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One of the few figures that stand at the top of a page, with where it comes from.

    Attributes:
        label: What it is.
        text: The figure.
        note: A few words below it.
        key: Name of the field in JSON, which has its unit and definition.
        formula: How it is computed; empty takes the definition of its key.
        source: What its inputs rest on; empty takes that of the document.
        confidence: How sure it is, and why.
    """

    label: str
    text: str
    note: str = ""
    key: str = ""
    formula: str = ""
    source: str = ""
    confidence: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A result to read.

    Attributes:
        title: What was asked about.
        answer: The lines that lead, most important first.
        sections: What follows.
        aside: A word at the right end of the title.
        style: Of the first line of the answer.
        figures: Up to six that stand at the top of a page.
        source: What those of them rest on that name no source of their own.
    """

    title: str
    answer: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    aside: str = ""
    style: str = ""
    figures: tuple[KeyFigure, ...] = ()
    source: str = ""

    @property
    def tables(self) -> tuple[DataTable, ...]:
        """All of them, in reading order."""
        return tuple(b for s in self.sections for b in s.blocks if isinstance(b, DataTable))


def section(*blocks: Block | None, folded: str = "") -> Section:
    """Blocks, without those that are absent or empty; ``folded`` says what a folded one is."""
    return Section(
        blocks=tuple(b for b in blocks if b is not None and _says(b)),
        folded=bool(folded),
        about=folded,
    )


def assumed(texts: tuple[str, ...]) -> Section:
    """What the figures rest on, folded."""
    return section(Notes(heading="Assumptions", items=texts), folded="assumptions")


def sections(*found: Section) -> tuple[Section, ...]:
    """Those that say something."""
    return tuple(s for s in found if s.blocks)


def _says(block: Block) -> bool:
    if isinstance(block, (FactList, Notes)):
        return bool(block.items)
    # Headings without rows say nothing; a note alone does.
    return not isinstance(block, DataTable) or bool(
        block.rows or (block.note and not block.columns)
    )


def words(title: str, cells: Iterable[object], key: str = "", **more: Any) -> Column:
    """A column of text, at the left; None and empty text are shown as given by ``str``."""
    return Column(title=title, cells=tuple(map(str, cells)), key=key, **({"align": "left"} | more))


def figures(
    title: str,
    values: Iterable[Any],
    show: Callable[[Any], str],
    key: str = "",
    **more: Any,
) -> Column:
    """A column of numbers: ``values`` in base units, each shown by ``show``."""
    found = tuple(values)
    return Column(title=title, cells=tuple(map(show, found)), values=found, key=key, **more)


class ColumnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How one column is read from rows of records.

    Attributes:
        title: Heading.
        get: Value of a row.
        show: Its text; None shows the value itself, at the left.
        more: Further fields of `Column`.
    """

    title: str
    get: Callable[[Any], Any]
    show: Callable[[Any], str] | None
    more: dict[str, Any]

    def of(self, rows: Sequence[Any]) -> Column:
        """The column of some rows."""
        values = map(self.get, rows)
        if self.show is None:
            return words(self.title, values, **self.more)
        return figures(self.title, values, self.show, **self.more)


def col(
    title: str,
    get: str | Callable[[Any], Any],
    show: Callable[[Any], str] | None = None,
    priority: int = 0,
    **more: Any,
) -> ColumnSpec:
    """A column of a table of records; a field named by text is also its name in JSON and CSV."""
    if isinstance(get, str):
        more = {"key": get.rpartition(".")[2]} | more
        get = attrgetter(get)
    return ColumnSpec(title=title, get=get, show=show, more={"priority": priority} | more)


def side_columns(sides: Sequence[str], field: str, key: str) -> list[ColumnSpec]:
    """Plain columns of one field on both sides of a pair; ``key`` has a place for the side."""

    def of(side: str) -> Callable[[Any], Any]:
        return lambda row: getattr(getattr(row, side), field, None)

    return [col(side, of(side), str, key=key.format(side)) for side in sides]


def table_of(rows: Sequence[Any], *specs: ColumnSpec | None, **more: Any) -> DataTable:
    """A table with a row a record; columns that are None are left out."""
    return DataTable(columns=tuple(spec.of(rows) for spec in specs if spec is not None), **more)


#: How numbers of one kind are shown in tables; unknown (None) stays "unknown".
seconds = partial(format_si, unit="s", digits=3)
amount = partial(format_si, unit="")
ratio = format_number
share = format_percent
capacity = partial(format_capacity, digits=3)


def count(value: int | None) -> str:
    """A whole number with thousands separated."""
    return "unknown" if value is None else f"{value:,}"


def rate_text(value: float | None) -> str:
    """A rate of events: thousands separated, decimals only where they matter."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def verdict_of_fit(fits: bool | None) -> str:
    """Whether something fits, in a word."""
    return {True: "yes", False: "NO", None: "unknown"}[fits]
