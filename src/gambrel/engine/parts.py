"""Partitions as files: Parquet where pyarrow is asked for, else numpy's own archive."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.engine.tables import FLAG, NUMBER, TEXT, WHOLE, DataField, PointTable, Words
from gambrel.errors import FileFormatError, require

PARQUET, ARRAYS = "parquet", "npz"
#: Numbers that hardly repeat: their bytes by place, and the steps from one to the next, are what
#: zstd makes small (https://parquet.apache.org/docs/file-format/data-pages/encodings/).
_ENCODINGS: Final = {NUMBER: "BYTE_STREAM_SPLIT", WHOLE: "DELTA_BINARY_PACKED"}
#: Under this name the files say what they hold.
KEY: Final = "gambrel"


def need_parquet() -> None:
    """Refuses Parquet before any work where pyarrow is missing."""
    require("pyarrow", "sweep", "a Parquet file")


def encoded(
    table: PointTable, fields: Sequence[DataField], note: dict[str, Any], form: str
) -> bytes:
    """A table as the content of a file; the same table gives the same bytes.

    Args:
        table: The columns.
        fields: Their kinds and units.
        note: Of the whole file, stored beside the units.
        form: `PARQUET` or `ARRAYS`.
    """
    return _parquet(table, fields, note) if form == PARQUET else _arrays(table, fields, note)


def arrow_schema(fields: Iterable[DataField], note: dict[str, Any]) -> Any:
    """The Arrow schema; each column's metadata has its unit, the whole's the note."""
    import pyarrow as pa

    types = {
        TEXT: pa.dictionary(pa.int32(), pa.string()),
        WHOLE: pa.int64(),
        FLAG: pa.bool_(),
    }
    columns = [
        pa.field(
            f.name,
            types.get(f.kind, pa.float64()),
            metadata={b"unit": f.unit.encode()} if f.unit else None,
        )
        for f in fields
    ]
    return pa.schema(columns, metadata={KEY: json.dumps(note, sort_keys=True)})


def arrow_table(table: PointTable, fields: Sequence[DataField], note: dict[str, Any]) -> Any:
    """A table as an Arrow table; what is unknown is null."""
    import pyarrow as pa

    schema = arrow_schema(fields, note)
    columns = [
        _arrow_column(table[f.name], kind.type) for f, kind in zip(fields, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _arrow_column(values: Any, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, Words):
        return pa.DictionaryArray.from_arrays(pa.array(values.codes), pa.array(values.names))
    if pa.types.is_boolean(kind):
        return pa.array(values == 1, mask=values < 0)
    if pa.types.is_floating(kind):
        return pa.array(values, mask=np.isnan(values))
    return pa.array(values)


def _parquet(table: PointTable, fields: Sequence[DataField], note: dict[str, Any]) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(
        arrow_table(table, fields, note),
        out,
        compression="zstd",
        use_dictionary=[f.name for f in fields if f.kind == TEXT],
        column_encoding={f.name: _ENCODINGS[f.kind] for f in fields if f.kind in _ENCODINGS},
    )
    return out.getvalue()


def _arrays(table: PointTable, fields: Sequence[DataField], note: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    names = {f.name: table[f.name] for f in fields}
    words = {n: list(v.names) for n, v in names.items() if isinstance(v, Words)}
    said = json.dumps({"note": note, "words": words}, sort_keys=True).encode()
    columns = {n: v.codes if isinstance(v, Words) else v for n, v in names.items()}
    arrays: dict[str, Any] = {KEY: np.frombuffer(said, np.uint8), **columns}
    np.savez(out, **arrays)
    return out.getvalue()


def read(path: Path, fields: Sequence[DataField]) -> tuple[PointTable, dict[str, Any]]:
    """A partition and what its file says of it.

    Raises:
        FileFormatError: The file is truncated, or of another kind.
    """
    try:
        return _read_parquet(path, fields) if path.suffix == ".parquet" else _read_arrays(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise FileFormatError(f"{path} is not a whole partition: {error}.") from None


def note_of(path: Path) -> dict[str, Any]:
    """What a partition's file says of it; of Parquet only the end of the file is read.

    Raises:
        FileFormatError: As `read`.
    """
    if path.suffix != ".parquet":
        return read(path, ())[1]
    import pyarrow.parquet as pq

    try:
        schema = pq.read_metadata(path)
        return {**json.loads((schema.metadata or {})[KEY.encode()]), "rows": schema.num_rows}
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(f"{path} is not a whole partition: {error}.") from None


def _read_arrays(path: Path) -> tuple[PointTable, dict[str, Any]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        said = json.loads(archive[KEY].tobytes())
        columns: PointTable = {}
        for name in archive.files:
            if name != KEY:
                own = said["words"].get(name)
                columns[name] = archive[name] if own is None else Words(archive[name], tuple(own))
    return columns, said["note"]


def _read_parquet(path: Path, fields: Sequence[DataField]) -> tuple[PointTable, dict[str, Any]]:
    import pyarrow.parquet as pq

    found = pq.read_table(path)
    note = json.loads(found.schema.metadata[KEY.encode()])
    return {f.name: _column(found.column(f.name), f.kind) for f in fields}, note


def _column(column: Any, kind: str) -> Any:
    if kind == TEXT:
        whole = column.combine_chunks()
        whole = whole.chunk(0) if hasattr(whole, "num_chunks") and whole.num_chunks else whole
        return Words(np.asarray(whole.indices, dtype=np.int32), tuple(whole.dictionary.to_pylist()))
    if kind == FLAG:
        return np.array([-1 if v is None else int(v) for v in column.to_pylist()], dtype=np.int8)
    if kind == WHOLE:
        return np.asarray(column.to_numpy(), dtype=np.int64)
    return np.asarray(column.to_numpy(), dtype=np.float64)
