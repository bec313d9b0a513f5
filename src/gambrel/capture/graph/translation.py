"""What formats of stored graphs share: tables of their operators, rules for what is alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from gambrel.capture.graph.lowering import CONVOLUTION, COPY, REDUCE
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.control import LARGER_BRANCH, ONE_TRIP, step_weight
from gambrel.capture.onnx.edges import Edge
from gambrel.ops.rules import RuleTable
from gambrel.workload import Role

Rule: TypeAlias = Callable[[Writer, FileOperator], None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The operators of a format.

    Attributes:
        family: Name of the format, which stands before operators without a rule.
        rules: Operators that need more than a table.
        same: Operator → the operator of ONNX that does the same.
        functions: Operator → element-wise function.
        reductions: Operator → function of a reduction.
        copies: Operator → kind of copy of its first input.
        views: Operators whose result is their first input in another form.
        fills: Operators that write values made from nothing.
        free: Operators that are no work.
    """

    family: str
    rules: RuleTable[Rule]
    same: Mapping[str, str]
    functions: Mapping[str, str]
    reductions: Mapping[str, str]
    copies: Mapping[str, str] = field(default_factory=dict)
    views: Collection[str] = ()
    fills: Collection[str] = ()
    free: Collection[str]

    def translate(self, w: Writer, op: FileOperator) -> None:
        """Writes the steps of an operator; one without a rule is written as it is: unmodelled."""
        name = op.op
        if name in self.rules:
            self.rules[name](w, op)
        elif name in self.same:
            w.add(self.same[name], op.inputs, [op.out])
        elif name in self.functions:
            w.function(self.functions[name], op.inputs, op.out)
        elif name in self.reductions:
            _reduce(w, op, self.reductions[name])
        elif name in self.copies:
            w.add(COPY, [op.x()], [op.out], function=self.copies[name])
        elif name in self.views:
            reshape(w, op)
        elif name in self.fills:
            w.add("Constant", [], [op.out])
        elif name not in self.free:
            w.add(f"{self.family}::{name}", op.every_input, op.outputs)


def reshape(w: Writer, op: FileOperator) -> None:
    """The first input in another form; what is stored stays what it is."""
    source = w.of(op.x())
    if source.is_stored:
        w.alias(op.out, w.reshaped(source, op.out.shape or ()))
    else:
        w.add("Reshape", [source], [op.out])


def _reduce(w: Writer, op: FileOperator, function: str) -> None:
    if op.x().numel == op.out.numel and not function.startswith("arg"):
        reshape(w, op)
    else:
        w.add(REDUCE, [op.x()], [op.out], function=function)


def cast(w: Writer, op: FileOperator) -> None:
    """Another number format; what is stored is computed with as it is stored."""
    source = w.of(op.x())
    if source.is_stored or source.code == op.out.code:
        w.alias(op.out, source)
    else:
        w.add("Cast", [source], [op.out])


def squared_difference(w: Writer, op: FileOperator) -> None:
    """A difference, then its square."""
    between = w.between(op.out)
    w.function("sub", op.inputs, between)
    w.function("square", [between], op.out)


def read_state(_: Writer, op: FileOperator) -> None:
    """Memory that outlives a run is read where its value is used."""
    op.out.role = Role.STATE


def write_state(w: Writer, value: Edge, state: Edge | None = None) -> None:
    """A copy into memory that outlives a run."""
    target = w.between(value) if state is None else state
    target.role = Role.STATE
    w.add(COPY, [value], [target], function="contiguous")


def swapped(w: Writer, edge: Edge) -> Edge:
    """A matrix, or a batch of them, transposed."""
    shape = edge.shape or ()
    rank = len(shape)
    if rank < 2:
        return edge
    out = Edge(f"{edge.name}_swapped", (*shape[:-2], shape[-1], shape[-2]), edge.code)
    w.add("Transpose", [edge], [out], perm=[*range(rank - 2), rank - 1, rank - 2])
    return out


def matmul(w: Writer, op: FileOperator, sides: Iterable[tuple[Edge, object]]) -> None:
    """A product of matrices, each transposed where its flag says so."""
    given = [swapped(w, w.of(edge)) if flag else w.of(edge) for edge, flag in sides]
    w.add("MatMul", [*given], [op.out])


def convolve(
    w: Writer,
    inputs: list[Edge | None],
    out: Edge,
    kernel: tuple[int, ...],
    groups: int,
    *,
    transposed: bool = False,
) -> None:
    """A convolution of images (batch, channels, ...)."""
    x, made = (inputs[0].shape if inputs[0] else None) or (), out.shape or ()
    sizes: dict[str, Any] = {
        "batch": x[0],
        "out_channels": made[1],
        "in_channels": x[1],
        "groups": groups,
        "kernel": kernel,
        "spatial": x[2:] if transposed else made[2:],
        "transposed": transposed,
    }
    w.add(CONVOLUTION, inputs, [out], **sizes)


def one_branch(w: Writer, branches: Iterable[Callable[[], _T]], *, loop: bool = False) -> _T:
    """Writes each branch, and keeps the steps of the one that has most to do.

    Args:
        w: Where the steps go.
        branches: Each writes its steps and returns its results.
        loop: They are the condition and the body of a loop, of which the body is kept, once.
    """
    trace, before = w.trace, w.trace.steps
    tried = []
    for branch in branches:
        trace.steps = []
        results = branch()
        tried.append((trace.steps, results))
    trace.steps = before
    most = tried[-1] if loop else max(tried, key=lambda one: sum(map(step_weight, one[0])))
    w.note(ONE_TRIP if loop else LARGER_BRANCH)
    trace.steps.extend(most[0])
    return most[1]
