"""Ways through a graph that only look at the same numbers in another form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow

#: Another shape, another number format: the same numbers.
FORMS: Final = ("Reshape", "Expand", "Transpose", "Cast")

_PLAIN: Final = frozenset(
    {"Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "xla::rsqrt", "Relu", "Max", "Abs", *FORMS}
)


def back(flow: Flow, edge: Edge | None, ops: Iterable[str] = FORMS) -> tuple[Edge, list[Step]]:
    """The edge before steps that change its form, and these steps.

    Raises:
        ValueError: There is no edge.
    """
    if edge is None:
        raise ValueError("no edge")
    passed: list[Step] = []
    while (step := flow.made_by(edge, *ops)) is not None:
        passed.append(step)
        edge = step.x()
    return edge, passed


def forward(flow: Flow, edge: Edge, ops: Iterable[str] = FORMS) -> tuple[Edge, list[Step]]:
    """The edge behind steps that change its form and are its only readers."""
    passed: list[Step] = []
    while (step := flow.only_reader(edge, *ops)) is not None:
        passed.append(step)
        edge = step.out
    return edge, passed


def other(step: Step, edge: Edge) -> Edge:
    """The second operand of a step, seen from the first.

    Raises:
        ValueError: It has none.
    """
    found = step.input(1) if step.input(0) is edge else step.input(0)
    if found is None:
        raise ValueError(f"{step.op} has one operand")
    return found


def parameters(
    flow: Flow, edge: Edge, below: int, known: Iterable[Edge] = ()
) -> tuple[list[Step], list[Edge]] | None:
    """What a small operand is computed from, where these are parameters and numbers alone.

    Args:
        flow: The graph.
        edge: The operand, possibly repeated along dimensions.
        below: The steps before make fewer elements than this.
        known: Edges that may go in, too.

    Returns:
        Steps and parameters; None where an activation goes in.
    """
    steps: dict[Step, None] = {}
    leaves: dict[Edge, None] = {}
    accepted, waiting = set(known), [edge]
    while waiting:
        at = waiting.pop()
        if at in accepted or at.scalar is not None or at.generated:
            continue
        if at.is_stored:
            leaves[at] = None
            continue
        maker = flow.maker.get(at)
        if maker is None or maker.op not in _PLAIN or len(steps) > 20:
            return None
        if maker.op != "Expand" and at.numel >= below:
            return None
        steps[maker] = None
        waiting.extend(e for e in maker.inputs if e is not None)
    return list(steps), list(leaves)


def is_closed(flow: Flow, steps: Iterable[Step], end: Step) -> bool:
    """Whether nothing but the last step's result is read from outside."""
    inside = set(steps)
    edges = (e for s in inside if s is not end for e in s.outputs if e is not None)
    return all(flow.is_internal(e, inside) for e in edges)


def without_shared(flow: Flow, steps: Iterable[Step], end: Step) -> list[Step]:
    """Steps less those that outsiders read too (views of parameters that several ops share)."""
    kept = list(dict.fromkeys(steps))
    while True:
        inside = set(kept)
        shared = {
            s
            for s in kept
            if s is not end
            and not all(flow.is_internal(e, inside) for e in s.outputs if e is not None)
        }
        if not shared:
            return kept
        kept = [s for s in kept if s not in shared]
