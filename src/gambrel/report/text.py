"""Text for terminals: width, shortening, alignment, colour, tables that drop columns.

Written here rather than taken from a library because start-up counts: importing and using a table
library costs 44 ms here, one seventh of what the whole command may take, and none drops columns by
priority.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

ELLIPSIS: Final = "…"
GAP: Final = 2

#: Style name to ANSI "select graphic rendition" codes. The bounds use orange and blue of the 256
#: colours, near to the palette of the charts, which people with any colour vision tell apart.
_SGR: Final[dict[str, str]] = {
    "": "",
    "bold": "1",
    "dim": "2",
    "title": "1",
    "compute": "38;5;208",
    "memory": "38;5;39",
    "network": "38;5;175",
    "overhead": "38;5;179",
    "warning": "33",
    "total": "1;32",
    "roof": "1",
}

_BAR: Final = " ▏▎▍▌▋▊▉█"


def clean(text: str) -> str:
    """Returns ``text`` on one line with control characters made visible.

    A name from a file could otherwise move the cursor or recolour the terminal; direction marks
    could reorder what is read.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c) for c in text)


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    return char


def display_width(text: str) -> int:
    """Terminal columns that ``text`` occupies: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Returns ``text`` in at most ``width`` columns, its middle replaced by an ellipsis.

    The end of a module path tells more than its beginning, so it keeps the larger part.
    """
    if display_width(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    head = _take(text, (width - 1) // 3)
    tail = _take(text[::-1], width - 1 - display_width(head))[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def shorten_path(path: str, width: int) -> str:
    """Returns a module path in at most ``width`` columns, its leading parts cut to one letter.

    Numbers stay: of ``encoder.layer.0.output`` and ``encoder.layer.1.output`` both remain apart.
    What is still too long loses its middle.
    """
    parts = path.split(".")
    for i, part in enumerate(parts[:-1]):
        if display_width(".".join(parts)) <= width:
            break
        if not part.isdigit():
            parts[i] = part[:1]
    return shorten(".".join(parts), width)


def _take(text: str, width: int) -> str:
    used = 0
    for i, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:i]
    return text


def pad(text: str, width: int, align: str = "<") -> str:
    """Pads ``text`` with spaces to ``width`` columns; ``align`` is ``<`` or ``>``."""
    space = " " * max(width - display_width(text), 0)
    return space + text if align == ">" else text + space


def paint(text: str, style: str, color: bool) -> str:
    """Returns ``text`` in the named style when ``color`` is set, else unchanged."""
    code = _SGR[style] if color else ""
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def bar(share: float | None, width: int) -> str:
    """A bar of ``share`` (0 to 1) in eighths of a column, at most ``width`` columns."""
    eighths = round(min(max(share or 0.0, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + _BAR[rest].strip()) or ("▏" if share else "")


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Wraps ``text`` at ``width`` columns; later lines start with ``indent``."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: Heading.
        cells: One text a row.
        priority: 0 stays at every width; of the others the largest is dropped first.
        align: ``<`` or ``>``.
        minimum: Columns to which the texts may be shortened; 0 when they may not.
        shorten: How they are shortened.
        styles: A style a row; empty for plain.
    """

    title: str
    cells: tuple[str, ...]
    priority: int = 0
    align: str = ">"
    minimum: int = 0
    shorten: Callable[[str, int], str] = shorten
    styles: tuple[str, ...] = ()

    @property
    def natural(self) -> int:
        """Columns needed to show everything."""
        return max(map(display_width, (self.title, *self.cells)))

    @property
    def least(self) -> int:
        """Columns needed at least."""
        return min(self.natural, max(self.minimum, display_width(self.title)) or self.natural)


def fit(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Chooses the columns that fit into ``width`` and how wide each becomes, in the given order.

    Columns are admitted by priority at their least width; what is left then widens the shortened
    ones, the most important first.
    """
    chosen: list[Column] = []
    used = -GAP
    for column in sorted(columns, key=lambda c: c.priority):
        need = GAP + (column.least if column.minimum else column.natural)
        if used + need <= width or column.priority == 0:
            chosen.append(column)
            used += need
    spare = max(width - used, 0)
    widths = {}
    for column in chosen:
        base = column.least if column.minimum else column.natural
        extra = min(column.natural - base, spare)
        widths[id(column)] = base + extra
        spare -= extra
    return [(c, widths[id(c)]) for c in columns if id(c) in widths]


def table(columns: Sequence[Column], width: int, color: bool = False) -> list[str]:
    """Lays out a table in at most ``width`` columns: heading, rule, one line a row."""
    laid = fit(columns, width)
    gap = " " * GAP
    head = gap.join(_painted(c.title, w, c.align, "bold", color) for c, w in laid)
    rule = paint("─" * (sum(w for _, w in laid) + GAP * (len(laid) - 1)), "dim", color)
    rows = zip(*(_cells(c, w, color) for c, w in laid), strict=True)
    return [head.rstrip(), rule, *(gap.join(row).rstrip() for row in rows)]


def _cells(column: Column, width: int, color: bool) -> Iterable[str]:
    styles = column.styles or ("",) * len(column.cells)
    for cell, style in zip(column.cells, styles, strict=True):
        yield _painted(column.shorten(cell, width), width, column.align, style, color)


def _painted(text: str, width: int, align: str, style: str, color: bool) -> str:
    # The padding stays outside the colour, so that the end of a line can be trimmed.
    space = " " * max(width - display_width(text), 0)
    shown = paint(text, style, color) if text else ""
    return space + shown if align == ">" else shown + space


def beside(left: Sequence[str], right: Sequence[str], left_width: int) -> list[str]:
    """Puts two blocks of lines next to each other; the left one is ``left_width`` columns wide."""
    rows = max(len(left), len(right))
    padded = [*left, *[""] * (rows - len(left))]
    others = [*right, *[""] * (rows - len(right))]
    return [
        f"{pad_painted(a, left_width)}{b}".rstrip() for a, b in zip(padded, others, strict=True)
    ]


def pad_painted(line: str, width: int) -> str:
    """Pads a line that may hold colour codes, which occupy no columns."""
    return line + " " * max(width - display_width(strip_color(line)), 0)


def strip_color(line: str) -> str:
    """Returns ``line`` without ANSI colour codes."""
    if "\x1b" not in line:
        return line
    head, *parts = line.split("\x1b[")
    return head + "".join(part.partition("m")[2] for part in parts)
