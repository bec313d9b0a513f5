"""The history of a gate's metrics: JSON lines, or Parquet where its name ends so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gambrel.advise.gate.records import GateMetric, Trend, TrendPoint
from gambrel.errors import FileFormatError, require
from gambrel.fileio import read_bytes, replace_file

_LARGEST = 256 << 20


def append(path: Path, metrics: Sequence[GateMetric], recorded: str, note: str) -> None:
    """Adds the medians of some metrics; the file appears complete or stays as it was."""
    known = read(path).points if path.exists() else ()
    points = [
        TrendPoint(
            recorded=recorded,
            note=note,
            metric=metric.name,
            unit=metric.unit,
            sample=float(np.median(metric.samples)),
        )
        for metric in metrics
        if metric.finite
    ]
    everything = [*known, *points]
    if path.suffix == ".parquet":
        _write_parquet(path, everything)
        return
    replace_file(path, b"".join(msgspec.json.encode(p) + b"\n" for p in everything))


def read(path: Path) -> Trend:
    """A history.

    Raises:
        FileFormatError: The file is none.
    """
    if path.suffix == ".parquet":
        rows: list[Any] = _read_parquet(path)
    else:
        content = read_bytes(path, _LARGEST, "a history")
        try:
            rows = [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
        except msgspec.DecodeError as error:
            raise FileFormatError(f"{path} is no history: {error}.") from None
    try:
        points = tuple(msgspec.convert(row, TrendPoint) for row in rows)
    except msgspec.ValidationError as error:
        raise FileFormatError(f"{path} is no history: {error}.") from None
    if not points:
        raise FileFormatError(f"{path} is an empty history.")
    return Trend(file=str(path), points=points)


def _write_parquet(path: Path, points: Sequence[TrendPoint]) -> None:
    require("pyarrow", "sweep", "writing Parquet")
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([msgspec.to_builtins(point) for point in points])
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    replace_file(path, buffer.getvalue())


def _read_parquet(path: Path) -> list[Any]:
    require("pyarrow", "sweep", "reading Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[Any] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise FileFormatError(f"{path} is no Parquet file: {error}") from None
    return rows
