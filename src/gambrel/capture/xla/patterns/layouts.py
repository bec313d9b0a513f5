"""Memory orders that XLA chooses: a product writes what is read from it next."""

from __future__ import annotations

from gambrel.capture.onnx.lowering.attention import ATTENTION
from gambrel.capture.onnx.patterns.flow import Flow
from gambrel.capture.xla.lowering.products import BIASED_DOT


def choose_layouts(flow: Flow) -> None:
    """Lets products and attention write in the order of the transpose that alone reads them."""
    for step in flow.steps("xla::dot_general", BIASED_DOT, ATTENTION):
        perm = list(range(len(step.out.shape or ())))
        edge = step.out
        while (turn := flow.only_reader(edge, "Transpose")) is not None:
            perm = [perm[p] for p in turn.attrs["perm"]]
            edge = turn.out
        if perm != sorted(perm):
            step.attrs = {**step.attrs, "laid": perm}
