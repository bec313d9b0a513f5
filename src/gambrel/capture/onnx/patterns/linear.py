"""A product and the bias that is added to it, as one step."""

from __future__ import annotations

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.lowering.products import LINEAR
from gambrel.capture.onnx.patterns.flow import Flow, successor


def recognise_linear(flow: Flow) -> None:
    """Joins matmuls with weights and the addition of a stored vector."""
    for product in flow.steps("MatMul"):
        weight = product.input(1)
        if weight is None or weight.shape is None or len(weight.shape) != 2:
            continue
        total = flow.only_reader(product.out, "Add")
        bias = None if total is None else _bias(total, product)
        if total is None or bias is None:
            continue
        new = successor(product, LINEAR, [product.x(0), weight, bias], total.out)
        flow.replace([product, total], new)


def _bias(total: Step, product: Step) -> Edge | None:
    other = total.input(1) if total.input(0) is product.out else total.input(0)
    if other is None or not other.is_stored or other.shape is None or product.out.shape is None:
        return None
    return other if other.shape == product.out.shape[-1:] else None
