"""A result in a notebook: its answer, a chart and a table, small and without any script.

The chart is an image of its own, so that neither styles nor names of one cell reach another.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel.errors import GambrelError, InputError
from gambrel.report.blocks import Column, DataTable, Document
from gambrel.report.frame import table_of
from gambrel.report.options import Options
from gambrel.report.picture import Picture
from gambrel.report.registry import document, kind_of, parts_of, pictures_of
from gambrel.report.roofline_picture import picture_of
from gambrel.report.text import clean, cut
from gambrel.units import format_count

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Rows and columns of a table; a data frame has all of them.
_ROWS: Final = 10
_COLUMNS: Final = 8
#: Characters of a text, and of the line at a prompt.
_TEXT: Final = 400
_LINE: Final = 200
#: Characters of a chart above which there is none: a notebook keeps every output.
_LARGEST: Final = 400_000


def mimebundle(record: object) -> dict[str, str]:
    """What a notebook may show of a result: HTML, or one line of text."""
    return {"text/html": "".join(_parts(record)), "text/plain": repr(record)}


def line(record: object) -> str:
    """What a prompt shows of a result: its class, what was asked about, and the answer."""
    name = type(record).__name__
    try:
        shown = document(record, Options(brief=True))
    except (GambrelError, TypeError):  # part of a result, which no report is made of
        return f"<{name}>"
    said = " ".join(" ".join((f"{shown.title}:", *shown.answer[:1])).split())
    return f"<{name}: {said if len(said) <= _LINE else said[: _LINE - 1].rstrip() + '…'}>"


def plot(record: object, title: str | None = None) -> go.Figure:
    """The first picture of a result as a plotly figure.

    Raises:
        InputError: The result has no picture.
    """
    from gambrel.report.plot_interactive import drawn

    pictures = _pictures(record)
    if not pictures:
        raise InputError(f"there is no picture of {kind_of(record).type.partition('/')[2]}.")
    return drawn(pictures[0], title)


def _pictures(record: object) -> Sequence[Picture]:
    """Those of its page, the roofline first where it has one."""
    options = Options(brief=True)
    parts = parts_of(record, options)
    if not parts.rooflines:
        return parts.pictures
    return pictures_of(record, options) or [picture_of(chart) for chart in parts.rooflines]


def _parts(record: object) -> Iterator[str]:
    shown = document(record, Options(on_page=True))
    yield f"<p><strong>{_safe(shown.title)}</strong></p>"
    yield from (f"<p>{_safe(line)}</p>" for line in shown.answer)
    yield from _chart(record)
    table = _shown_table(record, shown)
    if table is not None and table.rows:
        yield _table(table)


def _chart(record: object) -> Iterator[str]:
    from gambrel.report.svg import draw_file

    try:
        pictures = _pictures(record)
    except InputError:
        return
    for picture in pictures[:1]:
        text = draw_file([picture])
        if len(text) <= _LARGEST:
            data = base64.b64encode(text.encode()).decode()
            yield f'<img alt="{_safe(picture.title)}" src="data:image/svg+xml;base64,{data}">'


def _shown_table(record: object, shown: Document) -> DataTable | None:
    """The first table that is read; that of the data frame where there is none."""
    blocks = (b for s in shown.sections if not s.folded for b in s.blocks)
    tables = (b for b in blocks if isinstance(b, DataTable) and b.rows)
    return next(tables, None) or table_of(record)


def _table(table: DataTable) -> str:
    kept = sorted(table.columns, key=lambda c: c.priority)[:_COLUMNS]
    columns = [c for c in table.columns if c in kept]
    head = "".join(f"<th>{_safe(c.title)}</th>" for c in columns)
    cells = ("".join(_cell(c, row) for c in columns) for row in range(min(table.rows, _ROWS)))
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    left = table.rows - _ROWS
    more = f"<p>{format_count(left, 'more row')}: to_dataframe() has all.</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(column: Column, row: int) -> str:
    return f'<td style="text-align: {column.align}">{_safe(column.cells[row])}</td>'


def _safe(text: Any) -> str:
    return html.escape(cut(clean(str(text)), _TEXT))
