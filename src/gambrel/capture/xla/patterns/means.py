"""A sum, of a dimension or of windows, that is divided by a number: a mean."""

from __future__ import annotations

from gambrel.capture.onnx.edges import Step
from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.paths import forward


def recognise_means(flow: Flow) -> None:
    """Joins both."""
    for step in flow.steps("xla::reduce", "xla::reduce_window"):
        if step.attrs.get("function") != "add" or step.x().shape == step.out.shape:
            continue
        edge, passed = forward(flow, step.out, ("Reshape",))
        divided = flow.only_reader(edge, "Div", "Mul")
        if divided is None or not _by_number(divided):
            continue
        op = "xla::reduce_mean" if step.op == "xla::reduce" else step.op
        new = successor(step, op, step.inputs, divided.out)
        new.attrs = {**step.attrs, "divided": True}
        new.label = step.label
        flow.replace([step, *passed, divided], new)


def _by_number(step: Step) -> bool:
    second = step.input(1)
    if second is not None and second.scalar is not None:
        return True
    return step.op == "Mul" and step.x().scalar is not None
