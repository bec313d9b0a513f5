"""A document for a terminal: the answer first; columns of tables give way by priority.

rich lays out, wraps, measures and colours; choosing the columns is ours, because rich narrows every
column alike and would crop figures. It is imported when the first text is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final

from gambrel.report.blocks import Block, Column, DataTable, Document, FactList, Notes, TextChart
from gambrel.report.options import Options
from gambrel.report.text import clean, display_width, shorten

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

#: Columns between two columns of a table.
GAP: Final = 2
#: Labels of facts take at most this much, so that sentences have room.
_LABEL: Final = 16

#: Our names of styles. The bounds use orange and blue of the 256 colours, near to the palette of
#: the charts, which people with any colour vision tell apart.
STYLES: Final[dict[str, str]] = {
    "title": "bold",
    "compute": "color(208)",
    "memory": "color(39)",
    "network": "color(175)",
    "launches": "color(179)",
    "host": "color(179)",
    "warning": "yellow",
    "total": "bold green",
    "fail": "bold red",
    "roof": "bold",
}


def render(document: Document, options: Options | None = None) -> str:
    """Returns the document as text for a terminal of ``options.width`` columns.

    Colour only where ``options.color`` says so; the text says the same without it. Folded sections
    appear with ``options.verbose``; else the last line says what they hold.
    """
    options = options or Options()
    shown = [s for s in document.sections if options.verbose or not s.folded]
    blocks: list[Sequence[RenderableType]] = [_head(document, options)]
    blocks += [_block(block, options) for section in shown for block in section.blocks]
    folded = [s.about for s in document.sections if s not in shown]
    if folded:
        blocks.append([line((f"--verbose shows {joined(dict.fromkeys(folded))}.", "dim"))])
    return show(blocks, options)


def render_block(block: Block, options: Options) -> str:
    """One block alone, as part of another text."""
    return show([_block(block, options)], options)


def listed(heading: str, items: Sequence[str], style: str = "bold") -> list[RenderableType]:
    """A heading and one bullet an item; nothing when there are none."""
    return [line((heading, style)), hanging((("•", item) for item in items), 2)] if items else []


def joined(items: Iterable[str]) -> str:
    """``"a, b and c"``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _head(document: Document, options: Options) -> list[RenderableType]:
    width, right = options.columns, document.aside
    left = shorten(clean(options.title or document.title), 2 * width)
    gap = " " * max(width - display_width(left) - len(right), 2) if right else ""
    lines: list[RenderableType] = [line((left, "title"), gap, (right, "dim"))]
    labels = [text.partition(": ")[0] for text in document.answer if ": " in text]
    wide = 2 + max((len(label) for label in labels if len(label) <= _LABEL), default=0)
    for number, text in enumerate(document.answer):
        label, colon, rest = text.partition(": ")
        style = document.style if number == 0 else ""
        if colon and len(label) <= _LABEL:
            lines.append(hanging([(f"{label}:", rest)], wide, style or "bold"))
        else:
            lines.append(line((text, style)))
    return lines


def _block(block: Block, options: Options) -> list[RenderableType]:
    if isinstance(block, TextChart):
        return [block.draw(options)]
    if isinstance(block, Notes):
        shown = listed(block.heading, block.items, block.style)
        return shown if block.heading else shown[1:]
    parts: list[RenderableType] = [line((block.heading, "bold"))] if block.heading else []
    if isinstance(block, FactList):
        longest = max(len(label) for label, _ in block.items)
        return [*parts, hanging(block.items, min(longest, _LABEL) + 2, "dim")]
    return [*parts, *_table(block, options)]


def _table(block: DataTable, options: Options) -> list[RenderableType]:
    shown, rest = block.cut(options.top)
    full = block.listing and options.piped
    width = sum(c.natural + GAP for c in shown.columns) if full else options.columns
    parts: list[RenderableType] = [table(shown.columns, width)] if block.rows else []
    if rest:
        parts.append(line((rest, "dim")))
    return [*parts, line(block.note)] if block.note else parts


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


def table(columns: Sequence[Column], width: int) -> RichTable:
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


def hanging(items: Iterable[tuple[str, str]], indent: int, style: str = "") -> RichTable:
    """Paragraphs whose lines all start ``indent`` columns in, behind a label in ``style``."""
    from rich.table import Table

    grid = Table.grid()
    grid.add_column(width=indent)
    grid.add_column(overflow="fold")
    for label, text in items:
        grid.add_row(line((label, style)), line(text))
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
            if isinstance(item, str):  # drawn already, colours and all
                written.write(f"{item.rstrip()}\n")
            else:
                console.print(item, crop=False)
    return "\n".join(text.rstrip() for text in written.getvalue().split("\n"))
