"""A product or a convolution and the bias that is added to it, as one step."""

from __future__ import annotations

from gambrel.capture.graph.lowering import CONVOLUTION, DENSE
from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.lowering.products import LINEAR
from gambrel.capture.onnx.patterns.flow import Flow, successor


def recognise_linear(flow: Flow) -> None:
    """Joins products and convolutions with weights and the addition of a stored vector."""
    for product in flow.steps("MatMul", DENSE, CONVOLUTION):
        weight = product.input(1)
        images = product.op == CONVOLUTION
        if weight is None or weight.shape is None or product.input(2) is not None:
            continue
        total = flow.only_reader(product.out, "Add")
        bias = None if total is None else _bias(total, product, 1 if images else -1)
        if total is None or bias is None or not (images or len(weight.shape) == 2):
            continue
        op = LINEAR if product.op == "MatMul" else product.op
        new = successor(product, op, [product.x(0), weight, bias], total.out)
        new.attrs, new.label = product.attrs, product.label
        flow.replace([product, total], new)


def _bias(total: Step, product: Step, axis: int) -> Edge | None:
    """A stored vector along one axis of the result: all other sizes of it are 1."""
    other = total.input(1) if total.input(0) is product.out else total.input(0)
    out = product.out.shape
    if other is None or not other.is_stored or other.shape is None or not out:
        return None
    whole = (1,) * (len(out) - len(other.shape)) + other.shape
    along = len(whole) == len(out) and whole[axis] == out[axis] == other.numel
    return other if along else None
