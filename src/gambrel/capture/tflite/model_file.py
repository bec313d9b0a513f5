"""A TFLite file opened: its tables behind a few plain accessors, with limits."""

from __future__ import annotations

import importlib
import mmap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.capture.files.archive import check_file
from gambrel.errors import FileFormatError, require

#: tflite.TensorType → onnx.TensorProto.DataType, the numbers of `capture.onnx.edges.DTYPES`.
CODES: Final[dict[int, int]] = {
    0: 1,  # float32
    1: 10,  # float16
    2: 6,  # int32
    3: 2,  # uint8
    4: 7,  # int64
    6: 9,  # bool
    7: 5,  # int16
    8: 14,  # complex64
    9: 3,  # int8
    10: 11,  # float64
    11: 15,  # complex128
    12: 13,  # uint64
    15: 12,  # uint32
    16: 4,  # uint16
    17: 22,  # int4
    18: 16,  # bfloat16
}
_NUMPY: Final[dict[int, str]] = {0: "<f4", 2: "<i4", 4: "<i8", 6: "?", 7: "<i2"}
#: More of anything than this is no model: real ones have some ten thousand tensors.
_MAX_ENTRIES: Final = 500_000
#: Constants up to this size are looked at: axes, shapes, limits of loops.
_VALUE_BYTES: Final = 8192


def open_model(path: Path) -> tuple[Any, Any]:
    """The root table of a file, and the file mapped into memory.

    Raises:
        FileFormatError: It is too short, or of another schema.
        MissingExtraError: The package tflite is not installed.
    """
    require("tflite", "tflite", "reading a .tflite file")
    size = check_file(path)
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if size < 16 or data[4:8] != b"TFL3":
        raise FileFormatError("no TFLite model of schema 3 (the bytes 'TFL3' are missing).")
    root = importlib.import_module("tflite.Model").Model.GetRootAs(data, 0)
    return root, data


def entries(get: Callable[[int], Any], count: int) -> Iterator[Any]:
    """The entries of a vector.

    Raises:
        FileFormatError: More than any model has.
    """
    if not 0 <= count <= _MAX_ENTRIES:
        raise FileFormatError(f"a list of {count:,} entries; refused.")
    return (get(i) for i in range(count))


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The sizes of a tensor as the file has them."""
    return tuple(int(n) for n in entries(tensor.Shape, tensor.ShapeLength()))


def text_of(raw: bytes | None) -> str:
    """Text as far as it is text."""
    return (raw or b"").decode("utf-8", "replace")[:500]


def value_of(tensor: Any, buffer: Any) -> Any:
    """The elements of a small constant; None for others."""
    kind = _NUMPY.get(tensor.Type())
    length = buffer.DataLength()
    if kind is None or not 0 < length <= _VALUE_BYTES:
        return None
    try:
        return np.frombuffer(bytes(buffer.DataAsNumpy()), kind).reshape(shape_of(tensor))
    except ValueError:  # a length that contradicts the sizes
        return None


def options_of(operator: Any) -> dict[str, Any]:
    """The options of an operator by their names in the schema: numbers and texts."""
    found: dict[str, Any] = {}
    for second in (False, True):
        kind = operator.BuiltinOptions2Type() if second else operator.BuiltinOptionsType()
        table = operator.BuiltinOptions2() if second else operator.BuiltinOptions()
        name = _option_names(second).get(kind)
        if name is None or table is None:
            continue
        record, getters = _getters(name)
        record.Init(table.Bytes, table.Pos)
        for getter in getters:
            value = getattr(record, getter)()
            found[getter] = text_of(value) if isinstance(value, bytes) else value
    return found


def operator_names() -> dict[int, str]:
    """Number of a builtin operator → its name."""
    return _names("BuiltinOperator", "BuiltinOperator")


@cache
def _names(module: str, enum: str) -> dict[int, str]:
    holder = getattr(importlib.import_module(f"tflite.{module}"), enum)
    return {v: k for k, v in vars(holder).items() if isinstance(v, int)}


def _option_names(second: bool) -> dict[int, str]:
    enum = "BuiltinOptions2" if second else "BuiltinOptions"
    return {k: v for k, v in _names(enum, enum).items() if v != "NONE"}


def _getters(name: str) -> tuple[Any, tuple[str, ...]]:
    kind = getattr(importlib.import_module(f"tflite.{name}"), name)
    return kind(), _scalars(kind)


@cache
def _scalars(kind: Any) -> tuple[str, ...]:
    """Accessors of one table that take no position: its numbers and texts."""
    skipped = ("Length", "IsNone", "AsNumpy", "Init")
    return tuple(
        name
        for name, member in vars(kind).items()
        if name[0].isupper()
        and not name.endswith(skipped)
        and hasattr(member, "__code__")
        and member.__code__.co_argcount == 1
    )
