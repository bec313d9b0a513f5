"""Columns as lines of text: CSV and JSON lines, base SI units, unknown as empty or null."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final

from gambrel.engine.tables import DataField, PointTable, plain

#: A cell that starts with one of these is a formula to a spreadsheet
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(table: PointTable | None, fields: Sequence[DataField]) -> str:
    """The rows as CSV; None gives the line of headings."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if table is None:
        writer.writerow([field.name for field in fields])
    else:
        columns = ([_cell(v) for v in plain(table[field.name])] for field in fields)
        writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def json_lines(table: PointTable, fields: Sequence[DataField]) -> str:
    """The rows as JSON, one object a line."""
    names = [field.name for field in fields]
    rows = zip(*(plain(table[name]) for name in names), strict=True)
    return "".join(f"{json.dumps(dict(zip(names, row, strict=True)))}\n" for row in rows)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
