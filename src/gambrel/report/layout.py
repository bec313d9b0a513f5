"""Layout for terminals by rich: tables whose columns give way by priority, lists, colour.

rich lays out, wraps, measures and colours; choosing the columns is ours, because rich narrows every
column alike and would crop figures. It is imported when the first text is laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final, Literal

from gambrel.report.options import Options
from gambrel.report.text import clean, display_width, shorten

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

Align = Literal["left", "right"]

#: Columns between two columns of a table.
GAP: Final = 2

#: Our names of styles. The bounds use orange and blue of the 256 colours, near to the palette of
#: the charts, which people with any colour vision tell apart.
STYLES: Final[dict[str, str]] = {
    "title": "bold",
    "compute": "color(208)",
    "memory": "color(39)",
    "network": "color(175)",
    "overhead": "color(179)",
    "warning": "yellow",
    "total": "bold green",
    "roof": "bold",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: Heading.
        cells: One text a row; control characters are made visible.
        priority: 0 stays at every width; of the others the largest is dropped first.
        align: ``"left"`` or ``"right"``.
        minimum: Columns to which the texts may be shortened; 0 when they may not.
        shorten: How they are shortened.
        styles: A style a row; empty for plain.
    """

    title: str
    cells: tuple[str, ...]
    priority: int = 0
    align: Align = "right"
    minimum: int = 0
    shorten: Callable[[str, int], str] = shorten
    styles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(map(clean, self.cells)))

    @property
    def natural(self) -> int:
        """Columns needed to show everything."""
        return max(map(display_width, (self.title, *self.cells)))

    @property
    def least(self) -> int:
        """Columns needed at least."""
        if not self.minimum:
            return self.natural
        return min(self.natural, max(self.minimum, display_width(self.title)))


def fit(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Chooses the columns that fit into ``width`` and how wide each becomes, in the given order.

    Columns are admitted by priority at their least width; what is left then widens the shortened
    ones, the most important first. A column that may go and says nothing goes.
    """
    widths: dict[int, int] = {}
    spare = width + GAP
    ranked = sorted(columns, key=lambda c: c.priority)
    for column in ranked:
        if column.priority == 0 or (any(column.cells) and column.least + GAP <= spare):
            widths[id(column)] = column.least
            spare -= column.least + GAP
    for column in ranked:
        if id(column) in widths:
            extra = min(column.natural - column.least, max(spare, 0))
            widths[id(column)] += extra
            spare -= extra
    return [(c, widths[id(c)]) for c in columns if id(c) in widths]


def table(columns: Sequence[Column], width: int) -> Table:
    """Lays out a table in at most ``width`` columns: heading, rule, one line a row."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    laid = fit(columns, width)
    # A gap is a column's padding and the box's divider. The width is given, so that a terminal too
    # narrow for what always stays gets long lines rather than cropped figures.
    made = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        width=sum(w for _, w in laid) + GAP * (len(laid) - 1),
        border_style="dim",
        header_style="",
    )
    for column, columns_wide in laid:
        heading = line((column.title, "bold"))
        made.add_column(heading, width=columns_wide, justify=column.align, no_wrap=True)
    for row in zip(*(_cells(c, w) for c, w in laid), strict=True):
        made.add_row(*row)
    return made


def _cells(column: Column, width: int) -> Iterable[Text]:
    styles = column.styles or ("",) * len(column.cells)
    for cell, style in zip(column.cells, styles, strict=True):
        yield line((column.shorten(cell, width), style))


def line(*parts: str | tuple[str, str]) -> Text:
    """Text of parts, each plain or ``(text, style)``; never read as markup, wrapped when shown."""
    from rich.text import Text

    given = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((clean(text), style) for text, style in given))


def hanging(items: Iterable[tuple[str, str]], indent: int, style: str = "") -> Table:
    """Paragraphs whose lines all start ``indent`` columns in, behind a label in ``style``."""
    from rich.table import Table

    grid = Table.grid()
    grid.add_column(width=indent, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in items:
        grid.add_row(line((label, style)), line(text))
    return grid


def listed(heading: str, items: Sequence[str], style: str = "bold") -> list[RenderableType]:
    """A heading and one bullet an item; nothing when there are none."""
    return [line((heading, style)), hanging((("•", item) for item in items), 2)] if items else []


def beside(left: RenderableType, right: RenderableType, width: int) -> Table:
    """Two blocks next to each other; the left one and the space after it take ``width``."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2 * GAP, 0, 0))
    grid.add_column(width=width - 2 * GAP)
    grid.add_column()
    grid.add_row(left, right)
    return grid


def show(blocks: Iterable[Sequence[RenderableType]], options: Options) -> str:
    """Returns blocks as text with an empty line between them; empty blocks are left out.

    Width and colour follow ``options`` alone: neither the environment nor a notebook changes them.
    """
    from rich.console import Console
    from rich.theme import Theme

    written = StringIO()
    console = Console(
        file=written,
        width=options.columns,
        height=options.height,
        color_system="256" if options.color else None,
        force_terminal=options.color,
        force_jupyter=False,
        legacy_windows=False,
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
        theme=Theme(STYLES),
    )
    for number, block in enumerate(filter(None, blocks)):
        if number:
            console.print()
        for item in block:
            console.print(item, crop=False)
    return "\n".join(text.rstrip() for text in written.getvalue().split("\n"))
