"""The figures of a fleet as Parquet: one row for each figure of each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gambrel.engine.parts import PARQUET, encoded, need_parquet
from gambrel.engine.tables import NUMBER, TEXT, DataField, PointTable, words

if TYPE_CHECKING:
    from gambrel.measure.fleet.records import FleetReport

_TEXTS: Final = ("worker", "host", "device", "sku")
_FIELDS: Final = (
    *(DataField(name=name, kind=TEXT) for name in (*_TEXTS, "figure", "unit", "suspect")),
    DataField(name="value", kind=NUMBER, unit="as 'unit' beside it"),
    DataField(name="spread", kind=NUMBER, unit="1"),
)


def parquet(report: FleetReport) -> bytes:
    """The content of the file.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    need_parquet()
    every = [(one, figure) for one in report.checkups for figure in one.figures]
    causes = {(s.worker, s.device): s.cause for s in report.suspects}
    table: PointTable = {
        **{name: words([getattr(one, name) for one, _ in every]) for name in _TEXTS},
        "figure": words([figure.name for _, figure in every]),
        "unit": words([figure.unit for _, figure in every]),
        "suspect": words([causes.get((one.worker, one.device), "") for one, _ in every]),
        "value": np.array([figure.value for _, figure in every], dtype=float),
        "spread": np.array([figure.spread for _, figure in every], dtype=float),
    }
    return encoded(table, _FIELDS, {"date": report.date, "rows": len(every)}, PARQUET)
