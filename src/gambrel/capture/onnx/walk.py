"""The nodes of a model at given sizes, in order: functions inlined, constants folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gambrel.capture.files.dynamic import DataTrips
from gambrel.capture.onnx import control, sequences
from gambrel.capture.onnx.aliases import alias_of
from gambrel.capture.onnx.attributes import attributes, checked_shape, described, stored
from gambrel.capture.onnx.edges import Edge, Step, Trace
from gambrel.capture.onnx.folding import constant, fold
from gambrel.capture.onnx.functions import body_of, instantiated
from gambrel.capture.onnx.lowering import is_lowered
from gambrel.capture.onnx.order import ordered
from gambrel.capture.onnx.shapes import ASSUMED, Form, form_of, infer
from gambrel.errors import FileFormatError, told
from gambrel.workload import Role

#: Nodes visited, those of functions and unrolled loops included.
_MAX_VISITS: Final = 500_000
#: Functions within functions, graphs within graphs.
_MAX_DEPTH: Final = 40


@dataclass(slots=True, eq=False)
class NameScope:
    """What the names of a graph mean; the graph around it is asked for the others."""

    edges: dict[str, Edge] = field(default_factory=dict)
    outer: NameScope | None = None

    def find(self, name: str) -> Edge | None:
        """The edge of a name, here or further out."""
        scope: NameScope | None = self
        while scope is not None:
            edge = scope.edges.get(name)
            if edge is not None:
                return edge
            scope = scope.outer
        return None


class Walker:
    """Walks a model at given sizes.

    Attributes:
        trace: What was met so far.
        steps: Where steps go: those of the trace, or of a branch that is only tried.
        repeat: How often what is being walked runs.
        module: Of the function that is being walked.
        trips: Of loops whose end depends on data.
    """

    def __init__(self, model: Any, forms: Mapping[str, Form], trips: DataTrips) -> None:
        """Starts a walk.

        Args:
            model: An ``onnx.ModelProto``.
            forms: Shape and type of each input.
            trips: Of loops whose end depends on data.
        """
        self.trips = trips
        self.model = model
        self.trace = Trace()
        self.steps = self.trace.steps
        self.repeat = 1
        self.module = ""
        self._forms = forms
        self._visits = self._depth = 0
        self._versions = {_domain(o.domain): o.version for o in model.opset_import}
        self._functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self._declared: dict[str, Form] = {}
        self._schemas: dict[tuple[str, str, int], Any] = {}
        self._held: dict[int, tuple[Any, dict[str, Edge]]] = {}
        self._opsets = list(model.opset_import)

    def run(self) -> Trace:
        """Walks the main graph.

        Raises:
            FileFormatError: The graph contradicts itself, is too large, or runs in a circle.
        """
        graph, trace = self.model.graph, self.trace
        self._declared = {
            i.name: form_of(i.type) for i in graph.value_info if i.type.HasField("tensor_type")
        }
        names = self.stored_names(graph, None)
        for given in graph.input:
            if given.name in names.edges:
                continue  # a default that older files list among the inputs
            shape, code = self._forms.get(given.name, (None, 0))
            edge = Edge(given.name, shape, code, role=Role.INPUT)
            names.edges[given.name] = edge
            trace.inputs.append(edge)
        self.walk(graph.node, names)
        for result in graph.output:
            returned = names.find(result.name)
            if returned is None:
                raise FileFormatError(f"the output {told(result.name)} is made by no node.")
            trace.outputs.append(returned)
        return trace

    def data_trips(self) -> int:
        """How often a loop runs whose end depends on data: as the user says, else once."""
        return self.trips.count(self.note, control.ONE_TRIP)

    def stored_names(self, graph: Any, outer: NameScope | None) -> NameScope:
        """A scope with the tensors that a graph holds."""
        held = self._held.get(id(graph))
        if held is None:
            edges = {tensor.name: stored(tensor) for tensor in graph.initializer}
            for sparse in graph.sparse_initializer:
                edge = stored(sparse.values)
                edge.shape = checked_shape(sparse.dims, edge.name)
                edge.value = None
                edges[edge.name] = edge
            self.trace.stored.extend(edges.values())
            held = self._held[id(graph)] = (graph, edges)  # kept alive: so is its id
        return NameScope(dict(held[1]), outer)

    def walk(self, nodes: Iterable[Any], names: NameScope) -> None:
        """Walks the nodes of a graph or function."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FileFormatError(
                f"functions or graphs nested more than {_MAX_DEPTH} deep; refused."
            )
        for node in ordered(nodes, names.find):
            self._visits += 1
            if self._visits > _MAX_VISITS:
                raise FileFormatError(f"more than {_MAX_VISITS:,} nodes to walk; refused.")
            self._visit(node, names)
        self._depth -= 1

    def _visit(self, node: Any, names: NameScope) -> None:
        domain = _domain(node.domain)
        inputs = [names.find(name) if name else None for name in node.input]
        function = self._functions.get((domain, node.op_type, node.overload))
        if function is not None:
            self._inline(node, instantiated(function, node), inputs, names)
            return
        op = f"{domain}::{node.op_type}" if domain else node.op_type
        attrs = attributes(node)
        module, source = described(node)
        step = Step(op, inputs, [], attrs, node.name, self.version(domain), module or self.module)
        step.source, step.repeat = source, self.repeat
        step.outputs = [Edge(name) if name else None for name in node.output]
        if op in control.FLOW:
            control.FLOW[op](self, step, node, names)
        elif not sequences.run(step, self.add):
            self._run(step, node, domain)
        for name, edge in zip(node.output, step.outputs, strict=False):
            if name and edge is not None:
                names.edges[name] = edge

    def _run(self, step: Step, node: Any, domain: str) -> None:
        """Folds a step, or finds the forms of its outputs and adds it."""
        if step.op == "Constant":
            step.outputs = [self._constant(step)]
            return
        values = fold(step)
        if values is not None and len(values) >= sum(e is not None for e in step.outputs):
            named = zip(step.outputs, values, strict=False)
            step.outputs = [None if e is None else constant(e.name, v) for e, v in named]
            return
        schema = self.schema(domain, node.op_type)
        if not is_lowered(step.op) and schema is not None:
            body = body_of(schema, node, step, self.version(domain))
            if body is not None:
                self._inline(node, body, step.inputs, None, step)
                return
        self._give_forms(step, infer(step, node, schema, self._opsets))
        same = alias_of(step)
        if same is not None:
            step.outputs = [same, *([None] * (len(step.outputs) - 1))]
            return
        self.add(step)

    def add(self, step: Step) -> None:
        """Appends a step that runs."""
        if step.op in ASSUMED:
            self.note(ASSUMED[step.op])
        self.steps.append(step)

    def note(self, sentence: str) -> None:
        """Remembers an assumption."""
        self.trace.notes[sentence] = None

    def version(self, domain: str) -> int:
        """Of the operator set of a domain."""
        return int(self._versions.get(domain, 1))

    def schema(self, domain: str, op: str) -> Any:
        """What onnx knows of an operator; None where it does not know it."""
        from onnx import defs

        key = (domain, op, self.version(domain))
        if key not in self._schemas:
            try:
                self._schemas[key] = defs.get_schema(op, max(key[2], 1), domain)
            except defs.SchemaError:
                self._schemas[key] = None
        return self._schemas[key]

    def _give_forms(self, step: Step, forms: list[Form]) -> None:
        for edge, (shape, code) in zip(step.outputs, forms, strict=False):
            if edge is None:
                continue
            edge.shape, edge.code = shape, code
            if shape is None and edge.name in self._declared:
                declared, named = self._declared[edge.name]
                edge.shape, edge.code = declared, named or code
            if edge.shape is not None:
                checked_shape(edge.shape, edge.name)

    def _inline(
        self,
        node: Any,
        body: Any,
        inputs: list[Edge | None],
        names: NameScope | None,
        step: Step | None = None,
    ) -> None:
        """Walks a function in place of the node that calls it."""
        pairs = zip(body.input, inputs, strict=False)
        inside = NameScope({name: edge for name, edge in pairs if edge is not None})
        before = self.module
        self.module = before or (described(node)[0] if step is None else step.module)
        outer_versions = dict(self._versions)
        self._versions.update({_domain(o.domain): o.version for o in body.opset_import})
        self.walk(body.node, inside)
        self._versions, self.module = outer_versions, before
        results = [inside.find(name) for name in body.output]
        if step is not None:
            wanted = zip(step.outputs, results, strict=False)
            step.outputs = [None if e is None else r for e, r in wanted]
            return
        for name, edge in zip(node.output, results, strict=False):
            if name and edge is not None and names is not None:
                names.edges[name] = edge

    def _constant(self, step: Step) -> Edge:
        """The edge of a Constant node."""
        import numpy as np

        name = step.out.name
        attrs = step.attrs
        for key, kind in _LITERALS.items():
            if key in attrs:
                return constant(name, np.asarray(attrs[key], kind))
        value = attrs.get("value")
        if isinstance(value, np.ndarray) and value.dtype.name in _KNOWN:
            edge = constant(name, value)
            edge.place = object()
            return edge
        if value is not None and hasattr(value, "dims") and hasattr(value, "data_type"):
            edge = stored(value, constant=True)
            edge.name = edge.name or name
            return edge
        return Edge(name)


_LITERALS: Final = {
    "value_int": "int64",
    "value_ints": "int64",
    "value_float": "float32",
    "value_floats": "float32",
}
_KNOWN: Final = frozenset({"float32", "float64", "float16", "int64", "int32", "int16", "int8"}) | {
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
