"""Example inputs as people write them: ``1x3x224x224``, ``input_ids:1x128:int64``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gambrel.dtypes import parse_dtype
from gambrel.errors import InputError, UnknownNameError, shown

_SHAPE: Final = re.compile(r"\s*(?:scalar|[0-9]+(?:\s*[x×,]\s*[0-9]+)*)\s*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
#: No dimension and no number of dimensions is larger.
_LARGEST: Final = 10**9
_MOST_DIMENSIONS: Final = 64
_FORM: Final = "write [NAME:]SHAPE[:DTYPE], e.g. 1x3x224x224 or input_ids:1x128:int64"


class ExampleInput(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor that a model is called with.

    Attributes:
        shape: Sizes; ``()`` is a scalar.
        dtype: A name of `gambrel.dtypes`; empty for the model's own floating format.
        name: Of the keyword argument; empty for a positional one.
    """

    shape: tuple[int, ...]
    dtype: str = ""
    name: str = ""


def parse_input(value: str | Sequence[int] | ExampleInput, label: str = "--input") -> ExampleInput:
    """Reads one example input.

    Args:
        value: ``[NAME:]SHAPE[:DTYPE]``, or a shape.
        label: What the user calls it, for messages.

    Raises:
        InputError: It has another form, or a dimension that is no size.
    """
    if isinstance(value, ExampleInput):
        return value
    if isinstance(value, str):
        return _of_text(value, label)
    if not isinstance(value, Sequence):
        raise InputError(f"{label}: a {type(value).__name__} is no example input; {_FORM}.")
    return ExampleInput(shape=_shape(value, label))


def _of_text(text: str, label: str) -> ExampleInput:
    parts = text.split(":")
    at = next((i for i, part in enumerate(parts) if _SHAPE.fullmatch(part)), None)
    if at is None or at > 1 or len(parts) > at + 2:
        raise InputError(f"{label} {shown(text)} is no example input; {_FORM}.")
    name = parts[0].strip() if at else ""
    if at and not _NAME.fullmatch(name):
        raise InputError(f"{label}: {shown(name)} is no name of an argument; {_FORM}.")
    sizes = parts[at].strip()
    shape = () if sizes == "scalar" else _shape(re.split(r"[x×,]", sizes), label)
    dtype = parts[at + 1] if len(parts) > at + 1 else ""
    return ExampleInput(shape=shape, dtype=_dtype(dtype, label), name=name)


def _dtype(text: str, label: str) -> str:
    try:
        return parse_dtype(text) if text.strip() else ""
    except UnknownNameError as error:
        raise InputError(f"{label}: {error}") from None


def _shape(sizes: Sequence[Any], label: str) -> tuple[int, ...]:
    if len(sizes) > _MOST_DIMENSIONS:
        raise InputError(f"{label}: {len(sizes)} dimensions are more than any tensor has; {_FORM}.")
    return tuple(_size(n, label) for n in sizes)


def _size(value: Any, label: str) -> int:
    digits = isinstance(value, str) and value.strip().isdecimal() and len(value) < 20
    found = int(value) if digits else value
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= _LARGEST:
        raise InputError(f"{label}: {shown(value)} is no size from 1 to {_LARGEST:,}; {_FORM}.")
    return found
