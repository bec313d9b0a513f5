"""Tables of results as data frames."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError, require
from gambrel.report.blocks import Column, DataTable
from gambrel.report.builders.figures_of import COLUMNS, row
from gambrel.report.csv_ import main_table
from gambrel.report.registry import document, kind_of


def to_dataframe(analysis: Analysis) -> Any:
    """One row per op, base SI units, unknown as missing; the columns of the CSV.

    Returns:
        A ``pandas.DataFrame``; without ops it has its columns all the same.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    require("pandas", "notebook", "a data frame")
    import pandas as pd

    rows = [[v.value if isinstance(v, Enum) else v for v in row(op)] for op in analysis.ops]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def frame_of(record: object) -> Any:
    """The main table of any kind of result, as its CSV has it.

    Returns:
        A ``pandas.DataFrame``.

    Raises:
        MissingExtraError: pandas is not installed.
        InputError: The result has no table.
    """
    require("pandas", "notebook", "a data frame")
    import pandas as pd

    table = table_of(record)
    if table is None:
        raise InputError(f"there is no table of {kind_of(record).type.partition('/')[2]}.")
    columns = [c for c in table.columns if c.key] or list(table.columns)
    return pd.DataFrame({c.key or c.title: _values(c) for c in columns})


def table_of(record: object) -> DataTable | None:
    """The table that stands for a result where there is room for one; None without tables."""
    rows: DataTable | None = kind_of(record).rows(record)
    return rows or main_table(document(record))


def _values(column: Column) -> list[object]:
    """Numbers where there are any, else the texts that a reader sees."""
    values = column.values or column.cells
    return [v.value if isinstance(v, Enum) else v for v in values]
