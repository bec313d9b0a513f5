"""Steps of a trace as a reader writes them: what is only another name is no step."""

from __future__ import annotations

from typing import Any

from gambrel.capture.graph.lowering import FUNCTION
from gambrel.capture.onnx.edges import Edge, Step, Trace
from gambrel.workload import Role

#: Operator set whose meaning of attributes the steps have.
_VERSION = 18
#: Largest power of a loop's trips in loops.
_MAX_REPEAT = 2**40


class Writer:
    """Writes steps.

    Attributes:
        trace: What was written so far.
        repeat: How often what is being written runs.
        label: What reports call the operator that is being written.
        name: Of that operator in its file.
    """

    def __init__(self, family: str) -> None:
        """Starts a trace of a format."""
        self.trace = Trace(family=family)
        self.repeat = 1
        self.label = self.name = ""
        self._same: dict[Edge, Edge] = {}

    def add(
        self, op: str, inputs: list[Edge | None], outputs: list[Edge | None], **attrs: Any
    ) -> Step:
        """Writes one step; inputs are followed to what they stand for."""
        read = [None if e is None else self.of(e) for e in inputs]
        step = Step(op, read, outputs, attrs, self.name, _VERSION, self.name)
        step.label, step.repeat = self.label, min(self.repeat, _MAX_REPEAT)
        self.trace.steps.append(step)
        return step

    def function(self, name: str, inputs: list[Edge | None], out: Edge) -> Step:
        """Writes an element-wise function."""
        return self.add(FUNCTION, inputs, [out], function=name)

    def alias(self, out: Edge, source: Edge) -> None:
        """Lets one edge stand for another."""
        self._same[out] = self.of(source)

    def of(self, edge: Edge) -> Edge:
        """What an edge stands for."""
        return self._same.get(edge, edge)

    def between(self, like: Edge, code: int | None = None) -> Edge:
        """A new edge of the form of another."""
        return Edge(f"{like.name}_part", like.shape, like.code if code is None else code)

    def reshaped(self, edge: Edge, shape: tuple[int, ...]) -> Edge:
        """The memory of an edge under another shape: a stored one keeps its identity."""
        source = self.of(edge)
        found = Edge(source.name, shape, source.code, None, source.role, source.place)
        if source.is_stored:
            return found
        self.add("Reshape", [source], [found])
        return found

    def note(self, sentence: str) -> None:
        """Something that had to be assumed."""
        self.trace.notes[sentence] = None

    def stored(self, edge: Edge) -> Edge:
        """Counts an edge among what the file holds."""
        self.trace.stored.append(edge)
        return edge


def is_weight(edge: Edge) -> bool:
    """Whether a stored tensor is a parameter until an operator says otherwise."""
    return edge.code in (1, 10, 11, 16) and edge.numel > 1


def role_of(edge: Edge) -> Role:
    """The role of a stored tensor until an operator says otherwise."""
    return Role.WEIGHT if is_weight(edge) else Role.CONSTANT
