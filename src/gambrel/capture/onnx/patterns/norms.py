"""Layer, RMS, group and batch normalization, written out around a reciprocal root."""

from __future__ import annotations

from dataclasses import dataclass, field

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.lowering.normalization import NORMALIZATION
from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.paths import (
    FORMS,
    back,
    is_closed,
    other,
    parameters,
    without_shared,
)

_SMALL = frozenset(
    {"Add", "Sub", "Mul", "Div", "Max", "Relu", "Neg", "Where", "xla::clamp", *FORMS}
)
_REDUCTIONS = frozenset({"xla::reduce", "xla::reduce_mean", "ReduceMean"})


@dataclass(slots=True)
class _Norm:
    """What was recognised so far.

    Attributes:
        x: What is normalized.
        steps: Those that belong to it.
        leaves: Parameters that go in.
        centred: Whether the mean is taken away.
        statistics: Whether mean and variance are computed.
        groups: How many of them there are.
        affine: Whether the result is scaled.
    """

    x: Edge
    steps: list[Step]
    leaves: list[Edge] = field(default_factory=list)
    centred: bool = False
    statistics: bool = True
    groups: int = 1
    affine: bool = False


def recognise_norms(flow: Flow) -> None:
    """Replaces them by one step each."""
    for root in flow.steps("xla::rsqrt", "Sqrt"):
        try:
            _recognise(flow, root)
        except ValueError:
            continue


def _recognise(flow: Flow, root: Step) -> None:
    norm = _computed(flow, root) or _stored(flow, root)
    if norm is None:
        return
    end = _applied(flow, root, norm)
    if end is None:
        return
    end = _scaled(flow, norm, end)
    steps = without_shared(flow, [*norm.steps, end], end)
    kept = [s for s in norm.steps if s not in steps]
    if any(s.op not in FORMS for s in kept) or not is_closed(flow, steps, end):
        return
    new = successor(end, NORMALIZATION, [norm.x, *dict.fromkeys(norm.leaves)], end.out)
    single = norm.statistics and not norm.centred
    function = "rms_norm" if single else "layer_norm" if norm.statistics else "batch_norm"
    new.attrs = {
        "function": function,
        "groups": norm.groups,
        "statistics": norm.statistics,
        "affine": norm.affine,
    }
    new.label = function
    flow.replace(steps, new)


def _computed(flow: Flow, root: Step) -> _Norm | None:
    """Statistics that are reductions of one tensor."""
    steps, reduces = _statistics(flow, root.x())
    if not reduces:
        return None
    axes = {_axes(r) for r in reduces}
    sources: dict[Edge, None] = {}
    centred = len(reduces) > 1
    for reduce in reduces:
        edge, passed, minus = _squared(flow, reduce.x())
        centred |= minus
        sources[edge] = None
        steps += [reduce, *passed]
    if len(axes) != 1 or len(sources) != 1:
        return None
    x = next(iter(sources))
    groups = root.out.numel
    return _Norm(x, [root, *steps], [], centred, True, groups)


def _statistics(flow: Flow, edge: Edge) -> tuple[list[Step], list[Step]]:
    """Small steps before a root, and the reductions that they start from."""
    steps: dict[Step, None] = {}
    reduces: dict[Step, None] = {}
    waiting = [edge]
    while waiting:
        at = waiting.pop()
        maker = flow.maker.get(at)
        if maker is None or maker in steps:
            continue
        if maker.op in _REDUCTIONS:
            if _sums(maker):
                reduces[maker] = None
        elif maker.op in _SMALL and len(steps) < 24:
            steps[maker] = None
            waiting.extend(e for e in maker.inputs if e is not None)
    return list(steps), list(reduces)


def _sums(step: Step) -> bool:
    """Whether a step takes sums or means along dimensions."""
    return step.op in _REDUCTIONS and step.attrs.get("function", "add") == "add"


def _axes(reduction: Step) -> tuple[int, ...]:
    """The dimensions of a sum, in order.

    Raises:
        ValueError: They are not known, or an operator of ONNX takes others than the last ones.
    """
    rank, given, edge = len(reduction.x().shape or ()), reduction.attrs.get("axes"), None
    if reduction.op == "ReduceMean":
        edge = reduction.input(1)
    if edge is not None:
        given = None if edge.value is None else edge.value.reshape(-1).tolist()
    axes = tuple(sorted(a % rank for a in given or ()))
    if reduction.op == "ReduceMean" and axes != tuple(range(rank - len(axes), rank)):
        raise ValueError("a mean along other dimensions than the last")
    return axes


def _squared(flow: Flow, edge: Edge) -> tuple[Edge, list[Step], bool]:
    """The tensor whose sum or sum of squares is taken; whether its mean was taken away."""
    edge, passed = back(flow, edge, ("Cast", "Reshape"))
    square = flow.made_by(edge, "Mul", "Pow")
    minus = False
    if square is not None and _is_square(square):
        passed.append(square)
        edge, more = back(flow, square.x(), ("Cast",))
        passed += more
        centre = flow.made_by(edge, "Sub")
        if centre is not None and _is_mean(flow, centre):
            means = back(flow, centre.input(1), FORMS)[1]
            passed += [centre, *means]
            edge, minus = centre.x(), True
            mean = flow.maker.get(back(flow, centre.input(1), FORMS)[0])
            passed += _statistics(flow, centre.x(1))[0]
            passed += _statistics(flow, centre.x(1))[1] if mean is not None else []
    edge, more = back(flow, edge, ("Cast", "Reshape"))
    return edge, passed + more, minus


def _is_square(step: Step) -> bool:
    if step.op == "Pow":
        return step.x(1).scalar == 2
    return step.input(0) is step.input(1)


def _is_mean(flow: Flow, centre: Step) -> bool:
    """Whether what is taken away is a mean of the tensor."""
    reduces = _statistics(flow, centre.x(1))[1]
    return len(reduces) == 1


def _stored(flow: Flow, root: Step) -> _Norm | None:
    """Statistics that the model keeps: batch normalization of an inference."""
    made = parameters(flow, root.out, 2**62)
    if made is None or not made[1]:
        return None
    return _Norm(root.out, made[0], made[1], True, False, root.out.numel)


def _applied(flow: Flow, root: Step, norm: _Norm) -> Step | None:
    """The step that multiplies the tensor by the reciprocal root, or divides it by the root."""
    waiting, seen = [root.out], 0
    while waiting and seen < 12:
        edge, seen = waiting.pop(0), seen + 1
        for step in flow.readers(edge):
            if step.op in (*FORMS, "Reciprocal") or _inverts(step):
                norm.steps.append(step)
                waiting.append(step.out)
            elif step.op in ("Mul", "Div"):
                if step.op == "Div" and (step.x(1) is not edge or root.op != "Sqrt"):
                    continue
                if _is_tensor(flow, other(step, edge), norm):
                    norm.steps.append(step)
                    return step
                scale = parameters(flow, other(step, edge), 2**62)
                if scale is not None and step.op == "Mul":
                    norm.steps += [step, *scale[0]]
                    norm.leaves += scale[1]
                    norm.affine = norm.affine or bool(scale[1])
                    waiting.append(step.out)
    return None


def _inverts(step: Step) -> bool:
    """Whether a step divides a number by its operand."""
    return step.op == "Div" and step.x(0).scalar is not None


def _is_tensor(flow: Flow, edge: Edge, norm: _Norm) -> bool:
    """Whether an operand is the tensor, or the tensor less its mean."""
    start, passed = back(flow, edge, ("Cast", "Reshape"))
    centre = flow.made_by(start, "Sub")
    if not norm.statistics:
        return _is_input_of_stored(flow, edge, norm)
    if start is norm.x or edge is norm.x:
        norm.steps += passed
        return True
    if centre is None or back(flow, centre.x(), ("Cast", "Reshape"))[0] is not norm.x:
        return False
    norm.steps += [*passed, centre, *back(flow, centre.x(), ("Cast", "Reshape"))[1]]
    norm.steps += back(flow, centre.input(1), FORMS)[1]
    norm.steps += [s for group in _statistics(flow, centre.x(1)) for s in group]
    norm.centred = True
    return True


def _is_input_of_stored(flow: Flow, edge: Edge, norm: _Norm) -> bool:
    """Of a stored norm the tensor is what is larger than the statistics."""
    if edge.shape is None or edge.numel <= norm.groups or edge.is_stored:
        return False
    if parameters(flow, edge, 2**62) is not None:
        return False
    norm.x = edge
    centre = flow.made_by(edge, "Sub")
    if centre is not None:
        mean = parameters(flow, centre.x(1), centre.out.numel)
        if mean is not None and mean[1]:
            norm.steps += [centre, *mean[0]]
            norm.leaves += mean[1]
            norm.x = centre.x()
    return True


def _scaled(flow: Flow, norm: _Norm, end: Step) -> Step:
    """The steps behind that scale, shift and change the form."""
    means = _means(flow, norm)
    inner = [e for s in (*norm.steps, *means) for e in s.outputs if e is not None]
    factors = shifts = 0
    while True:
        step = flow.only_reader(end.out, "Mul", "Add", "Sub", "Cast", "Reshape")
        if step is None:
            return end
        if step.op in ("Cast", "Reshape"):
            behind = flow.only_reader(step.out, "Mul", "Add", "Sub")
            ends = step.op == "Cast" and step.out.shape == norm.x.shape
            if behind is None and not ends:
                return end
            if behind is not None and not _extends(flow, behind, step.out, norm, inner):
                return end if not ends else _took(norm, step)
            end = _took(norm, step)
            continue
        factors, shifts = factors + (step.op == "Mul"), shifts + (step.op != "Mul")
        if shifts and not (norm.centred or means):
            return end  # what is added to an RMS norm is no part of it
        if factors > 1 or shifts > 1 or not _extends(flow, step, end.out, norm, inner):
            return end
        made = parameters(flow, other(step, end.out), step.out.numel, inner)
        if made is not None:
            norm.steps += made[0]
            norm.leaves += made[1]
            norm.affine = norm.affine or bool(made[1])
            used = [m for m in means if not flow.is_internal(m.out, means)]
            norm.steps += [m for m in used if flow.is_internal(m.out, norm.steps)]
            norm.centred = norm.centred or bool(used)
        end = _took(norm, step)


def _means(flow: Flow, norm: _Norm) -> list[Step]:
    """Sums of the tensor over the same dimensions that its statistics need not be made of."""
    own = [s for s in norm.steps if _sums(s)]
    if not own:
        return []
    casts = [s.out for s in flow.readers(norm.x) if s.op == "Cast"]
    readers = [r for e in (norm.x, *casts) for r in flow.readers(e)]
    axes = _axes(own[0])
    return [r for r in readers if _sums(r) and _axes(r) == axes]


def _took(norm: _Norm, step: Step) -> Step:
    norm.steps.append(step)
    return step


def _extends(flow: Flow, step: Step, edge: Edge, norm: _Norm, inner: list[Edge]) -> bool:
    """Whether a step scales or shifts by parameters, and its result has the tensor's size."""
    if step.out.numel != norm.x.numel:
        return False
    second = other(step, edge)
    made = parameters(flow, second, step.out.numel, inner)
    return made is not None and (bool(made[1]) or second in inner)
