"""The table of a document as CSV: base SI units, the names of the JSON as headings."""

from __future__ import annotations

import csv
import io
import math
from enum import Enum
from typing import Final

from gambrel.report.blocks import Column, DataTable, Document

#: A cell that starts with one of these is a formula to a spreadsheet
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render(document: Document, table: DataTable | None = None) -> str:
    """Returns every row of a table; by default of the first one whose columns have keys.

    An unknown figure is an empty cell, an infinite one is ``inf``. Text that a spreadsheet would
    run as a formula is preceded by an apostrophe. A document without tables gives its answer, a
    line a row.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    table = table or main_table(document)
    if table is None:
        writer.writerow(["answer"])
        writer.writerows([_text(text)] for text in document.answer)
        return out.getvalue()
    columns = [c for c in table.columns if c.key] or list(table.columns)
    writer.writerow([c.key or c.title for c in columns])
    writer.writerows(zip(*map(_cells, columns), strict=True))
    return out.getvalue()


def main_table(document: Document) -> DataTable | None:
    """The first table whose columns have keys, else the first with rows; None without tables."""
    keyed = (t for t in document.tables if any(c.key for c in t.columns))
    return next(keyed, None) or next((t for t in document.tables if t.rows), None)


def _cells(column: Column) -> list[str]:
    if not column.values:
        return [_text(cell) for cell in column.cells]
    return [_value(value) for value in column.values]


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else _text(_plain(value))


def _plain(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _text(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value
