"""The layers of an OpenVINO IR as steps, at a batch; bodies of loops times their trip count."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from gambrel.capture.files.dynamic import DataTrips
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import one_branch
from gambrel.capture.graph.writer import Writer, role_of
from gambrel.capture.onnx.edges import Edge, FileRange
from gambrel.capture.openvino.model_file import CODES, IrLayer
from gambrel.capture.openvino.shapes import batch_of, completed
from gambrel.capture.openvino.translation import LAYERS
from gambrel.errors import FileFormatError, told
from gambrel.workload import Role

ONE_TRIP: Final = "a Loop whose trip count stands in the data is counted once (--size trip=N)"
_LOOPS: Final = frozenset({"TensorIterator", "Loop"})

#: IrLayer and port → edge.
_Edges = dict[tuple[str, str], Edge]


class LayerWalker:
    """Walks layers.

    Attributes:
        writer: Where steps go.
        trips: Of loops whose end stands in the data.
    """

    def __init__(self, writer: Writer, batch: int, trips: DataTrips) -> None:
        """Starts a walk.

        Args:
            writer: Where steps go.
            batch: Value of first sizes that the file leaves open.
            trips: Of loops whose end stands in the data.
        """
        self.writer = writer
        self.trips = trips
        self._batch = batch
        self._forms: set[Edge] = set()

    def run(self, layers: list[IrLayer]) -> None:
        """Walks the model."""
        edges: _Edges = {}
        for layer in layers:
            if layer.kind == "Parameter":
                for edge in self._parameter(layer, edges):
                    edge.role = Role.INPUT
                    self.writer.trace.inputs.append(edge)
        results = self._walk(layers, edges)
        self.writer.trace.outputs.extend(results.values())

    def _parameter(self, layer: IrLayer, edges: _Edges) -> list[Edge]:
        made = []
        for port, (shape, code) in layer.outputs.items():
            edge = Edge(layer.name, batch_of(shape, layer.name, self._batch), code)
            edges[layer.id, port] = edge
            made.append(edge)
        return made

    def _walk(self, layers: list[IrLayer], edges: _Edges) -> dict[str, Edge]:
        """Walks layers whose parameters are known; returns results by the layer's number."""
        results: dict[str, Edge] = {}
        for layer in layers:
            if layer.kind == "Parameter":
                if not any(key[0] == layer.id for key in edges):
                    self._parameter(layer, edges)
                continue
            sources = [self._source(layer, port, edges) for port in layer.inputs]
            if layer.kind == "Result":
                if sources:
                    results[layer.id] = self.writer.of(sources[0])
                continue
            self._layer(layer, sources, edges)
        return results

    def _source(self, layer: IrLayer, port: str, edges: _Edges) -> Edge:
        source = layer.sources.get(port)
        edge = None if source is None else edges.get(source)
        if edge is None:
            raise FileFormatError(f"the layer {told(layer.name)} lacks what feeds its port {port}.")
        return edge

    def _layer(self, layer: IrLayer, inputs: list[Edge], edges: _Edges) -> None:
        shapes = [self.writer.of(e).shape or () for e in inputs if not self.writer.of(e).is_stored]
        outputs: list[Edge | None] = []
        for port, (shape, code) in layer.outputs.items():
            known = completed(layer.kind, layer.name, shape, shapes, self._batch)
            edge = Edge(layer.name, known, code)
            edges[layer.id, port] = edge
            outputs.append(edge)
        if layer.kind in ("Const", "Constant"):
            self._constant(layer, outputs)
            return
        if self._is_form(layer, inputs):
            self._forms.update(e for e in outputs if e is not None)
            return
        self.writer.label = layer.kind
        self.writer.name = _module(layer.name)
        given: list[Edge | None] = [*inputs]
        if layer.kind in _LOOPS and layer.bodies:
            self._loop(layer, inputs, edges)
        elif layer.kind == "If" and len(layer.bodies) == 2:
            self._if(layer, inputs, edges)
        else:
            LAYERS.translate(
                self.writer, FileOperator(layer.kind, given, outputs, dict(layer.data))
            )

    def _is_form(self, layer: IrLayer, inputs: list[Edge]) -> bool:
        """Whether a layer only computes with sizes, which costs nothing."""
        live = [e for e in inputs if not self.writer.of(e).is_stored]
        return layer.kind == "ShapeOf" or (bool(live) and all(e in self._forms for e in live))

    def _constant(self, layer: IrLayer, outputs: list[Edge | None]) -> None:
        for edge in outputs:
            if edge is None:
                continue
            code = CODES.get(layer.data.get("element_type", "").lower(), edge.code)
            edge.code = code
            edge.place = _place(layer)
            edge.role = role_of(edge)
            if edge.numel == 1 and edge.role is Role.CONSTANT and code in (1, 10, 11, 16):
                edge.value = np.full((), np.nan)  # one number, which stands in the data
            self.writer.stored(edge)

    def _loop(self, layer: IrLayer, inputs: list[Edge], edges: _Edges) -> None:
        trips = self._count(layer, inputs)
        self.writer.repeat *= trips
        results = self._body(layer, layer.bodies[0], layer.maps[:1], inputs)
        self.writer.repeat //= trips
        self._hand_out(layer, layer.maps[0] if layer.maps else [], results, edges)

    def _count(self, layer: IrLayer, inputs: list[Edge]) -> int:
        """Trips of a loop over parts of a tensor; otherwise what the user says."""
        ports = list(layer.inputs)
        for entry in layer.maps[0] if layer.maps else []:
            port = entry.get("external_port_id", "")
            if entry["tag"] == "input" and "axis" in entry and port in ports:
                shape = inputs[ports.index(port)].shape or ()
                part = max(abs(int(entry.get("part_size", "1"))), 1)
                return max(shape[int(entry["axis"])] // part, 1)
        return max(self.trips.count(self.writer.note, ONE_TRIP), 1)

    def _body(
        self,
        layer: IrLayer,
        body: list[IrLayer],
        maps: list[list[dict[str, str]]],
        inputs: list[Edge],
    ) -> dict[str, Edge]:
        inner: _Edges = {}
        ports, own = list(layer.inputs), {part.id: part for part in body}
        for entry in (e for m in maps for e in m if e["tag"] == "input"):
            target = own.get(entry.get("internal_layer_id", ""))
            port = entry.get("external_port_id", "")
            if target is None or port not in ports or "axis" in entry:
                continue
            for key in target.outputs:
                inner[target.id, key] = self.writer.of(inputs[ports.index(port)])
        return self._walk(body, inner)

    def _hand_out(
        self,
        layer: IrLayer,
        entries: list[dict[str, str]],
        results: dict[str, Edge],
        edges: _Edges,
    ) -> None:
        """Results of a body as outputs of the layer, where they have the same sizes."""
        for entry in entries:
            key = (layer.id, entry.get("external_port_id", ""))
            made = results.get(entry.get("internal_layer_id", ""))
            if entry["tag"] != "output" or key not in edges or made is None:
                continue
            if edges[key].shape == made.shape:
                self.writer.alias(edges[key], made)

    def _if(self, layer: IrLayer, inputs: list[Edge], edges: _Edges) -> None:
        def branch(index: int) -> tuple[int, dict[str, Edge]]:
            maps = layer.maps[index : index + 1]
            return index, self._body(layer, layer.bodies[index], maps, inputs)

        tried = (partial(branch, index) for index in range(len(layer.bodies)))
        index, results = one_branch(self.writer, tried)
        self._hand_out(layer, layer.maps[index] if index < len(layer.maps) else [], results, edges)


def _place(layer: IrLayer) -> object:
    """The bytes of a constant in the .bin, by which equal ones are told."""
    offset, size = layer.data.get("offset", ""), layer.data.get("size", "")
    if not (offset.isdecimal() and size.isdecimal()):
        return ("data", offset or layer.id, size)
    return FileRange(int(offset), int(offset) + int(size))


def _module(name: str) -> str:
    """``__module.blocks.0.q/aten::linear/MatMul`` → ``blocks.0.q``; else dots for slashes."""
    path, torch, _ = name.partition("aten::")
    path = path.removeprefix("__module.") if torch else path
    return path.replace("/", ".").replace(":", ".").strip(".")
