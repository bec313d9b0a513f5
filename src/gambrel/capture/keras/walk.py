"""The calls of a Keras graph in the order in which their inputs are there, as steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from gambrel.capture.graph.writer import Writer
from gambrel.capture.keras import recurrent  # noqa: F401  # registers its rules
from gambrel.capture.keras.call import CODES, LayerCall
from gambrel.capture.keras.model_file import KerasGraph, KerasLayer, TensorRef
from gambrel.capture.keras.translation import (
    FREE,
    FUNCTIONS,
    MANY,
    ONE,
    RULES,
    activated,
)
from gambrel.capture.onnx.attributes import MAX_RANK
from gambrel.capture.onnx.edges import Edge
from gambrel.errors import FileFormatError, InputError, told
from gambrel.workload import Role

_Made = dict[TensorRef, Edge]


class GraphWalker:
    """Walks a graph at given sizes.

    Attributes:
        writer: Where steps go.
    """

    def __init__(self, writer: Writer, sizes: Mapping[str, int]) -> None:
        """Starts a walk.

        Args:
            writer: Where steps go.
            sizes: ``batch``, and ``image`` or ``seq`` where inputs leave them open.
        """
        self.writer = writer
        self._sizes = sizes

    def run(self, graph: KerasGraph) -> None:
        """Walks the model.

        Raises:
            InputError: An open size without a value.
            FileFormatError: Calls that wait for each other.
        """
        inputs = []
        for ref in graph.inputs:
            layer = graph.layers[ref.layer]
            edge = self._input(layer)
            edge.role = Role.INPUT
            self.writer.trace.inputs.append(edge)
            inputs.append(edge)
        outputs = self.graph(graph, inputs, "")
        self.writer.trace.outputs.extend(outputs)

    def _input(self, layer: KerasLayer) -> Edge:
        shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
        if not isinstance(shape, (list, tuple)):
            raise FileFormatError(f"the input {told(layer.name)} has no shape.")
        dtype = layer.config.get("dtype")
        code = CODES.get(dtype if isinstance(dtype, str) else "float32", 1)
        return Edge(layer.name, self._closed(tuple(shape), layer.name), code)

    def _closed(self, shape: tuple[Any, ...], name: str) -> tuple[int, ...]:
        """A form with the sizes that it leaves open."""
        if len(shape) > MAX_RANK:
            raise FileFormatError(f"the input {told(name)} has {len(shape):,} dimensions; refused.")
        kind = open_name(shape)
        found = []
        for axis, size in enumerate(shape):
            value = size if size is not None else self._sizes.get("batch" if axis == 0 else kind)
            if value is None:
                raise InputError(
                    f"the input {told(name)} leaves the size of dimension {axis} open; give it: "
                    f"--{kind} N."
                )
            if type(value) is not int or not 0 < value < 1 << 31:
                raise FileFormatError(f"the input {told(name)} has an impossible shape.")
            found.append(value)
        return tuple(found)

    def graph(self, graph: KerasGraph, inputs: list[Edge], prefix: str) -> list[Edge]:
        """Walks a model or one in it; returns its results."""
        made: _Made = dict(zip(graph.inputs, inputs, strict=False))
        waiting, users = _order(graph)
        ready = [key for key, count in waiting.items() if count == 0]
        left = len(waiting)
        while ready:
            name, index = ready.pop()
            left -= 1
            first = TensorRef(name, index, 0)
            if first not in made:
                results = self._call(graph, graph.layers[name], index, made, prefix)
                made |= {TensorRef(name, index, i): e for i, e in enumerate(results)}
            for user in users[name, index]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    ready.append(user)
        missing = next((ref for ref in graph.outputs if ref not in made), None)
        if left or missing is not None:
            raise FileFormatError("layers wait for each other; the archive is damaged.")
        return [made[ref] for ref in graph.outputs]

    def _call(
        self, graph: KerasGraph, layer: KerasLayer, index: int, made: _Made, prefix: str
    ) -> list[Edge]:
        path = f"{prefix}{layer.name}"
        values = layer.calls[index] if index < len(layer.calls) else ()
        inputs = [made[ref] for ref in _refs(values)]
        if layer.kind == "InputLayer":
            return [self._input(layer)]
        if layer.inner is not None:
            return self.graph(layer.inner, inputs, f"{path}.")
        stated = graph.shapes.get(TensorRef(layer.name, index, 0))
        form = self._stated(stated, inputs)
        self.writer.label, self.writer.name = layer.kind, path
        named = layer.keywords[index] if index < len(layer.keywords) else {}
        call = LayerCall(self.writer, layer.kind, path, layer.config, inputs, values, form, named)
        return [self._written(call)]

    def _stated(
        self, shape: tuple[int | None, ...] | None, inputs: list[Edge]
    ) -> tuple[int, ...] | None:
        """The form that the file gives a result, where only the batch is open in it."""
        if shape is None or not shape or any(n is None for n in shape[1:]):
            return None
        batch = next((e.shape[0] for e in inputs if e.shape), 1)
        return (batch if shape[0] is None else shape[0], *(int(n) for n in shape[1:] if n))

    def _written(self, call: LayerCall) -> Edge:
        steps, stored = len(self.writer.trace.steps), len(self.writer.trace.stored)
        try:
            out = translated(call)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            # A layer without a rule, or one that is used in a way that its rule does not know.
            del self.writer.trace.steps[steps:], self.writer.trace.stored[stored:]
            out = Edge(call.path, call.stated, call.code)
            self.writer.add(f"keras::{call.kind}", [*call.inputs], [out])
        if call.stated is not None and out.shape != call.stated:
            out = self.writer.reshaped(out, call.stated) if out.numel == prod(
                call.stated
            ) else Edge(call.path, call.stated, out.code)  # fmt: skip
        return out


def open_name(shape: Sequence[Any]) -> str:
    """What the sizes of an input are called that it leaves open behind the batch."""
    return "image" if len(shape) > 3 else "seq"


def translated(call: LayerCall) -> Edge:
    """The steps of a call.

    Raises:
        ValueError: No rule knows it.
    """
    kind, writer = call.kind, call.writer
    if kind in FREE:
        return call.x
    if kind in RULES:
        return RULES[kind](call)
    if kind == "Activation":
        return activated(call, call.x, call.config.get("activation"))
    if kind in FUNCTIONS:
        return activated(call, call.x, FUNCTIONS[kind])
    if kind in ONE or (kind in MANY and len(call.inputs) == 1):
        word = ONE.get(kind) or MANY[kind].lower()
        out = call.out(call.shape)
        if word[0].islower():
            writer.function(word, [call.x], out)
        else:
            writer.add(word, [call.x], [out])
        return out
    if kind in MANY:
        return _folded(call, MANY[kind])
    raise ValueError("no rule")


def _folded(call: LayerCall, word: str) -> Edge:
    """A function of two applied to all inputs, one after the other."""
    total = call.x
    for other in call.inputs[1:]:
        rank = max(len(total.shape or ()), len(other.shape or ()))
        both = [(1,) * (rank - len(e.shape or ())) + (e.shape or ()) for e in (total, other)]
        if any(a != b and 1 not in (a, b) for a, b in zip(*both, strict=True)):
            raise ValueError("forms that do not fit")
        out = call.out(tuple(map(max, *both)))
        call.writer.add(word, [total, other], [out])
        total = out
    return total


def _refs(values: Any) -> Iterator[TensorRef]:
    for value in values if isinstance(values, tuple) else ():
        if isinstance(value, TensorRef):
            yield value
        elif isinstance(value, tuple):
            yield from _refs(value)


def _order(
    graph: KerasGraph,
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], list[tuple[str, int]]]]:
    """How many calls each call waits for, and which wait for it."""
    waiting: dict[tuple[str, int], int] = {}
    users: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for name, layer in graph.layers.items():
        for index, values in enumerate(layer.calls or ((),)):
            sources = {(ref.layer, ref.call) for ref in _refs(values)}
            waiting[name, index] = len(sources)
            for source in sources:
                users[source].append((name, index))
    return waiting, users
