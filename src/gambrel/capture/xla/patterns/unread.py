"""Steps whose results nobody reads: XLA removes them, and so must a count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gambrel.capture.onnx.edges import Edge, Step, Trace

#: What has an effect beside its result.
_EFFECTS = ("xla::send", "xla::recv", "xla::outfeed", "xla::infeed")
#: The next trip of a loop reads these.
HANDED_ON: Final = "xla::handed on"


def drop_unread(trace: Trace) -> None:
    """Takes them out; what a trip of a loop hands to the next one is read where that is read."""
    makers = {e: s for s in trace.steps for e in s.outputs if e is not None}
    seen = _read(trace, makers)
    ends = {last for first, last in trace.carried if first in seen and last in makers}
    steps: list[Step] = []
    for step in trace.steps:
        if step.op not in _EFFECTS and seen.isdisjoint(step.outputs):
            continue
        steps.append(step)
        handed_on = [e for e in step.outputs if e in ends]
        if handed_on:
            steps.append(Step(HANDED_ON, list(handed_on), [], label="carry"))
    trace.steps[:] = steps


def _read(trace: Trace, makers: Mapping[Edge, Step]) -> set[Edge | None]:
    """Every edge that leads to a result."""
    handed: dict[Edge, list[Edge]] = {}
    for first, last in trace.carried:
        handed.setdefault(first, []).append(last)
    waiting = list(trace.outputs)
    for step in trace.steps:
        if step.op in _EFFECTS:
            waiting.extend(e for e in step.inputs if e is not None)
    seen: set[Edge | None] = set()
    while waiting:
        edge = waiting.pop()
        if edge in seen:
            continue
        seen.add(edge)
        waiting.extend(handed.get(edge, ()))
        maker = makers.get(edge)
        if maker is not None:
            waiting.extend(e for e in maker.inputs if e is not None)
    return seen
