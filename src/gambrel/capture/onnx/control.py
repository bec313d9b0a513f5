"""If, Loop and Scan: the branch that runs, bodies times their trip count."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge, Step, valueless
from gambrel.capture.onnx.folding import constant
from gambrel.capture.onnx.sequences import listed

if TYPE_CHECKING:
    from gambrel.capture.onnx.walk import NameScope, Walker

#: Loops whose carried values change their form, or are known, run step by step up to this many.
_MAX_UNROLLED: Final = 128

#: A part of a tensor, for each trip another: a view.
PART: Final = "gambrel::Part"

LARGER_BRANCH: Final = "of an If whose condition depends on data, the larger branch is counted"
ONE_TRIP: Final = "a Loop whose trip count depends on data is counted once (--size trip=N)"

_Flow = Callable[["Walker", Step, Any, "NameScope"], None]


def _if(walker: Walker, step: Step, _: Any, names: NameScope) -> None:
    condition = step.x().scalar
    branches = [step.attrs["then_branch"], step.attrs["else_branch"]]
    if condition is not None:
        step.outputs = _branch(walker, branches[0 if condition else 1], names)
        return
    before = walker.steps
    tried: list[tuple[list[Step], list[Edge | None]]] = []
    for branch in branches:
        walker.steps = []
        outputs = _branch(walker, branch, names)
        tried.append((walker.steps, outputs))
    walker.steps = before
    steps, outputs = max(tried, key=lambda t: sum(map(step_weight, t[0])))
    if any(other[0] for other in tried):
        walker.note(LARGER_BRANCH)
    walker.steps.extend(steps)
    step.outputs = [valueless(e) for e in outputs]


def _branch(walker: Walker, graph: Any, names: NameScope) -> list[Edge | None]:
    inside = walker.stored_names(graph, names)
    walker.walk(graph.node, inside)
    return [inside.find(o.name) for o in graph.output]


def step_weight(step: Step) -> int:
    """Roughly the work of a step: results times the length of what each sums."""
    results = sum(e.numel for e in step.outputs if e is not None and e.shape is not None)
    length = 1
    weight = step.input(1)
    if step.op in ("MatMul", "Gemm", "Conv") and weight is not None and weight.shape:
        length = weight.shape[0] if step.op != "Conv" else prod(weight.shape[1:])
    elif step.op in ("gambrel::Dense", "gambrel::Convolution") and weight is not None:
        rows = int(step.attrs.get("out_channels", 0)) or (weight.shape or (1,))[0]
        length = weight.numel // max(rows, 1)
    return step.repeat * results * length + 1


def _loop(walker: Walker, step: Step, _: Any, names: NameScope) -> None:
    body, limit, condition = step.attrs["body"], step.input(0), step.input(1)
    carried: list[Edge | None] = list(step.inputs[2:])
    trips = None if limit is None or limit.scalar is None else int(limit.scalar)
    if condition is not None and condition.scalar == 0:
        trips = 0
    if trips is None:
        trips = walker.data_trips()
    count = len(carried)
    scans: list[list[Edge | None]] = [[] for _ in step.outputs[count:]]
    if trips > 0:
        carried = _repeated(walker, body, carried, trips, scans, names)
    stacked = [_stacked(walker, step.outputs[count + i], p) for i, p in enumerate(scans)]
    step.outputs = [*carried, *stacked]


def _repeated(
    walker: Walker,
    body: Any,
    carried: list[Edge | None],
    trips: int,
    scans: list[list[Edge | None]],
    names: NameScope,
) -> list[Edge | None]:
    """Runs the body: once for all trips where nothing but data changes, else trip by trip."""
    before = walker.steps
    if not any(_changes(e) for e in carried):
        walker.steps, walker.repeat = [], walker.repeat * trips
        index = Edge("trip", (), 7)
        results = _trip(walker, body, index, carried, names)
        walker.repeat //= trips
        tried, walker.steps = walker.steps, before
        if results is not None and all(map(_same_form, carried, results)):
            walker.steps.extend(tried)
            for parts, edge in zip(scans, results[len(carried) :], strict=False):
                parts.extend([edge] * trips)
            return results[: len(carried)]
    for i in range(min(trips, _MAX_UNROLLED)):
        if trips > _MAX_UNROLLED and i == _MAX_UNROLLED - 1:
            walker.note(f"of a Loop of {trips:,} trips of changing form, {i + 1} are counted")
        index = constant("trip", np.asarray(i, np.int64))
        results = _trip(walker, body, index, carried, names)
        if results is None:
            break
        carried = results[: len(carried)]
        for parts, edge in zip(scans, results[len(carried) :], strict=False):
            parts.append(edge)
    return carried


def _trip(
    walker: Walker, body: Any, index: Edge, carried: list[Edge | None], names: NameScope
) -> list[Edge | None] | None:
    """One trip; None where the body says at once that there is none after it."""
    inside = walker.stored_names(body, names)
    going_on = constant("condition", np.asarray(True))
    given = [index, going_on, *carried]
    for formal, edge in zip(body.input, given, strict=False):
        if edge is not None:
            inside.edges[formal.name] = edge
    walker.walk(body.node, inside)
    return [inside.find(o.name) for o in body.output][1:]


def _changes(edge: Edge | None) -> bool:
    """Whether the value of a carried edge is known at the start, so that trips differ."""
    return edge is not None and (edge.value is not None or edge.members is not None)


def _same_form(before: Edge | None, after: Edge | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.shape == after.shape and before.code == after.code


def _stacked(walker: Walker, out: Edge | None, parts: list[Edge | None]) -> Edge | None:
    """What all trips made, one after another: a copy of each."""
    first = parts[0] if parts else None
    if out is None or first is None or first.shape is None:
        return out
    out.shape, out.code = (len(parts), *first.shape), first.code
    distinct = {id(e): e for e in parts if e is not None}
    walker.add(Step("Concat", list(distinct.values()), [out], {"axis": 0}, repeat=walker.repeat))
    return out


def _scan(walker: Walker, step: Step, _: Any, names: NameScope) -> None:
    body, scanned = step.attrs["body"], int(step.attrs["num_scan_inputs"])
    batched = step.version < 9  # lengths first, then tensors with a batch before the scanned axis
    given = step.inputs[1:] if batched else step.inputs
    states, inputs = given[: len(given) - scanned], given[len(given) - scanned :]
    axes = [1] * scanned if batched else step.attrs.get("scan_input_axes") or [0] * scanned
    parts = [_part(walker, e, a, batched) for e, a in zip(inputs, axes, strict=False)]
    trips = next((e.shape[a] for e, a in zip(inputs, axes, strict=False) if e and e.shape), 1)
    batch = next((e.shape[0] for e in inputs if e and e.shape), 1) if batched else 1
    formal = [*(_without_batch(e) if batched else e for e in states), *parts]
    inside = walker.stored_names(body, names)
    for name, edge in zip(body.input, formal, strict=False):
        if edge is not None:
            inside.edges[name.name] = valueless(edge) or edge
    times = max(trips * batch, 1)
    walker.repeat *= times
    walker.walk(body.node, inside)
    walker.repeat //= times
    results = [inside.find(o.name) for o in body.output]
    _collect(step, results, len(states), (trips, batch if batched else None))


def _part(walker: Walker, edge: Edge | None, axis: int, batched: bool) -> Edge:
    """What one trip sees of a scanned tensor: a view."""
    if edge is None or edge.shape is None:
        return Edge("part")
    place = axis % len(edge.shape)
    shape = (*edge.shape[:place], *edge.shape[place + 1 :])
    found = Edge("part", shape[1:] if batched else shape, edge.code)
    walker.add(Step(PART, [edge], [found], repeat=walker.repeat))
    return found


def _without_batch(edge: Edge | None) -> Edge | None:
    if edge is None or edge.shape is None:
        return edge
    return Edge(edge.name, edge.shape[1:], edge.code)


def _collect(
    step: Step, results: list[Edge | None], states: int, sizes: tuple[int, int | None]
) -> None:
    """Gives the outputs of a Scan the forms of what its body returns, stacked over trips."""
    trips, batch = sizes
    outer = () if batch is None else (batch,)
    axes = step.attrs.get("scan_output_axes") or [0] * len(step.outputs)
    found: list[Edge | None] = []
    for i, (out, part) in enumerate(zip(step.outputs, results, strict=False)):
        if out is None or part is None or part.shape is None:
            found.append(out)
        elif i < states:
            state = Edge(out.name, (*outer, *part.shape), part.code)
            found.append(part if batch is None else state)
        else:
            place = axes[i - states] % (len(part.shape) + 1)
            shape = (*part.shape[:place], trips, *part.shape[place:])
            out.shape, out.code = (*outer, *shape), part.code
            found.append(out)
    step.outputs = found


def _map(walker: Walker, step: Step, _: Any, names: NameScope) -> None:
    """SequenceMap: the body once for each member."""
    body = step.attrs["body"]
    lists = [e.members for e in step.inputs if e is not None and e.members is not None]
    if not lists:
        walker.add(step)
        return
    results: list[list[Edge]] = [[] for _ in step.outputs]
    for i in range(len(lists[0])):
        inside = walker.stored_names(body, names)
        for formal, edge in zip(body.input, step.inputs, strict=False):
            if edge is not None:
                inside.edges[formal.name] = edge.members[i] if edge.members is not None else edge
        walker.walk(body.node, inside)
        for parts, o in zip(results, body.output, strict=False):
            edge = inside.find(o.name)
            if edge is not None:
                parts.append(edge)
    step.outputs = [
        None if e is None else listed(e.name, parts)
        for e, parts in zip(step.outputs, results, strict=False)
    ]


FLOW: Final[dict[str, _Flow]] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _map}
