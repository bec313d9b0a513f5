"""The per-op table as a data frame."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import MissingExtraError

#: Columns, in order: attributes of the op, then of its measures.
_OF_OP: Final = ("name", "kind", "op", "module", "phase", "state", "count", "shapes")
_OF_MEASURES: Final = (
    "flops",
    "matrix_flops",
    "vector_flops",
    "special_ops",
    "read_bytes",
    "write_bytes",
    "traffic_bytes",
    "arithmetic_intensity",
    "ridge_point",
    "attainable_flop_per_s",
    "bound",
    "roofline_time_s",
    "time_share",
    "compute_utilization",
    "memory_utilization",
)
#: Column → attribute of the estimate.
_OF_ESTIMATE: Final = {
    "expected_time_s": "value",
    "expected_low_s": "low",
    "expected_high_s": "high",
    "confidence": "confidence",
}


def to_dataframe(analysis: Analysis) -> Any:
    """One row an op, base SI units, unknown as missing.

    Returns:
        A ``pandas.DataFrame``; without ops it has its columns all the same.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "dataframe", "a data frame") from error
    return pd.DataFrame(map(_row, analysis.ops), columns=[*_OF_OP, *_OF_MEASURES, *_OF_ESTIMATE])


def _row(op: OpResult) -> list[Any]:
    found = [getattr(op, name) for name in _OF_OP]
    found += [getattr(op.measures, name) for name in _OF_MEASURES]
    expected = op.measures.expected_time_s
    found += [getattr(expected, name, None) for name in _OF_ESTIMATE.values()]
    return [value.value if isinstance(value, Enum) else value for value in found]
