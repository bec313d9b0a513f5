"""Names and shares as text: control characters made visible, long names shortened in the middle."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from gambrel.errors import clean as clean

ELLIPSIS: Final = "…"


def display_width(text: str) -> int:
    """Terminal columns that ``text`` occupies: wide characters take two, combining ones none."""
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int) -> str:
    """Returns ``text`` in at most ``width`` columns, its middle replaced by an ellipsis.

    The end of a module path tells more than its beginning, so it keeps the larger part.
    """
    if display_width(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    places = range(len(text) + 1)
    most = (width - 1) // 3
    head = text[: bisect_right(places, most, key=lambda i: display_width(text[:i])) - 1]
    # Measured together, because a mark at the start of the tail would join the ellipsis.
    tail = bisect_left(places, -width, key=lambda i: -display_width(head + ELLIPSIS + text[i:]))
    return head + ELLIPSIS + text[tail:]


def cut(text: str, width: int) -> str:
    """Returns ``text`` in at most ``width`` columns, its end replaced by an ellipsis."""
    if display_width(text) <= width:
        return text
    fitting = bisect_right(range(len(text)), width - 1, key=lambda i: display_width(text[:i])) - 1
    return text[: max(fitting, 0)].rstrip() + ELLIPSIS


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


def bar(share: float | None, width: int) -> str:
    """A bar of ``share`` (0 to 1) in eighths of a column, at most ``width`` columns."""
    eighths = round(min(max(share or 0.0, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[rest].strip()) or ("▏" if share else "")
