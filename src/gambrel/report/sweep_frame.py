"""A sweep as a data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gambrel.engine.tables import FLAG, DataField, PointTable, Words
from gambrel.errors import require

if TYPE_CHECKING:
    from gambrel.analysis.sweep.record import Sweep


def frame(sweep: Sweep) -> Any:
    """One row a point; what is unknown is missing."""
    require("pandas", "notebook", "a data frame")
    import pandas as pd

    if sweep.path is not None and sweep.path.is_dir():
        return pd.read_parquet(sweep.path)
    return pd.DataFrame({f.name: _column(pd, sweep.table, f) for f in sweep.fields})


def _column(pd: Any, table: PointTable, field: DataField) -> Any:
    values = table[field.name]
    if isinstance(values, Words):
        return pd.Categorical.from_codes(values.codes, categories=list(values.names))
    if field.kind == FLAG:
        return pd.array([None if v < 0 else bool(v) for v in values.tolist()], dtype="boolean")
    return values
