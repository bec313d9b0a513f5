"""Operations of XLA that are the same as an operator of ONNX, or cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla import folding
from gambrel.capture.xla.elements import BOOL, NUMPY
from gambrel.capture.xla.graph import Graph, Operation, handles

#: Element-wise operation → operator of ONNX, or a function of `gambrel.ops.elementwise`.
_OPERATORS: Final[dict[str, str]] = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "negate": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round_nearest_afz": "Round",
    "round_nearest_even": "Round",
    "sqrt": "Sqrt",
    "exponential": "Exp",
    "log": "Log",
    "sine": "Sin",
    "cosine": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "logistic": "Sigmoid",
    "erf": "Erf",
    "maximum": "Max",
    "minimum": "Min",
    "select": "Where",
    "clamp": "xla::clamp",
    "compare": "Equal",
    "power": "Pow",
    "remainder": "Mod",
    "is_finite": "IsInf",
}
#: Function of `gambrel.ops.elementwise` → operations without an operator of ONNX.
FUNCTIONS: Final[dict[str, str]] = {
    "rsqrt": "rsqrt",
    "expm1": "exponential_minus_one",
    "exp2": "exp2",
    "log1p": "log_plus_one",
    "erfc": "erfc",
    "erfinv": "erf_inv",
    "lgamma": "lgamma",
    "digamma": "digamma",
    "bessel": "bessel_i0e bessel_i1e bessel_i1",
    "atan2": "atan2",
    "conj": "conj",
    "bitwise": "popcnt count_leading_zeros reduce_precision",
    "copysign": "nextafter",
}
_FUNCTION_OF: Final = {op: f for f, names in FUNCTIONS.items() for op in names.split()}
_LOGIC: Final = {"and": "And", "or": "Or", "xor": "Xor", "not": "Not"}

#: Operations that hand their operands on.
_SAME: Final = (
    "stop_gradient",
    "copy",
    "optimization_barrier",
    "sharding_constraint",
    "annotation",
    "copy_start",
    "copy_done",
)


def function_of(op: str) -> str:
    """The neutral function of an operation that ONNX lacks."""
    return _FUNCTION_OF[op]


def _elementwise(graph: Graph, o: Operation) -> list[Edge]:
    value = folding.fold_plain(o.op, o.inputs, o.shape, o.code, o.attrs)
    if value is not None:
        return [graph.constant(value, o.forms[0])]
    same = _unchanged(o)
    if same is not None:
        return [same]
    if o.op in _FUNCTION_OF:
        return graph.step(o, f"xla::{o.op}", o.inputs)
    if o.op in ("maximum", "minimum"):
        return _bounded(graph, o)
    name = _OPERATORS.get(o.op) or _logical(o)
    return graph.step(o, name, o.inputs)


#: Operation → number that changes nothing, and whether it may stand first as well.
_NEUTRAL: Final = {
    "add": (0, True),
    "subtract": (0, False),
    "multiply": (1, True),
    "divide": (1, False),
}


def _unchanged(o: Operation) -> Edge | None:
    """The operand that an operation with a neutral number hands on."""
    if o.op not in _NEUTRAL:
        return None
    number, either = _NEUTRAL[o.op]
    a, b = o.inputs
    if b.scalar == number and a.shape == o.shape:
        return a
    return b if either and a.scalar == number and b.shape == o.shape else None


def _logical(o: Operation) -> str:
    if o.op in _LOGIC:
        return _LOGIC[o.op] if o.inputs[0].code == BOOL else f"Bitwise{_LOGIC[o.op]}"
    return "BitShift"


def _bounded(graph: Graph, o: Operation) -> list[Edge]:
    """A maximum with zero is a relu, one with minus infinity nothing."""
    for index, edge in enumerate(o.inputs):
        other, number = o.inputs[1 - index], edge.scalar
        nothing = float("-inf") if o.op == "maximum" else float("inf")
        if number == nothing and other.shape == o.shape:
            return [other]
        if number == 0 and o.op == "maximum":
            return graph.step(o, "Relu", [other])
    return graph.step(o, "Max" if o.op == "maximum" else "Min", o.inputs)


@handles("select")
def _select(graph: Graph, o: Operation) -> list[Edge]:
    """Where the predicate is one known value, the case that it picks."""
    which = o.inputs[0].scalar
    chosen = None if which is None else o.inputs[1 if which else 2]
    if chosen is not None and chosen.shape == o.shape:
        return [chosen]
    return _elementwise(graph, o)


@handles("square")
def _square(graph: Graph, o: Operation) -> list[Edge]:
    x = o.inputs[0]
    return _elementwise(graph, _as(o, "multiply", [x, x]))


@handles("integer_pow")
def _whole_power(graph: Graph, o: Operation) -> list[Edge]:
    """Powers 2 and 3 are products; a longer one takes the squarings and products of its bits."""
    x, y = o.inputs[0], int(o.attrs["y"])
    if y in (1, 0):
        return [x] if y else [graph.constant(np.ones((1,) * len(o.shape)), o.forms[0])]
    found = x
    for bit in bin(abs(y))[3:]:
        found = _elementwise(graph, _as(o, "multiply", [found, found]))[0]
        if bit == "1":
            found = _elementwise(graph, _as(o, "multiply", [found, x]))[0]
    if y < 0:
        one = graph.constant(np.ones((1,) * len(o.shape), "float32"), o.forms[0])
        return _elementwise(graph, _as(o, "divide", [one, found]))
    return [found]


@handles("cbrt")
def _cube_root(graph: Graph, o: Operation) -> list[Edge]:
    """A power of one third."""
    return graph.step(o, "Pow", [o.inputs[0], None])


def _as(o: Operation, op: str, inputs: Sequence[Edge]) -> Operation:
    return Operation(op, inputs, o.forms, {}, o.title, o.module, o.source)


@handles(*_SAME)
def _same(_: Graph, o: Operation) -> list[Edge]:
    if len(o.inputs) < len(o.forms):
        raise ValueError("more results than operands")
    return list(o.inputs[: len(o.forms)])


@handles("convert")
def _convert(graph: Graph, o: Operation) -> list[Edge]:
    x = o.inputs[0]
    if x.code == o.code:
        return [x]
    value = None if x.value is None else folding.converted(x.value, o.code)
    if value is not None:
        return [graph.constant(value, o.forms[0])]
    return graph.step(o, "Cast", [x], {"to": o.code})


@handles("bitcast_convert")
def _bitcast(graph: Graph, o: Operation) -> list[Edge]:
    """The same bytes under another type: within the kernel that reads them."""
    return graph.step(o, "gambrel::Part", [o.inputs[0]], {})


@handles("reshape", "bitcast")
def _reshape(graph: Graph, o: Operation) -> list[Edge]:
    x = o.inputs[0]
    if x.shape == o.shape:
        return [x]
    if prod(x.shape or ()) != prod(o.shape):
        raise ValueError("a reshape changes the number of elements")
    value = None if x.value is None else folding.reshaped(x.value, x.shape or (), o.shape)
    if value is not None:
        return [graph.constant(value, o.forms[0])]
    return graph.step(o, "Reshape", [x], {})


@handles("transpose")
def _transpose(graph: Graph, o: Operation) -> list[Edge]:
    x, perm = o.inputs[0], [int(p) for p in o.attrs["perm"]]
    if perm == sorted(perm):
        return [x]
    if x.value is not None:
        return [graph.constant(x.value.transpose(perm), o.forms[0])]
    return graph.step(o, "Transpose", [x], {"perm": perm})


@handles("broadcast_in_dim")
def _broadcast(graph: Graph, o: Operation) -> list[Edge]:
    """The operand's dimensions among new ones, then repeated: both are views."""
    x, dims = o.inputs[0], [int(d) for d in o.attrs["dims"]]
    if x.shape == o.shape and dims == list(range(len(dims))):
        return [x]
    if x.value is not None:
        return [graph.constant(folding.broadcast(x.value, o.shape, dims), o.forms[0])]
    if dims != sorted(dims):
        perm = sorted(range(len(dims)), key=lambda i: dims[i])
        turned = tuple((x.shape or ())[p] for p in perm)
        x = graph.step(o, "Transpose", [x], {"perm": perm}, [(turned, o.code)])[0]
        dims = sorted(dims)
    ones = [1] * len(o.shape)
    for d, n in zip(dims, x.shape or (), strict=True):
        ones[d] = n
    if tuple(ones) != x.shape:
        x = graph.step(o, "Reshape", [x], {}, [(tuple(ones), o.code)])[0]
    return [x] if x.shape == o.shape else graph.step(o, "Expand", [x], {})


@handles("slice")
def _slice(graph: Graph, o: Operation) -> list[Edge]:
    x = o.inputs[0]
    starts, limits, strides = (list(o.attrs[k]) for k in ("starts", "limits", "strides"))
    if x.shape == o.shape:
        return [x]
    if x.value is not None:
        return [graph.constant(folding.sliced(x.value, starts, limits, strides), o.forms[0])]
    attrs = {"starts": starts, "axes": list(range(len(starts))), "steps": strides}
    return graph.step(o, "Slice", [x], attrs)


@handles("split")
def _split(graph: Graph, o: Operation) -> list[Edge]:
    return graph.step(o, "Split", [o.inputs[0]], {"axis": int(o.attrs["axis"])})


@handles("dynamic_slice")
def _dynamic_slice(graph: Graph, o: Operation) -> list[Edge]:
    """A part whose place may depend on data: a view, read by whoever reads it."""
    x, *places = o.inputs
    if x.shape == o.shape:
        return [x]
    if all(p.scalar is not None for p in places):
        limits = [n - m for n, m in zip(x.shape or (), o.shape, strict=True)]
        starts = [
            min(max(int(p.scalar or 0), 0), most) for p, most in zip(places, limits, strict=True)
        ]
        ends = [s + n for s, n in zip(starts, o.shape, strict=True)]
        fixed = {"starts": starts, "limits": ends, "strides": [1] * len(starts)}
        return _slice(graph, Operation("slice", [x], o.forms, fixed, o.title, o.module, o.source))
    rest = (x.shape or ())[1:]
    layers = {"copies": (x.shape or (0,))[0]} if o.shape == (1, *rest) else {}
    return graph.step(o, "gambrel::Part", [x], layers)


@handles("concatenate")
def _concatenate(graph: Graph, o: Operation) -> list[Edge]:
    axis = int(o.attrs["axis"])
    if len(o.inputs) == 1:
        return [o.inputs[0]]
    value = folding.joined(o.inputs, axis, o.shape)
    if value is not None:
        return [graph.constant(value, o.forms[0])]
    return graph.step(o, "Concat", o.inputs, {"axis": axis})


@handles("pad")
def _pad(graph: Graph, o: Operation) -> list[Edge]:
    x = o.inputs[0]
    if x.shape == o.shape:
        return [x]
    if prod(o.shape) < x.numel:
        return graph.step(o, "gambrel::Part", [x], {})  # negative padding takes a part
    return graph.step(o, "Pad", [x], dict(o.attrs))


@handles("iota")
def _iota(graph: Graph, o: Operation) -> list[Edge]:
    value = folding.iota(o.shape, int(o.attrs["axis"]), o.code)
    if value is not None:
        return [graph.constant(value, o.forms[0])]
    return graph.step(o, "Range", [], {})


@handles("reverse")
def _reverse(graph: Graph, o: Operation) -> list[Edge]:
    return graph.step(o, "ReverseSequence", o.inputs, {})


def _number(graph: Graph, o: Operation, value: Any) -> list[Edge]:
    return [graph.constant(value, o.forms[0])]


@handles("zeros")
def _zeros(graph: Graph, o: Operation) -> list[Edge]:
    """Results full of zeros."""
    zero = np.zeros((1,) * len(o.shape), NUMPY.get(o.code, "float32"))
    return _number(graph, o, zero)


for _op in (*_OPERATORS, *_FUNCTION_OF, *_LOGIC):
    if _op != "select":
        handles(_op)(_elementwise)
for _op in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
    handles(_op)(_elementwise)
