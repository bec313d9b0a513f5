"""Operations of XLA recorded as steps: what costs nothing is evaluated or handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gambrel.capture.onnx.attributes import checked_shape
from gambrel.capture.onnx.edges import Edge, Step, Trace
from gambrel.errors import FileFormatError
from gambrel.ops.rules import RuleTable
from gambrel.workload import Phase, Role

#: Shape and onnx.TensorProto.DataType of a result.
Form: TypeAlias = tuple[tuple[int, ...], int]

#: Operations recorded, those of called functions and unrolled loops included.
_MAX_STEPS: Final = 1_000_000
#: Calls within calls.
_MAX_DEPTH: Final = 200


@dataclass(slots=True)
class Operation:
    """One operation under its StableHLO name.

    Attributes:
        op: The name, e.g. ``"dot_general"``.
        inputs: Operands.
        forms: Of the results.
        attrs: Numbers and texts under the names that `vocabulary` reads.
        title: What the front end calls it, e.g. a primitive of JAX.
        module: Path of the module that it belongs to.
        source: ``file.py:line``.
        phase: Forward or backward.
    """

    op: str
    inputs: Sequence[Edge]
    forms: Sequence[Form]
    attrs: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    module: str = ""
    source: str = ""
    phase: Phase = Phase.FORWARD

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first result."""
        return self.forms[0][0]

    @property
    def code(self) -> int:
        """Element type of the first result."""
        return self.forms[0][1]


Handler: TypeAlias = Callable[["Graph", Operation], "list[Edge]"]
#: Registers the decorated function for operations.
handles: Final[RuleTable[Handler]] = RuleTable("operation")


class Graph:
    """Records the operations of one program.

    Attributes:
        trace: What was recorded.
        steps: Where steps go: those of the trace, or of a branch that is only tried.
        repeat: How often what is being recorded runs.
        open_loops: Whether a loop was met whose trips only the user can say.
    """

    def __init__(self, family: str) -> None:
        """Starts a record.

        Args:
            family: What stands before the names of ops in reports: ``"jax"``, ``"stablehlo"``.
        """
        self.trace = Trace(family=family)
        self.steps = self.trace.steps
        self.repeat, self.open_loops = 1, False
        self._count = self._depth = 0

    def note(self, sentence: str) -> None:
        """Remembers an assumption."""
        self.trace.notes[sentence] = None

    def input(self, name: str, form: Form, role: Role = Role.INPUT) -> Edge:
        """An argument of the program."""
        edge = Edge(name, checked_shape(form[0], name), form[1], role=role)
        if role is not Role.INPUT:
            edge.place = object()
            self.trace.stored.append(edge)
        else:
            self.trace.inputs.append(edge)
        return edge

    def constant(self, value: Any, form: Form) -> Edge:
        """A constant of known value, with size 1 along what it does not depend on."""
        return Edge("", form[0], form[1], value, Role.CONSTANT, generated=True)

    def emit(self, operation: Operation) -> list[Edge]:
        """Records an operation and returns its results."""
        for shape, _ in operation.forms:
            checked_shape(shape, operation.op)
        handler = handles.get(operation.op)
        if handler is None:
            return self.step(operation, f"xla::{operation.op}", operation.inputs)
        try:
            return handler(self, operation)
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError):
            return self.step(operation, f"xla::unread {operation.op}", operation.inputs)

    def step(
        self,
        operation: Operation,
        op: str,
        inputs: Sequence[Edge | None],
        attrs: dict[str, Any] | None = None,
        forms: Sequence[Form] | None = None,
    ) -> list[Edge]:
        """Appends a step that stands for an operation, or for a part of one."""
        self._count += 1
        if self._count > _MAX_STEPS:
            raise FileFormatError(f"more than {_MAX_STEPS:,} operations to read; refused.")
        outputs = [Edge("", s, c) for s, c in (operation.forms if forms is None else forms)]
        given = operation.attrs if attrs is None else attrs
        step = Step(op, list(inputs), list(outputs), given, "", 20, operation.module)
        step.source, step.repeat, step.phase = operation.source, self.repeat, operation.phase
        step.label = operation.title or operation.op
        self.steps.append(step)
        return outputs

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """What is recorded within runs so many times."""
        before = self.repeat
        self.repeat = before * max(times, 1)
        with self.deeper():
            yield
        self.repeat = before

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """A call, a loop, a branch.

        Raises:
            FileFormatError: Too many of them within each other.
        """
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FileFormatError(f"calls nested more than {_MAX_DEPTH} deep; refused.")
        yield
        self._depth -= 1

    @contextmanager
    def aside(self) -> Iterator[list[Step]]:
        """What is recorded within goes into a list of its own."""
        before, self.steps = self.steps, []
        try:
            yield self.steps
        finally:
            self.steps = before
