"""Workloads as small files: versioned JSON, compressed, the same bytes for the same workload.

The layout is columnar. What recurs (op templates, tensor templates, paths, names) is stored once
in a table and named by its index; a tensor index is stored relative to the number of tensors met
before that op. So every layer of a deep network becomes the same short run of numbers, which the
compressor then folds. Nothing is lost: ``loads(dumps(w)) == w``.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from gambrel.errors import FileFormatError, WorkloadError
from gambrel.fileio import path_of, read_bytes, replace_file
from gambrel.workload.model import SCHEMA_VERSION, Op, Phase, Role, Tensor, Workload
from gambrel.workload.symbols import Dim, Symbol

#: What the first key of every file says.
FORMAT: Final = "gambrel-workload"

#: Largest file and largest decompressed text that are read. A 10,000-op model needs 2 MB of text;
#: a file that asks for more than this is broken or hostile.
MAX_FILE_BYTES: Final = 8 * 2**20
MAX_TEXT_BYTES: Final = 32 * 2**20

#: No model repeats a layer more often.
_MAX_COPIES: Final = 2**20

_GZIP_MAGIC: Final = b"\x1f\x8b"

#: JSON has no infinity and no NaN: these are written ``{"float": "inf"}``.
_Value: TypeAlias = bool | int | float | str | dict[str, str]
_K = TypeVar("_K", bound=Hashable)


class _TensorTemplate(msgspec.Struct, frozen=True, array_like=True):
    shape: tuple[Dim, ...]
    dtype: str
    role: Role
    elements: Dim | None
    copies: int = 1  # absent in files of repeated layers written out


class _OpTemplate(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    name: str
    sizes: dict[str, Dim | tuple[Dim, ...]]
    attrs: dict[str, _Value]
    phase: Phase
    repeat: int


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    schema_version: int
    name: str
    dtype: str
    training: bool
    origin: str
    chosen_dtype: bool
    assumptions: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    outputs: tuple[int, ...]
    texts: list[str]
    tensor_templates: list[_TensorTemplate]
    tensor_template: list[int]
    tensor_storage: list[int]
    tensor_offset: list[Dim]
    tensor_version: list[int]
    tensor_name: list[int]
    op_templates: list[_OpTemplate]
    op_template: list[int]
    op_module: list[int]
    op_source: list[int]
    op_inputs: list[list[int]]
    op_outputs: list[list[int]]
    op_labels: list[list[int]] = []
    asked_dtype: bool = False
    precisions: str = ""
    recorded_dtype: str = ""
    recipe: str = ""


class _Head(msgspec.Struct):
    format: str = ""
    schema_version: int = 0


class _InconsistentError(Exception):
    """A file whose parts contradict each other."""


def dumps(workload: Workload) -> bytes:
    """The compressed file of a workload; equal workloads give equal bytes.

    Raises:
        WorkloadError: An op refers to a tensor that the workload does not have.
    """
    text = msgspec.json.encode(_to_file(workload), order="deterministic")
    return gzip.compress(text, compresslevel=9, mtime=0)


def loads(data: bytes, source: str = "workload") -> Workload:
    """Reads a workload from the bytes of a file, compressed or plain JSON.

    Args:
        data: The whole file.
        source: What messages call it.

    Raises:
        FileFormatError: Truncated, of another type or version, too large, or inconsistent.
    """
    text = _decompress(data, source) if data[:2] == _GZIP_MAGIC else data
    try:
        head = msgspec.json.decode(text, type=_Head)
        _check_head(head, source)
        return _from_file(msgspec.json.decode(text, type=_File))
    except msgspec.DecodeError as error:
        raise FileFormatError(f"{source} is no gambrel workload file: {error}.") from None
    except _InconsistentError as error:
        raise FileFormatError(f"{source} is broken: {error}.") from None


def save_workload(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Writes a workload to ``path``; an interrupted write leaves no half-written file."""
    replace_file(Path(path), dumps(workload))


def load_workload(path: str | os.PathLike[str]) -> Workload:
    """Reads the workload that `save_workload` wrote to ``path``.

    Raises:
        FileFormatError: The file is missing, unreadable, or no workload file.
    """
    source = path_of(path)
    return loads(read_bytes(source, MAX_FILE_BYTES, "a workload file"), str(source))


def _decompress(data: bytes, source: str) -> bytes:
    machine = zlib.decompressobj(wbits=31)  # 16 + 15: a gzip header, the largest window
    try:
        text = machine.decompress(data, MAX_TEXT_BYTES)
    except zlib.error as error:
        raise FileFormatError(f"{source} is broken: {error}.") from None
    if machine.unconsumed_tail:
        raise FileFormatError(f"{source} expands to more than {MAX_TEXT_BYTES:,} bytes.")
    if not machine.eof:
        raise FileFormatError(f"{source} is truncated.")
    return text


def _check_head(head: _Head, source: str) -> None:
    if head.format != FORMAT:
        raise FileFormatError(
            f"{source} is no gambrel workload file: its format is not {FORMAT!r}."
        )
    if head.schema_version != SCHEMA_VERSION:
        raise FileFormatError(
            f"{source} has schema version {head.schema_version}; this gambrel reads version "
            f"{SCHEMA_VERSION}. Capture the model again, or install the matching gambrel."
        )


class _Table(Generic[_K]):
    """Distinct values in order of first use."""

    def __init__(self) -> None:
        self.index: dict[Any, int] = {}
        self.values: list[_K] = []

    def add(self, value: _K, key: Any = None) -> int:
        key = value if key is None else key
        if key not in self.index:
            self.index[key] = len(self.values)
            self.values.append(value)
        return self.index[key]


def _to_file(w: Workload) -> _File:
    texts: _Table[str] = _Table()
    tensor_table: _Table[_TensorTemplate] = _Table()
    op_table: _Table[_OpTemplate] = _Table()
    bases = list(_bases([(*op.inputs, *op.outputs) for op in w.ops], len(w.tensors)))
    return _File(
        format=FORMAT,
        schema_version=w.schema_version,
        name=w.name,
        dtype=w.dtype,
        training=w.training,
        origin=w.origin,
        asked_dtype=w.asked_dtype,
        chosen_dtype=w.chosen_dtype,
        precisions=w.precisions,
        recorded_dtype=w.recorded_dtype,
        recipe=w.recipe,
        assumptions=w.assumptions,
        symbols=w.symbols,
        outputs=w.outputs,
        tensor_template=[tensor_table.add(_tensor_template(t)) for t in w.tensors],
        tensor_storage=_differences([t.storage for t in w.tensors]),
        tensor_offset=[t.offset for t in w.tensors],
        tensor_version=[t.version for t in w.tensors],
        tensor_name=[texts.add(t.name) for t in w.tensors],
        op_template=[op_table.add(_op_template(o), _op_key(o)) for o in w.ops],
        op_module=[texts.add(o.module) for o in w.ops],
        op_source=[texts.add(o.source) for o in w.ops],
        op_labels=[[texts.add(label) for label in o.labels] for o in w.ops],
        op_inputs=[[i - b for i in o.inputs] for o, b in zip(w.ops, bases, strict=True)],
        op_outputs=[[i - b for i in o.outputs] for o, b in zip(w.ops, bases, strict=True)],
        texts=texts.values,
        tensor_templates=tensor_table.values,
        op_templates=op_table.values,
    )


def _from_file(f: _File) -> Workload:
    _check_indices(f.tensor_template, len(f.tensor_templates), "tensor template")
    _check_indices(f.op_template, len(f.op_templates), "op template")
    for column in (f.tensor_name, f.op_module, f.op_source, *f.op_labels):
        _check_indices(column, len(f.texts), "text")
    tensors = tuple(_tensors(f))
    _check_indices(f.outputs, len(tensors), "tensor")
    return Workload(
        name=f.name,
        dtype=f.dtype,
        tensors=tensors,
        ops=tuple(_ops(f, len(tensors))),
        outputs=f.outputs,
        symbols=f.symbols,
        training=f.training,
        origin=f.origin,
        asked_dtype=f.asked_dtype,
        chosen_dtype=f.chosen_dtype,
        precisions=f.precisions,
        recorded_dtype=f.recorded_dtype,
        recipe=f.recipe,
        assumptions=f.assumptions,
        schema_version=f.schema_version,
    )


def _tensors(f: _File) -> Iterator[Tensor]:
    storage = 0
    columns = (
        f.tensor_template,
        f.tensor_storage,
        f.tensor_offset,
        f.tensor_version,
        f.tensor_name,
    )
    for template, step, offset, version, name in _rows(columns):
        storage += step
        t = f.tensor_templates[template]
        yield Tensor(
            shape=t.shape,
            dtype=t.dtype,
            storage=storage,
            offset=offset,
            elements=t.elements,
            version=version,
            role=t.role,
            name=f.texts[name],
            copies=_checked_copies(t.copies),
        )


def _ops(f: _File, tensors: int) -> Iterator[Op]:
    attrs = [{k: _read_value(v) for k, v in t.attrs.items()} for t in f.op_templates]
    labels = f.op_labels or [[]] * len(f.op_template)  # files of before have none
    columns = (f.op_template, f.op_module, f.op_source, labels, f.op_inputs, f.op_outputs)
    met = lowest = 0
    for template, module, source, called, inputs, outputs in _rows(columns):
        t = f.op_templates[template]
        reads = tuple([met + i for i in inputs])
        writes = tuple([met + i for i in outputs])
        if reads or writes:
            both = reads + writes
            lowest = min(lowest, *both)
            met = max(met, max(both) + 1)
            if lowest < 0 or met > tensors:
                raise _InconsistentError("it refers to a tensor that it does not have")
        yield Op(
            kind=t.kind,
            inputs=reads,
            outputs=writes,
            sizes=t.sizes,
            attrs=attrs[template],
            name=t.name,
            module=f.texts[module],
            source=f.texts[source],
            phase=t.phase,
            repeat=t.repeat,
            labels=tuple([f.texts[label] for label in called]),
        )


def _rows(columns: tuple[list[Any], ...]) -> Iterator[tuple[Any, ...]]:
    if len({len(c) for c in columns}) > 1:
        raise _InconsistentError("its columns differ in length")
    return zip(*columns, strict=True)


def _bases(refers: Iterable[tuple[int, ...]], tensors: int) -> Iterator[int]:
    """For each op, the number of tensors met before it (one more than the largest index)."""
    met = 0
    for indices in refers:
        yield met
        if indices:
            if min(indices) < 0 or max(indices) >= tensors:
                raise WorkloadError(f"an op refers to tensor {max(indices)} of {tensors}.")
            met = max(met, max(indices) + 1)


def _check_indices(indices: Sequence[int], count: int, what: str) -> None:
    if indices and not (min(indices) >= 0 and max(indices) < count):
        raise _InconsistentError(f"it refers to a {what} that it does not have")


def _differences(values: list[int]) -> list[int]:
    return [b - a for a, b in zip([0, *values], values, strict=False)]


def _checked_copies(copies: int) -> int:
    if not 1 <= copies <= _MAX_COPIES:
        raise _InconsistentError(f"a tensor has {copies} copies")
    return copies


def _tensor_template(t: Tensor) -> _TensorTemplate:
    return _TensorTemplate(t.shape, t.dtype, t.role, t.elements, t.copies)


def _op_template(o: Op) -> _OpTemplate:
    attrs = {k: _write_value(v) for k, v in o.attrs.items()}
    return _OpTemplate(o.kind, o.name, o.sizes, attrs, o.phase, o.repeat)


def _op_key(o: Op) -> Hashable:
    # The type belongs to the key: 1, 1.0 and True are equal but not the same.
    attrs = frozenset((k, type(v).__name__, repr(v)) for k, v in o.attrs.items())
    return (o.kind, o.name, frozenset(o.sizes.items()), attrs, o.phase, o.repeat)


def _write_value(value: bool | int | float | str) -> _Value:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _read_value(value: _Value) -> bool | int | float | str:
    if not isinstance(value, dict):
        return value
    text = value.get("float")
    if text not in ("inf", "-inf", "nan"):
        raise _InconsistentError(f"{value} is no number")
    return float(text)
