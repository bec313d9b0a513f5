"""Normalizations whose scale, shift or groups a format writes apart."""

from __future__ import annotations

from gambrel.capture.graph.lowering import NORM
from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow, successor


def recognise_affine(flow: Flow) -> None:
    """Joins what belongs to one normalization."""
    for norm in flow.steps("InstanceNormalization"):
        _group_norm(flow, norm)
    for norm in flow.steps(NORM):
        _affine(flow, norm)


def _affine(flow: Flow, norm: Step) -> None:
    """A normalization that a format writes without its parameters: times a vector, plus another."""
    product = flow.only_reader(norm.out, "Mul")
    scale = None if product is None else _other(product, norm.out)
    if len(norm.inputs) != 1 or product is None or not _is_vector(scale, norm.x()):
        return
    inside, parameters = [norm, product], [scale]
    total = flow.only_reader(product.out, "Add")
    shift = None if total is None else _other(total, product.out)
    if total is not None and _is_vector(shift, norm.x()):
        inside, parameters = [*inside, total], [scale, shift]
    new = successor(norm, NORM, [norm.x(), *parameters], inside[-1].out)
    new.attrs, new.label = norm.attrs, norm.label
    flow.replace(inside, new)


def _other(step: Step, edge: Edge) -> Edge | None:
    return step.input(1) if step.input(0) is edge else step.input(0)


def _is_vector(edge: Edge | None, x: Edge) -> bool:
    """Whether a parameter lies along the last dimensions."""
    if edge is None or edge.shape is None or not edge.is_stored or x.shape is None:
        return False
    shape = edge.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return 0 < len(shape) <= len(x.shape) and shape == x.shape[-len(shape) :]


def _group_norm(flow: Flow, norm: Step) -> None:
    """Reshape to groups, instance norm with nothing to scale, reshape back, scale, shift."""
    folded = flow.made_by(norm.input(0), "Reshape")
    back = flow.only_reader(norm.out, "Reshape")
    if folded is None or back is None or norm.x().shape is None:
        return
    x, groups = folded.input(0), (norm.x().shape or ())[1]
    if x is None or x.shape != back.out.shape or not flow.is_internal(folded.out, [norm]):
        return
    inside, end = [folded, norm, back], back
    parameters: list[Edge | None] = []
    for op in ("Mul", "Add"):
        after = flow.only_reader(end.out, op)
        edge = None if after is None else _other(after, end.out)
        if after is None or edge is None or not edge.is_stored:
            break
        parameters.append(edge)
        inside, end = [*inside, after], after
    new = successor(end, "GroupNormalization", [x, *parameters], end.out)
    new.attrs["num_groups"] = groups
    flow.replace(inside, new)
