"""Arithmetic on shapes and small constants, evaluated with numpy as the operators define it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from gambrel.capture.files.archive import check_file
from gambrel.capture.onnx.edges import Edge, FileRange, Step
from gambrel.errors import FileFormatError
from gambrel.workload import Role

#: Larger results stay tensors that a step makes. Masks and indices are worth knowing, real numbers
#: only as scalars and the like: what a model computes with them is its work.
MAX_INTEGERS: Final = 2**18
MAX_REALS: Final = 256
#: Bytes of the largest stored tensor whose values are read: a mask of 4,096 tokens.
_MAX_READ: Final = 2**26
#: Ops whose result can be larger than their operands: checked before they are evaluated.
_GROWING: Final = frozenset({"Expand", "Tile", "ConstantOfShape", "Range", "Pad"})

_Array: TypeAlias = Any
_Fold: TypeAlias = Callable[[Step, Sequence[Any]], Any]

#: numpy type → onnx.TensorProto.DataType
CODES: Final[dict[str, int]] = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
}
_TYPES: Final = {code: np.dtype(name) for name, code in CODES.items()}


def array_of_bytes(data: bytes, edge: Edge) -> _Array | None:
    """The elements of a stored tensor, little-endian; None where bytes and form disagree."""
    kind = _TYPES.get(edge.code)
    if kind is None or edge.shape is None or len(data) != edge.numel * kind.itemsize:
        return None
    return np.frombuffer(data, kind).reshape(edge.shape)


def read_range(path: Path, edge: Edge) -> _Array | None:
    """The elements of a tensor that lies in a range of a file; None where there is none."""
    place = edge.place
    if not isinstance(place, FileRange) or place.end - place.begin > _MAX_READ:
        return None
    try:
        check_file(path)
        with path.open("rb") as file:
            file.seek(place.begin)
            return array_of_bytes(file.read(place.end - place.begin), edge)
    except (OSError, ValueError, FileFormatError):
        return None


def constant(name: str, value: _Array) -> Edge:
    """An edge of a known value."""
    code = CODES[value.dtype.name]
    return Edge(name, tuple(value.shape), code, value, Role.CONSTANT)


def fold(step: Step, largest: int = 0) -> list[_Array] | None:
    """The values of a step's outputs; None where they are not known or too many.

    Args:
        step: With its inputs; its outputs need no form yet.
        largest: How many elements a result may have, where that is more than by default.
    """
    if step.op in ("Shape", "Size"):
        return _form(step)
    function = _FOLDS.get(step.op)
    if function is None or not all(e is None or _is_foldable(e) for e in step.inputs):
        return None
    values = [None if e is None else e.value for e in step.inputs]
    try:
        if step.op in _GROWING and _grown(step, values) > max(MAX_INTEGERS, largest):
            return None
        with np.errstate(all="ignore"):
            found = function(step, values)
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError, AttributeError):
        return None
    results = [np.asarray(a) for a in (found if isinstance(found, list) else [found])]
    return results if all(_is_small(result, largest) for result in results) else None


def axis_list(value: Any) -> list[int]:
    """Axes or sizes of an attribute or an input: one number or several."""
    return [int(v) for v in np.atleast_1d(np.asarray(value))]


def _is_foldable(edge: Edge) -> bool:
    return edge.value is not None and edge.role is not Role.WEIGHT


def _is_small(array: _Array, largest: int) -> bool:
    if array.dtype.name not in CODES:
        return False
    return bool(array.size <= max(MAX_REALS if array.dtype.kind == "f" else MAX_INTEGERS, largest))


def _form(step: Step) -> list[_Array] | None:
    shape = step.x().shape
    if shape is None:
        return None
    if step.op == "Size":
        return [np.asarray(math.prod(shape), np.int64)]
    start, end = int(step.attrs.get("start", 0)), step.attrs.get("end")
    return [np.asarray(shape[start : None if end is None else int(end)], np.int64)]


def _grown(step: Step, values: Sequence[Any]) -> float:
    """About how many elements a result will have."""
    if step.op == "Range":
        start, limit, delta = (float(v.reshape(-1)[0]) for v in values[:3])
        return abs((limit - start) / delta) if delta else math.inf
    if step.op == "ConstantOfShape":
        return math.prod(axis_list(values[0]))
    if step.op == "Pad":
        pads = step.attrs.get("pads") or axis_list(values[1])
        return float(math.prod(n + sum(map(abs, pads)) for n in values[0].shape))
    factors = axis_list(values[1])
    if step.op == "Tile":
        return float(values[0].size * math.prod(factors))
    return float(values[0].size * math.prod(max(f, 1) for f in factors))


def _axes(step: Step, values: Sequence[Any], position: int) -> tuple[int, ...] | None:
    """Axes of an attribute, or of an input in newer operator sets."""
    if len(values) > position and values[position] is not None:
        return tuple(axis_list(values[position]))
    given = step.attrs.get("axes")
    return None if given is None else tuple(axis_list(given))


def _reduced(function: Callable[..., Any]) -> _Fold:
    def run(step: Step, v: Sequence[Any]) -> Any:
        axes = _axes(step, v, 1)
        if not axes and step.attrs.get("noop_with_empty_axes"):
            return v[0]
        keep = bool(step.attrs.get("keepdims", 1))
        return function(v[0], axis=axes or None, keepdims=keep).astype(v[0].dtype)

    return run


def _plain(function: Callable[..., Any]) -> _Fold:
    def run(_: Step, v: Sequence[Any]) -> Any:
        found = np.asarray(function(*v))
        return found if found.dtype.kind == "b" else found.astype(v[0].dtype)

    return run


def _divide(_: Step, v: Sequence[Any]) -> Any:
    a, b = v
    if a.dtype.kind == "f":
        return (a / b).astype(a.dtype)
    quotient = np.abs(a) // np.abs(b)  # towards zero, as ONNX divides integers
    return (quotient * np.sign(a) * np.sign(b)).astype(a.dtype)


def _cast(step: Step, v: Sequence[Any]) -> Any:
    return v[0].astype(_TYPES[int(step.attrs["to"])])


def _unsqueeze(step: Step, v: Sequence[Any]) -> Any:
    axes = _axes(step, v, 1) or ()
    return np.expand_dims(v[0], axes) if axes else v[0]


def _squeeze(step: Step, v: Sequence[Any]) -> Any:
    return np.squeeze(v[0], _axes(step, v, 1))


def _reshape(step: Step, v: Sequence[Any]) -> Any:
    wanted = axis_list(v[1]) if len(v) > 1 and v[1].size else list(step.attrs.get("shape", ()))
    if not step.attrs.get("allowzero"):
        wanted = [v[0].shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return v[0].reshape(wanted)


def _slice(step: Step, v: Sequence[Any]) -> Any:
    def given(position: int, name: str) -> list[int] | None:
        if len(v) > position and v[position] is not None:
            return axis_list(v[position])
        return None if name not in step.attrs else axis_list(step.attrs[name])

    starts, ends = given(1, "starts") or [], given(2, "ends") or []
    axes = given(3, "axes") or list(range(len(starts)))
    steps = given(4, "steps") or [1] * len(starts)
    places = [slice(None)] * v[0].ndim
    for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
        stop = None if stride < 0 and end < -v[0].shape[axis] else end
        places[axis] = slice(start, stop, stride)
    return v[0][tuple(places)]


def _split(step: Step, v: Sequence[Any]) -> Any:
    axis, count = int(step.attrs.get("axis", 0)), len(step.outputs)
    sizes = axis_list(v[1]) if len(v) > 1 and v[1] is not None else step.attrs.get("split")
    if sizes is None:
        each = -(-v[0].shape[axis] // count)
        sizes = [each] * count
    return list(np.split(v[0], np.cumsum(sizes)[:-1], axis))


def _pad(step: Step, v: Sequence[Any]) -> Any:
    pads = axis_list(v[1]) if len(v) > 1 and v[1] is not None else list(step.attrs["pads"])
    if step.attrs.get("mode", "constant") != "constant" or (len(v) > 3 and v[3] is not None):
        raise ValueError("a padding that is not constant")
    half = len(pads) // 2
    fill = v[2].reshape(-1)[0] if len(v) > 2 and v[2] is not None and v[2].size else 0
    return np.pad(v[0], list(zip(pads[:half], pads[half:], strict=True)), constant_values=fill)


def _filled(step: Step, v: Sequence[Any]) -> Any:
    value = step.attrs.get("value")
    fill = np.zeros(1, np.float32) if value is None else value
    return np.full(axis_list(v[0]), fill.reshape(-1)[0], fill.dtype)


def _trilu(step: Step, v: Sequence[Any]) -> Any:
    k = int(v[1].reshape(-1)[0]) if len(v) > 1 and v[1] is not None else 0
    return np.triu(v[0], k) if step.attrs.get("upper", 1) else np.tril(v[0], k)


def _scatter_nd(step: Step, v: Sequence[Any]) -> Any:
    if step.attrs.get("reduction", "none") != "none":
        raise ValueError("a scatter that accumulates")
    found = v[0].copy()
    found[tuple(np.moveaxis(v[1], -1, 0))] = v[2]
    return found


def _gather_nd(step: Step, v: Sequence[Any]) -> Any:
    if step.attrs.get("batch_dims", 0):
        raise ValueError("batched")
    return v[0][tuple(np.moveaxis(v[1], -1, 0))]


def _cumulative(step: Step, v: Sequence[Any]) -> Any:
    if step.attrs.get("reverse") or step.attrs.get("exclusive"):
        raise ValueError("of another form")
    return np.cumsum(v[0], int(v[1].reshape(-1)[0])).astype(v[0].dtype)


def _modulo(step: Step, v: Sequence[Any]) -> Any:
    return np.fmod(v[0], v[1]) if step.attrs.get("fmod") else np.mod(v[0], v[1])


def _variadic(function: Callable[..., Any]) -> _Fold:
    def run(_: Step, v: Sequence[Any]) -> Any:
        found = v[0]
        for other in v[1:]:
            found = function(found, other)
        return found.astype(v[0].dtype)

    return run


def _clip(step: Step, v: Sequence[Any]) -> Any:
    low = v[1] if len(v) > 1 else step.attrs.get("min")
    high = v[2] if len(v) > 2 else step.attrs.get("max")
    return np.clip(v[0], low, high).astype(v[0].dtype)


_FOLDS: Final[dict[str, _Fold]] = {
    "Add": _plain(np.add),
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "Div": _divide,
    "Mod": _modulo,
    "Pow": _plain(np.power),
    "Neg": _plain(np.negative),
    "Abs": _plain(np.abs),
    "Sign": _plain(np.sign),
    "Floor": _plain(np.floor),
    "Ceil": _plain(np.ceil),
    "Round": _plain(np.round),
    "Sqrt": _plain(np.sqrt),
    "Reciprocal": _plain(np.reciprocal),
    "Exp": _plain(np.exp),
    "Log": _plain(np.log),
    "Not": _plain(np.logical_not),
    "And": _plain(np.logical_and),
    "Or": _plain(np.logical_or),
    "Xor": _plain(np.logical_xor),
    "Equal": _plain(np.equal),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "Max": _variadic(np.maximum),
    "Min": _variadic(np.minimum),
    "Clip": _clip,
    "Where": lambda _, v: np.asarray(np.where(v[0], v[1], v[2])).astype(v[1].dtype),
    "Identity": lambda _, v: v[0],
    "Cast": _cast,
    "CastLike": lambda _, v: v[0].astype(v[1].dtype),
    "Concat": lambda step, v: np.concatenate(v, int(step.attrs["axis"])),
    "Gather": lambda step, v: np.take(v[0], v[1], int(step.attrs.get("axis", 0))),
    "GatherElements": lambda step, v: np.take_along_axis(v[0], v[1], step.attrs.get("axis", 0)),
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "Split": _split,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": lambda step, v: v[0].reshape(math.prod(v[0].shape[: step.attrs.get("axis", 1)]), -1),
    "Transpose": lambda step, v: np.transpose(v[0], step.attrs.get("perm")),
    "Expand": lambda _, v: np.broadcast_to(
        v[0], np.broadcast_shapes(v[0].shape, tuple(axis_list(v[1])))
    ),
    "Tile": lambda _, v: np.tile(v[0], axis_list(v[1])),
    "Pad": _pad,
    "Range": lambda _, v: np.arange(*(a.reshape(-1)[0] for a in v), dtype=v[0].dtype),
    "ConstantOfShape": _filled,
    "Trilu": _trilu,
    "NonZero": lambda _, v: np.stack(np.nonzero(v[0])).astype(np.int64),
    "CumSum": _cumulative,
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
}
