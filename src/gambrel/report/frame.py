"""The per-op table as a data frame."""

from __future__ import annotations

from typing import Any

from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import MissingExtraError


def to_dataframe(analysis: Analysis) -> Any:
    """One row an op, base SI units, unknown as missing.

    Returns:
        A ``pandas.DataFrame``.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "dataframe", "a data frame") from error
    return pd.DataFrame([_row(op) for op in analysis.ops])


def _row(op: OpResult) -> dict[str, Any]:
    m = op.measures
    return {
        "name": op.name,
        "kind": op.kind,
        "op": op.op,
        "module": op.module,
        "phase": op.phase,
        "state": op.state.value,
        "count": op.count,
        "shapes": op.shapes,
        "flops": m.flops,
        "matrix_flops": m.matrix_flops,
        "vector_flops": m.vector_flops,
        "special_ops": m.special_ops,
        "read_bytes": m.read_bytes,
        "write_bytes": m.write_bytes,
        "traffic_bytes": m.traffic_bytes,
        "arithmetic_intensity": m.arithmetic_intensity,
        "ridge_point": m.ridge_point,
        "attainable_flop_per_s": m.attainable_flop_per_s,
        "bound": m.bound.value if m.bound else None,
        "bound_time_s": m.bound_time_s,
        "time_share": m.time_share,
        "compute_utilization": m.compute_utilization,
        "memory_utilization": m.memory_utilization,
    }
