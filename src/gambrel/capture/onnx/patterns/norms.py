"""Layer, RMS and group normalization that exporters wrote out."""

from __future__ import annotations

from gambrel.capture.graph.lowering import NORM
from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow, successor


def recognise_norms(flow: Flow) -> None:
    """Replaces them by one step each."""
    for root in flow.steps("Sqrt"):
        _ = _layer_norm(flow, root) or _rms_norm(flow, root)
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


def _layer_norm(flow: Flow, root: Step) -> bool:
    """(x - mean) / sqrt(mean((x - mean)²) + eps), then scale and shift."""
    shifted = flow.made_by(root.input(0), "Add")
    variance = _operand(flow, shifted, "ReduceMean")
    square = flow.made_by(variance.input(0) if variance else None, "Pow", "Mul")
    centred = flow.made_by(square.input(0) if square else None, "Sub")
    if shifted is None or variance is None or square is None or centred is None:
        return False
    mean = flow.made_by(centred.input(1), "ReduceMean")
    quotient = _divided(flow, root, centred.out)
    x = centred.input(0)
    if mean is None or quotient is None or x is None or mean.input(0) is not x:
        return False
    end = quotient[-1]
    inside = [root, shifted, variance, square, centred, mean, *quotient]
    return _put(flow, "LayerNormalization", x, inside, end, variance, True)


def _rms_norm(flow: Flow, root: Step) -> bool:
    """X / sqrt(mean(x²) + eps), then scale."""
    shifted = flow.made_by(root.input(0), "Add")
    mean = _operand(flow, shifted, "ReduceMean")
    square = flow.made_by(mean.input(0) if mean else None, "Pow", "Mul")
    if shifted is None or mean is None or square is None:
        return False
    x = square.input(0)
    quotient = None if x is None else _divided(flow, root, x)
    if x is None or quotient is None:
        return False
    inside = [root, shifted, mean, square, *quotient]
    return _put(flow, "RMSNormalization", x, inside, quotient[-1], mean, False)


def _operand(flow: Flow, step: Step | None, op: str) -> Step | None:
    """The operand of a sum that a step of an operator makes."""
    edges = step.inputs if step is not None else []
    return next((m for m in (flow.made_by(e, op) for e in edges) if m is not None), None)


def _divided(flow: Flow, root: Step, x: Edge) -> list[Step] | None:
    """The steps that divide x by the root: a quotient, or a product with its reciprocal."""
    direct = flow.only_reader(root.out, "Div")
    if direct is not None:
        if direct.input(0) is x:
            return [direct]
        inverse, source = direct, direct.out
        if direct.x().scalar is None:
            return None
    else:
        turned = flow.only_reader(root.out, "Reciprocal")
        if turned is None:
            return None
        inverse, source = turned, turned.out
    product = flow.only_reader(source, "Mul")
    return [inverse, product] if product is not None and x in product.inputs else None


def _put(
    flow: Flow, op: str, x: Edge, inside: list[Step], end: Step, mean: Step, shifts: bool
) -> bool:
    axis = _last_axes(mean, x)
    if axis is None or x.shape is None or x.shape != end.out.shape:
        return False
    if any(not flow.is_internal(s.out, inside) for s in inside if s is not end):
        return False
    scale, shift = None, None
    product = flow.only_reader(end.out, "Mul")
    if product is not None:
        scale = _other(product, end.out)
        if _is_vector(scale, x):
            inside, end = [*inside, product], product
            total = flow.only_reader(end.out, "Add") if shifts else None
            shift = None if total is None else _other(total, end.out)
            if total is not None and _is_vector(shift, x):
                inside, end = [*inside, total], total
            else:
                shift = None
        else:
            scale = None
    new = successor(end, op, [x, scale, shift], end.out)
    new.attrs["axis"] = axis
    flow.replace(inside, new)
    return True


def _last_axes(mean: Step, x: Edge) -> int | None:
    """Where the dimensions begin that a mean is over, if they are the last ones."""
    rank = len(x.shape or ())
    given = mean.attrs.get("axes")
    edge = mean.input(1)
    if edge is not None:
        given = None if edge.value is None else [int(v) for v in edge.value.reshape(-1)]
    if not given or not rank:
        return None
    axes = sorted(a % rank for a in given)
    return axes[0] if axes == list(range(axes[0], rank)) else None


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
