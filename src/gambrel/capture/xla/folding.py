"""Values that are known while reading: constants, iotas, masks and what is computed from them.

A value is kept with size 1 along every dimension that it does not depend on, so that a number
broadcast to a matrix stays one number and an iota one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.elements import NUMPY

#: Larger values stay tensors that a step makes. Masks may be as large as the scores they hide.
MAX_ELEMENTS: Final = 2**18
MAX_MASK: Final = 2**24
MAX_REALS: Final = 256

_Array: TypeAlias = Any

_COMPARE: Final[dict[str, Callable[..., Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _quotient(a: _Array, b: _Array) -> _Array:
    if a.dtype.kind in "iu":
        found = np.abs(a) // np.abs(b)  # towards zero
        return found * np.sign(a) * np.sign(b)
    return a / b


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _quotient,
    "remainder": np.fmod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "negate": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exponential": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "is_finite": np.isfinite,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": np.left_shift,
    "shift_right_logical": np.right_shift,
    "shift_right_arithmetic": np.right_shift,
    "select": np.where,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}


def fold_plain(
    op: str, inputs: Sequence[Edge], shape: tuple[int, ...], code: int, attrs: dict[str, Any]
) -> _Array | None:
    """The value of an element-wise operation; None where it is not known, or too large.

    Operands are scalars or have the shape of the result.
    """
    function = _COMPARE.get(str(attrs.get("direction"))) if op == "compare" else _PLAIN.get(op)
    if function is None or code not in NUMPY or any(e.value is None for e in inputs):
        return None
    values = [_lined_up(e.value, len(shape)) for e in inputs]
    if not _fits(np.broadcast_shapes(*(v.shape for v in values)), code):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*values)).astype(NUMPY[code])


def _lined_up(value: _Array, rank: int) -> _Array:
    return value.reshape((1,) * (rank - value.ndim) + value.shape)


def _fits(shape: Sequence[int], code: int) -> bool:
    limit = MAX_MASK if code == 9 else MAX_REALS if NUMPY[code][0] == "f" else MAX_ELEMENTS
    return prod(shape) <= limit


def converted(value: _Array, code: int) -> _Array | None:
    """A value in another number format."""
    if code not in NUMPY or not _fits(value.shape, code):
        return None
    with np.errstate(all="ignore"):
        return value.astype(NUMPY[code])


def iota(shape: tuple[int, ...], axis: int, code: int) -> _Array | None:
    """Numbers from 0 along an axis."""
    if code not in NUMPY or shape[axis] > MAX_ELEMENTS:
        return None
    ones = [1] * len(shape)
    ones[axis] = shape[axis]
    return np.arange(shape[axis]).astype(NUMPY[code]).reshape(ones)


def broadcast(value: _Array, shape: tuple[int, ...], dims: Sequence[int]) -> _Array:
    """A value along some dimensions of a larger shape."""
    ones = [1] * len(shape)
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    turned = value.transpose(order)
    for i, n in zip(sorted(dims), turned.shape, strict=True):
        ones[i] = n
    return turned.reshape(ones)


def reshaped(value: _Array, old: tuple[int, ...], new: tuple[int, ...]) -> _Array | None:
    """The same elements in another shape."""
    if value.size == 1:
        return value.reshape((1,) * len(new))
    if [n for n in old if n != 1] == [n for n in new if n != 1]:  # dimensions of 1 come and go
        lengths = iter([v for v, n in zip(value.shape, old, strict=True) if n != 1])
        return value.reshape([next(lengths) if n != 1 else 1 for n in new])
    if prod(old) > MAX_ELEMENTS:
        return None
    return np.broadcast_to(value, old).reshape(new)


def sliced(
    value: _Array, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> _Array:
    """A part of a value."""
    triples = zip(value.shape, starts, limits, strides, strict=True)
    return value[tuple(slice(None) if n == 1 else slice(a, b, s) for n, a, b, s in triples)]


def joined(edges: Sequence[Edge], axis: int, shape: tuple[int, ...]) -> _Array | None:
    """Values one after another."""
    if prod(shape) > MAX_REALS or any(e.value is None for e in edges):
        return None
    return np.concatenate([np.broadcast_to(e.value, e.shape or ()) for e in edges], axis)
