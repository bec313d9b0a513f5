"""What eager torch does inside two composite ops that exported programs keep whole.

``matmul`` and ``linear`` bring operands of more than two dimensions into the form of one product:
batches are merged, which copies an operand whose memory does not allow it; a bias is then added
in a step of its own. Counted as one op, those copies would be missing
(ATen/native/LinearAlgebra.cpp, _matmul_impl; ATen/native/Linear.cpp, linear).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gambrel.capture.aten import Described, TensorArg, describe
from gambrel.capture.aten.views import can_view, is_contiguous
from gambrel.capture.files.export_tensors import Tensors


def lower(op: str, described: Described, tensors: Tensors) -> Iterator[tuple[str, Described]]:
    """The steps of an op: itself, or what eager torch runs in its place.

    Args:
        op: For example ``"aten.matmul"``.
        described: As one op.
        tensors: Where the intermediates of the steps are made.
    """
    if op == "aten.matmul" and described.kind == "matmul" and len(described.inputs) == 2:
        yield from _matmul(op, described, tensors)
    elif op == "aten.linear" and described.kind == "matmul" and _is_split(described.inputs[0]):
        yield from _linear(op, described, tensors)
    else:
        yield op, described


def _matmul(op: str, described: Described, tensors: Tensors) -> Iterator[tuple[str, Described]]:
    a, b = described.inputs
    operands = []
    for operand, other in ((a, b), (b, a)):
        if can_view(operand, _merged(operand, other)):
            operands.append(operand)
            continue
        copy = _copy(operand, tensors)
        yield "aten.clone", copy
        operands.append(copy.outputs[0])
    yield (
        op,
        Described("matmul", described.sizes, described.attrs, tuple(operands), described.outputs),
    )


def _merged(operand: TensorArg, other: TensorArg) -> tuple[int, ...]:
    """The form in which an operand enters: rows by columns, or a batch of such."""
    shape = operand.shape
    if len(shape) <= 2:
        return shape
    if len(other.shape) <= 2:
        return (prod(shape[:-1]), shape[-1])
    return (prod(shape[:-2]), *shape[-2:])


def _is_split(x: TensorArg) -> bool:
    """Whether linear cannot flatten its input in place."""
    return len(x.shape) > 2 and x.strides is not None and not is_contiguous(x)


def _linear(op: str, described: Described, tensors: Tensors) -> Iterator[tuple[str, Described]]:
    x, weight, *bias = described.inputs
    flat = (prod(x.shape[:-1]), x.shape[-1])
    if not can_view(x, flat):
        copy = _copy(x, tensors)
        yield "aten.clone", copy
        x = copy.outputs[0]
    product = Described("matmul", described.sizes, {"bias": False}, (x, weight), described.outputs)
    yield op, product
    if bias:
        out = described.outputs[0]
        yield "aten.add_", describe("aten.add_", "Tensor", (out, bias[0]), {}, out)


def _copy(x: TensorArg, tensors: Tensors) -> Described:
    fresh = tensors.temporary(x.shape, x.dtype)
    return describe("aten.clone", "default", (x,), {}, fresh.arg)
