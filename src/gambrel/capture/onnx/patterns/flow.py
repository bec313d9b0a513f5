"""Who makes and who reads each edge of a trace, kept up to date while steps are replaced."""

from __future__ import annotations

from collections.abc import Iterable

from gambrel.capture.onnx.edges import Edge, Step, Trace


class Flow:
    """The steps of a trace as a graph.

    Attributes:
        trace: The trace; its list of steps changes only in `finish`.
    """

    def __init__(self, trace: Trace) -> None:
        """Links the steps of a trace."""
        self.trace = trace
        self.maker: dict[Edge, Step] = {}
        self._readers: dict[Edge, dict[Step, None]] = {}
        self._returned = set(trace.outputs)
        self._dropped: set[Step] = set()
        self._placed: dict[Step, Step] = {}
        self._order = {step: i for i, step in enumerate(trace.steps)}
        for step in trace.steps:
            self._link(step)

    def _link(self, step: Step) -> None:
        for edge in step.outputs:
            if edge is not None:
                self.maker[edge] = step
        for edge in step.inputs:
            if edge is not None:
                self._readers.setdefault(edge, {})[step] = None

    def steps(self, *ops: str) -> list[Step]:
        """Steps of certain operators that are still there, in order."""
        return [s for s in self.trace.steps if s.op in ops and s not in self._dropped]

    def readers(self, edge: Edge) -> list[Step]:
        """The steps that read an edge."""
        return list(self._readers.get(edge, ()))

    def made_by(self, edge: Edge | None, *ops: str) -> Step | None:
        """The step that makes an edge, if it is of one of these operators."""
        step = None if edge is None else self.maker.get(edge)
        return step if step is not None and step.op in ops else None

    def only_reader(self, edge: Edge, *ops: str) -> Step | None:
        """The one step that reads an edge, if it is of one of these operators."""
        readers = self.readers(edge)
        if len(readers) != 1 or edge in self._returned or readers[0].op not in ops:
            return None
        return readers[0]

    def is_internal(self, edge: Edge, steps: Iterable[Step]) -> bool:
        """Whether only these steps read an edge."""
        inside = set(steps)
        return edge not in self._returned and all(r in inside for r in self._readers.get(edge, ()))

    def is_returned(self, edge: Edge) -> bool:
        """Whether the model returns it."""
        return edge in self._returned

    def replace(self, steps: Iterable[Step], by: Step) -> None:
        """Puts one step in the place of several, where the last of them stands.

        Args:
            steps: Of which only the new step's outputs are read from outside.
            by: The new step.
        """
        gone = set(steps)
        last = max((self._anchor(s) for s in gone), key=lambda s: self._order.get(s, -1))
        for step in gone:
            self._unlink(step)
        self._placed[by] = last
        self._link(by)

    def drop(self, step: Step) -> None:
        """Takes a step out; nothing may read its outputs any more."""
        self._unlink(step)

    def drop_unread(self, edge: Edge) -> None:
        """Takes the steps out that only made an edge which nothing reads any more."""
        waiting = [edge]
        while waiting:
            at = waiting.pop()
            step = self.maker.get(at)
            if step is None or any(e and not self.is_internal(e, ()) for e in step.outputs):
                continue
            self._unlink(step)
            waiting.extend(e for e in step.inputs if e is not None)

    def redirect(self, step: Step, index: int, edge: Edge | None) -> None:
        """Gives a step another input, or none."""
        old = step.inputs[index]
        step.inputs[index] = edge
        if old is not None and old not in step.inputs:
            self._readers[old].pop(step, None)
        if edge is not None:
            self._readers.setdefault(edge, {})[step] = None

    def finish(self) -> None:
        """Writes what is left into the trace."""
        after: dict[Step, list[Step]] = {}
        for new, anchor in self._placed.items():
            if new not in self._dropped:
                after.setdefault(anchor, []).append(new)
        found: list[Step] = []
        for step in self.trace.steps:
            if step not in self._dropped:
                found.append(step)
            found.extend(after.get(step, ()))
        self.trace.steps = found

    def _anchor(self, step: Step) -> Step:
        while step in self._placed:
            step = self._placed[step]
        return step

    def _unlink(self, step: Step) -> None:
        self._dropped.add(step)
        for edge in step.outputs:
            if edge is not None and self.maker.get(edge) is step:
                del self.maker[edge]
        for edge in step.inputs:
            if edge is not None and edge in self._readers:
                self._readers[edge].pop(step, None)


def successor(step: Step, op: str, inputs: list[Edge | None], out: Edge) -> Step:
    """A step of another operator with the place and the name of one that it replaces."""
    found = Step(op, inputs, [out], {}, step.name, step.version, step.module)
    found.source, found.repeat, found.phase = step.source, step.repeat, step.phase
    return found
