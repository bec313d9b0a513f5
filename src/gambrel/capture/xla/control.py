"""Loops and branches: bodies times their trips, the larger branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.xla.graph import Form, Graph

_Record: TypeAlias = Callable[[Sequence[Edge]], "list[Edge]"]
_Condition: TypeAlias = Callable[[Sequence[Edge]], Edge]

LARGER_BRANCH: Final = "of a branch that depends on data, the larger one is counted"
NO_TRIPS: Final = (
    "a while loop whose trip count depends on data is unmodelled; say how often such loops run "
    "with --size trip=N (sizes={'trip': N} in Python)"
)


def unvalued(edge: Edge) -> Edge:
    """A state at the start of any trip: its value is known at the first one only."""
    if edge.value is None and not edge.generated:
        return edge
    return Edge(edge.name, edge.shape, edge.code)


def part(graph: Graph, edge: Edge, trips: int) -> Edge:
    """What a trip sees of a tensor that is scanned: a view of one place of its first dimension."""
    found = Edge(edge.name, (edge.shape or (0,))[1:], edge.code)
    step = Step("gambrel::Part", [edge], [found], {"copies": trips}, repeat=graph.repeat)
    graph.steps.append(step)
    return found


def stacked(edge: Edge, form: Form) -> Edge:
    """The results of all trips: each trip writes its own."""
    return Edge(edge.name, form[0], form[1])


def branches(graph: Graph, index: Edge, tried: Sequence[Callable[[], list[Edge]]]) -> list[Edge]:
    """The branch that a known index takes; of others the one with the most work."""
    if index.scalar is not None:
        return tried[min(max(int(index.scalar), 0), len(tried) - 1)]()
    recorded: list[tuple[int, list[Step], list[Edge]]] = []
    for branch in tried:
        with graph.aside() as steps, graph.deeper():
            results = branch()
        recorded.append((sum(map(_weight, steps)), steps, results))
    weight, steps, results = max(recorded, key=lambda r: r[0])
    if weight:
        graph.note(LARGER_BRANCH)
    graph.steps.extend(steps)
    return [unvalued(e) if e.generated else e for e in results]


def _weight(step: Step) -> int:
    """Roughly the work of a step: results times the length of what each sums."""
    results = sum(e.numel for e in step.outputs if e is not None and e.shape is not None)
    length = 1
    if step.op == "xla::dot_general":
        shape = step.x().shape or ()
        length = prod(shape[d] for d in step.attrs["contract"][0])
    if step.op == "xla::convolution":
        weight, spec = step.x(1).shape or (), step.attrs["rhs"]
        length = prod(weight[d] for d in spec[1:])
    return step.repeat * results * length


def looped(
    graph: Graph,
    carried: Sequence[Edge],
    condition: _Condition,
    body: _Record,
    given: int | None,
    *,
    stated: bool = False,
) -> list[Edge] | None:
    """The body times its trips; None where nobody can say how many there are.

    Args:
        graph: Where steps go.
        carried: The values before the first trip.
        condition: Records what decides on another trip.
        body: Records a trip.
        given: The user's word for loops that depend on data.
        stated: Whether that is the program's own word.
    """
    states = [unvalued(e) for e in carried]
    with graph.aside() as tests, graph.deeper():
        decided = condition(states)
    with graph.aside() as steps, graph.deeper():
        results = body(states)
    trips = _trips(carried, states, results, decided, [*tests, *steps])
    if trips is None:
        trips, graph.open_loops = given, graph.open_loops or not stated
    if trips is None:
        graph.note(NO_TRIPS)
        return None
    if not trips:
        return list(carried)
    for step in steps:
        step.repeat *= trips
    graph.steps.extend(steps)
    graph.trace.carried += zip(states, results, strict=True)
    return list(results)


def _trips(
    carried: Sequence[Edge],
    states: Sequence[Edge],
    results: Sequence[Edge],
    decided: Edge,
    steps: Sequence[Step],
) -> int | None:
    """How often ``for (i = start; i < limit; i += step)`` runs."""
    makers = {e: s for s in steps for e in s.outputs if e is not None}
    test = makers.get(decided)
    if test is None or test.op != "Equal":
        return None
    found = _counter(test, states)
    if found is None:
        return None
    place, limit, flipped = found
    start = carried[place].scalar
    bound = _known(limit, carried, states, results)
    stride = _increment(makers.get(results[place]), states[place])
    if start is None or bound is None or not stride:
        return None
    direction = str(test.attrs.get("direction"))
    if flipped:
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    distance = (bound - start) if stride > 0 else (start - bound)
    if direction not in (("LT", "LE", "NE") if stride > 0 else ("GT", "GE", "NE")):
        return None
    if direction in ("LE", "GE"):
        distance += 1
    return max(0, -int(-distance // abs(stride)))


def _counter(test: Step, states: Sequence[Edge]) -> tuple[int, Edge, bool] | None:
    """The state that a test looks at, what it is compared with, whether it stands second."""
    for index in (0, 1):
        if test.x(index) in states:
            return states.index(test.x(index)), test.x(1 - index), index == 1
    return None


def _known(
    limit: Edge, carried: Sequence[Edge], states: Sequence[Edge], results: Sequence[Edge]
) -> float | None:
    """A limit that is a number, or a state that the body leaves alone."""
    if limit in states:
        place = states.index(limit)
        return carried[place].scalar if results[place] is limit else None
    return limit.scalar


def _increment(step: Step | None, state: Edge) -> float | None:
    """What a trip adds to the counter."""
    if step is None or step.op not in ("Add", "Sub") or state not in step.inputs:
        return None
    second = step.x(1) if step.x(0) is state else step.x(0)
    if second.scalar is None or (step.op == "Sub" and step.x(0) is not state):
        return None
    return second.scalar if step.op == "Add" else -second.scalar
