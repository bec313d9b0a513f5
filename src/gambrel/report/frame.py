"""The per-op table as a data frame."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gambrel.analysis.result import Analysis
from gambrel.errors import require
from gambrel.report.builders.figures_of import COLUMNS, row


def to_dataframe(analysis: Analysis) -> Any:
    """One row an op, base SI units, unknown as missing; the columns of the CSV.

    Returns:
        A ``pandas.DataFrame``; without ops it has its columns all the same.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    require("pandas", "notebook", "a data frame")
    import pandas as pd

    rows = [[v.value if isinstance(v, Enum) else v for v in row(op)] for op in analysis.ops]
    return pd.DataFrame(rows, columns=list(COLUMNS))
