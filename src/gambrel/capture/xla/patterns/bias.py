"""A product or a convolution and the bias that is added to it, as one step."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.paths import forward, other, parameters, without_shared
from gambrel.capture.xla.lowering.products import BIASED_CONVOLUTION, BIASED_DOT

_NAMES: Final = {"xla::dot_general": BIASED_DOT, "xla::convolution": BIASED_CONVOLUTION}


def recognise_bias(flow: Flow) -> None:
    """Joins both where the bias is a parameter."""
    for product in flow.steps(*_NAMES):
        result, turned = forward(flow, product.out, ("Transpose",))
        total = flow.only_reader(result, "Add")
        if total is None or len(product.inputs) != 2 or total.out.shape != result.shape:
            continue
        made = parameters(flow, other(total, result), product.out.numel)
        if made is None or len(made[1]) != 1 or made[1][0].numel >= product.out.numel:
            continue
        if any(s.op not in ("Reshape", "Expand", "Cast", "Transpose") for s in made[0]):
            continue
        new = successor(product, _NAMES[product.op], [*product.inputs, made[1][0]], total.out)
        new.attrs, new.label = product.attrs, product.label
        flow.replace(without_shared(flow, [product, *turned, total, *made[0]], total), new)
