"""The subgraphs of a TFLite model as steps: calls inlined, loops times their trip count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gambrel.capture.files.dynamic import DataTrips
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import one_branch
from gambrel.capture.graph.writer import Writer, role_of
from gambrel.capture.onnx.attributes import checked_shape
from gambrel.capture.onnx.edges import Edge, valueless
from gambrel.capture.onnx.folding import array_of_bytes
from gambrel.capture.tflite.model_file import (
    CODES,
    entries,
    operator_names,
    options_of,
    shape_of,
    text_of,
    value_of,
)
from gambrel.capture.tflite.translation import BUILTINS
from gambrel.errors import FileFormatError, told
from gambrel.workload import Role

#: Subgraphs within subgraphs.
_MAX_DEPTH: Final = 30
#: Operators visited, those of subgraphs walked again included.
_MAX_VISITS: Final = 500_000
ONE_TRIP: Final = "a WHILE whose trip count depends on data is counted once (--size trip=N)"


@dataclass(slots=True)
class _Scope:
    """A subgraph while it is walked: its tensors by number."""

    table: Any
    edges: dict[int, Edge | None]
    made: set[int]

    def check(self, index: int, edge: Edge | None) -> None:
        """Operators stand in the order in which they run.

        Raises:
            FileFormatError: A tensor is read before it is made.
        """
        if edge is None or edge.is_stored or edge.role is Role.STATE or index in self.made:
            return
        raise FileFormatError(f"the tensor {told(edge.name)} is read before it is made.")


class SubgraphWalker:
    """Walks a model.

    Attributes:
        writer: Where steps go.
        data_trips: Of loops that depend on data.
    """

    def __init__(self, model: Any, writer: Writer, trips: DataTrips) -> None:
        """Starts a walk.

        Args:
            model: The root table.
            writer: Where steps go.
            trips: Of loops that depend on data.
        """
        self.writer = writer
        self.data_trips = trips
        self._model = model
        self._visits = self._depth = 0
        self._codes = list(entries(model.OperatorCodes, model.OperatorCodesLength()))
        self._buffers = model.BuffersLength()

    def run(self) -> None:
        """Walks the first subgraph: the model.

        Raises:
            FileFormatError: It contradicts itself, is too large, or calls itself.
        """
        count = self._model.SubgraphsLength()
        if not count:
            raise FileFormatError("holds no subgraph; was the conversion interrupted?")
        scope = _Scope(self._model.Subgraphs(0), {}, set())
        trace = self.writer.trace
        given = list(entries(scope.table.Inputs, scope.table.InputsLength()))
        for index in given:
            edge = self._edge(scope, index)
            if edge is not None and not edge.is_stored:
                edge.role = Role.INPUT
                trace.inputs.append(edge)
        scope.made.update(given)
        self._note_open(scope, given)
        self._operators(scope)
        for index in entries(scope.table.Outputs, scope.table.OutputsLength()):
            edge = self._edge(scope, index)
            if edge is not None:
                trace.outputs.append(self.writer.of(edge))

    def _note_open(self, scope: _Scope, given: list[int]) -> None:
        tensors = [scope.table.Tensors(i) for i in given if i >= 0]
        for tensor in tensors:
            signature = entries(tensor.ShapeSignature, tensor.ShapeSignatureLength())
            if any(n < 0 for n in signature):
                self.writer.note(
                    "the file leaves sizes of its inputs open and is read at those that it carries"
                )

    def _edge(self, scope: _Scope, index: int) -> Edge | None:
        """The edge of a tensor of a subgraph; None for -1, an input left out."""
        if index < 0:
            return None
        if index in scope.edges:
            return scope.edges[index]
        if index >= scope.table.TensorsLength():
            raise FileFormatError(f"an operator names tensor {index:,}, which does not exist.")
        tensor = scope.table.Tensors(index)
        name = text_of(tensor.Name())
        edge = Edge(name, checked_shape(shape_of(tensor), name), CODES.get(tensor.Type(), 0))
        number = tensor.Buffer()
        if 0 < number < self._buffers:
            buffer = self._model.Buffers(number)
            if buffer.DataLength() > 0 or buffer.Size() > 0:
                edge.place = ("buffer", number)
                edge.value = value_of(tensor, buffer)
                edge.role = role_of(edge)
                self.writer.stored(edge)
        if tensor.IsVariable():
            edge.role = Role.STATE
        scope.edges[index] = edge
        return edge

    def _operators(self, scope: _Scope) -> None:
        table = scope.table
        for operator in entries(table.Operators, table.OperatorsLength()):
            self._visits += 1
            if self._visits > _MAX_VISITS:
                raise FileFormatError(f"more than {_MAX_VISITS:,} operators run; refused.")
            self._operator(scope, operator)

    def _operator(self, scope: _Scope, operator: Any) -> None:
        code = self._codes[operator.OpcodeIndex()]
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = operator_names().get(number, f"BUILTIN_{number}")
        inputs = []
        for index in entries(operator.Inputs, operator.InputsLength()):
            inputs.append(self._edge(scope, index))
            scope.check(index, inputs[-1])
        indices = list(entries(operator.Outputs, operator.OutputsLength()))
        scope.made.update(indices)
        outputs = [self._edge(scope, i) for i in indices]
        node = FileOperator(name, inputs, outputs, options_of(operator))
        self.writer.label = name
        if name == "CUSTOM":
            self.writer.label = f"CUSTOM:{text_of(code.CustomCode())[:80]}"
        self.writer.name = _module(outputs[0]) if outputs else ""
        flow = _FLOW.get(name)
        if flow is None:
            BUILTINS.translate(self.writer, node)
            return
        results = flow(self, node)
        for index, old, new in zip(indices, outputs, results, strict=False):
            if old is not None and new is not None:
                scope.edges[index] = new

    def call(self, number: int, inputs: list[Edge | None]) -> list[Edge | None]:
        """Walks a subgraph with these inputs; returns its results."""
        if not 0 <= number < self._model.SubgraphsLength():
            raise FileFormatError(f"an operator calls subgraph {number}, which does not exist.")
        if self._depth >= _MAX_DEPTH:
            raise FileFormatError(f"subgraphs nested more than {_MAX_DEPTH} deep; refused.")
        self._depth += 1
        formal_table = self._model.Subgraphs(number)
        formal = list(entries(formal_table.Inputs, formal_table.InputsLength()))
        scope = _Scope(formal_table, {}, set(formal))
        for index, edge in zip(formal, inputs, strict=False):
            scope.edges[index] = None if edge is None else self.writer.of(edge)
        self._operators(scope)
        results = entries(scope.table.Outputs, scope.table.OutputsLength())
        found = [self._edge(scope, i) for i in results]
        self._depth -= 1
        return [None if e is None else self.writer.of(e) for e in found]

    def stored_value(self, edge: Edge) -> Any:
        """The elements of a constant, however large; None where they are not in a buffer."""
        if not isinstance(edge.place, tuple) or edge.place[0] != "buffer":
            return None
        data = self._model.Buffers(edge.place[1]).DataAsNumpy()
        return None if isinstance(data, int) else array_of_bytes(bytes(data), edge)

    def trips(self, node: FileOperator) -> int:
        """How often the body of a WHILE runs."""
        counted = self._counted(node)
        if counted is not None:
            return counted
        return self.data_trips.count(self.writer.note, ONE_TRIP)

    def _counted(self, node: FileOperator) -> int | None:
        """Trips of a loop over a range: LESS(i, limit) of constants, one added to i each time."""
        table = self._model.Subgraphs(int(node.attrs.get("CondSubgraphIndex", 0)))
        if table is None or table.OperatorsLength() > 20:
            return None
        scope = _Scope(table, {}, set())
        formal = list(entries(table.Inputs, table.InputsLength()))
        for operator in entries(table.Operators, table.OperatorsLength()):
            code = self._codes[operator.OpcodeIndex()]
            if (
                operator_names().get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
                != "LESS"
            ):
                continue
            ends = []
            for index in (operator.Inputs(0), operator.Inputs(1)):
                edge = self._edge(scope, index)
                if index in formal and formal.index(index) < len(node.inputs):
                    edge = node.inputs[formal.index(index)]
                ends.append(None if edge is None else self.writer.of(edge).scalar)
            first, limit = ends
            if first is not None and limit is not None and first == 0 <= limit < 2**31:
                return int(limit)
        return None


def _module(out: Edge | None) -> str:
    """``net/block_1/Conv2D;net/block_1/Relu`` → ``net.block_1.Conv2D``."""
    return "" if out is None else out.name.partition(";")[0].replace("/", ".")


_Flow = Callable[[SubgraphWalker, FileOperator], list[Edge | None]]


def _while(walker: SubgraphWalker, node: FileOperator) -> list[Edge | None]:
    trips = walker.trips(node)
    carried = [valueless(e) for e in node.inputs]  # other values in each trip
    if trips == 0:
        return carried
    writer = walker.writer
    writer.repeat *= trips
    found = walker.call(int(node.attrs.get("BodySubgraphIndex", 0)), carried)
    writer.repeat //= trips
    return found


def _if(walker: SubgraphWalker, node: FileOperator) -> list[Edge | None]:
    numbers = (node.attrs.get(branch, 0) for branch in ("ThenSubgraphIndex", "ElseSubgraphIndex"))
    branches = (partial(walker.call, int(number), node.inputs[1:]) for number in numbers)
    return one_branch(walker.writer, branches)


def _call(walker: SubgraphWalker, node: FileOperator) -> list[Edge | None]:
    return walker.call(int(node.attrs.get("Subgraph", 0)), node.inputs)


def _composite(walker: SubgraphWalker, node: FileOperator) -> list[Edge | None]:
    return walker.call(int(node.attrs.get("DecompositionSubgraphIndex", 0)), node.inputs)


def _once(_walker: SubgraphWalker, node: FileOperator) -> list[Edge | None]:
    """Runs before the first inference only."""
    return node.outputs


_FLOW: Final[Mapping[str, _Flow]] = {
    "WHILE": _while,
    "STABLEHLO_WHILE": _while,
    "IF": _if,
    "CALL": _call,
    "STABLEHLO_COMPOSITE": _composite,
    "CALL_ONCE": _once,
}
