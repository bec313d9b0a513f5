"""The operations of an ML program as steps."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from gambrel.capture.coreml.translation import PROGRAMS
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import one_branch
from gambrel.capture.graph.writer import Writer, role_of
from gambrel.capture.onnx.attributes import checked_shape
from gambrel.capture.onnx.edges import Edge
from gambrel.errors import FileFormatError, told
from gambrel.workload import Role

#: CoreML.Specification.MILSpec.DataType → onnx.TensorProto.DataType.
CODES: Final[dict[int, int]] = {
    1: 9,
    10: 10,
    11: 1,
    12: 11,
    13: 16,
    21: 3,
    22: 5,
    23: 6,
    24: 7,
    25: 22,
    31: 2,
    32: 4,
    33: 12,
    34: 13,
    35: 21,
    36: 25,
    40: 17,
    41: 19,
}
_MAX_DEPTH: Final = 20
#: Parameters that are operands, in this order; all others are options.
_OPERANDS: Final = ("cond", "x", "y", "a", "b", "input")
_SHAPES: Final = "fix them with ct.TensorType(shape=...) and convert the model again"


class BlockWalker:
    """Walks blocks of operations."""

    def __init__(self, writer: Writer) -> None:
        """Starts a walk."""
        self.writer = writer
        self._values: dict[str, Edge] = {}
        self._texts: dict[str, str] = {}
        self._names: set[str] = set()
        self._depth = 0

    def run(self, program: dict[str, Any]) -> None:
        """Walks a function."""
        trace = self.writer.trace
        for given in program["inputs"]:
            self._names.add(given.get("name", ""))
            edge = self._edge(given)
            if edge is not None:
                edge.role = Role.STATE if "state" in given.get("type", {}) else Role.INPUT
                self._values[edge.name] = edge
                trace.inputs.append(edge)
        trace.outputs.extend(self._block(program["block"]))

    def _block(self, block: dict[str, Any]) -> list[Edge]:
        for operation in block.get("operations", []):
            self._operation(operation)
        found = []
        for name in block.get("outputs", []):
            edge = self._values.get(name)
            if edge is None:
                raise FileFormatError(f"the output {told(name)} is made by no operation.")
            found.append(self.writer.of(edge))
        return found

    def _edge(self, named: dict[str, Any]) -> Edge | None:
        """The edge of a name and a type; None for what is no tensor."""
        kind = named.get("type", {})
        kind = kind.get("state", {}).get("wrapped", kind)
        tensor = kind.get("tensor")
        if tensor is None:
            return None
        name = named.get("name", "")
        return Edge(name, _shape(tensor, name), CODES.get(tensor.get("code", 0), 0))

    def _operation(self, operation: dict[str, Any]) -> None:
        kind = operation.get("type", "")
        outputs = [self._edge(o) for o in operation.get("outputs", [])]
        attributes = {a.get("key", ""): a.get("value", {}) for a in operation.get("attributes", [])}
        if kind == "const":
            self._constant(outputs, attributes.get("val", {}))
            self._name(operation, outputs)
            return
        name = _text(attributes.get("name", {})) or (
            outputs[0].name if outputs[0:1] and outputs[0] else ""
        )
        found = FileOperator(kind, [], outputs)
        pairs = [(e.get("key", ""), e.get("value", {})) for e in operation.get("inputs", [])]
        pairs += [(k, {"arguments": [{"value": v}]}) for k, v in attributes.items() if k != "name"]
        for key, argument in pairs:
            self._argument(found, key, argument)
        self._name(operation, outputs)
        found.inputs = [found.maybe(name) for name in _OPERANDS if name in found.named]
        blocks = operation.get("blocks", [])
        if blocks:
            self._flow(found, blocks)
            return
        self.writer.label, self.writer.name = kind, name.replace("/", ".")
        PROGRAMS.translate(self.writer, found)

    def _name(self, operation: dict[str, Any], outputs: list[Edge | None]) -> None:
        """From here on others may read what an operation makes."""
        self._names.update(o.get("name", "") for o in operation.get("outputs", []))
        self._values |= {edge.name: edge for edge in outputs if edge is not None}

    def _argument(self, operation: FileOperator, key: str, argument: dict[str, Any]) -> None:
        for binding in argument.get("arguments", []):
            name = binding.get("name")
            if name is not None:
                if name not in self._names:
                    raise FileFormatError(f"{told(name)} is read before it is made.")
                if name in self._texts:
                    operation.attrs[key] = self._texts[name]
                edge = self._values.get(name)
            else:
                value = binding.get("value", {})
                text = _text(value)
                if text:
                    operation.attrs[key] = text
                edge = self._literal(key, value)
            if edge is not None:
                operation.named.setdefault(key, []).append(edge)

    def _literal(self, name: str, value: dict[str, Any]) -> Edge | None:
        edge = self._edge({"name": name, "type": value.get("type", {})})
        if edge is not None:
            self._store(edge, value)
        return edge

    def _constant(self, outputs: list[Edge | None], value: dict[str, Any]) -> None:
        for edge in outputs:
            if edge is None:
                continue
            text = _text(value)
            if text:
                self._texts[edge.name] = text
            self._store(edge, value)

    def _store(self, edge: Edge, value: dict[str, Any]) -> None:
        blob = value.get("blob")
        edge.place = ("blob", blob.get("offset", 0)) if blob is not None else object()
        edge.role = role_of(edge)
        elements = value.get("immediate", {}).get("tensor", {})
        numbers = (elements.get("floats") or elements.get("ints") or {}).get("values")
        if numbers is not None and len(numbers) == edge.numel:
            edge.value = np.asarray(numbers).reshape(edge.shape or ())
        if edge.is_known:
            self.writer.stored(edge)

    def _flow(self, operation: FileOperator, blocks: list[dict[str, Any]]) -> None:
        """The larger branch of a cond; the body of a loop once."""
        if self._depth >= _MAX_DEPTH:
            raise FileFormatError(f"blocks nested more than {_MAX_DEPTH} deep; refused.")
        self._depth += 1
        branches = (partial(self._branch, operation, block) for block in blocks)
        results = one_branch(self.writer, branches, loop=operation.op == "while_loop")
        self._depth -= 1
        for out, made in zip(operation.outputs, results, strict=False):
            if out is not None:
                self.writer.alias(out, made)

    def _branch(self, operation: FileOperator, block: dict[str, Any]) -> list[Edge]:
        loops = operation.named.get("loop_vars", [])
        for formal, edge in zip(block.get("inputs", []), loops, strict=False):
            self._values[formal.get("name", "")] = edge
        self._names.update(formal.get("name", "") for formal in block.get("inputs", []))
        return self._block(block)


def _shape(tensor: dict[str, Any], name: str) -> tuple[int, ...]:
    sizes = []
    for dimension in tensor.get("dimensions", []):
        if "constant" not in dimension:
            raise FileFormatError(f"the tensor {told(name)} leaves sizes open; {_SHAPES}.")
        sizes.append(dimension["constant"].get("size", 0))
    return checked_shape(sizes, name)


def _text(value: dict[str, Any]) -> str:
    texts = value.get("immediate", {}).get("tensor", {}).get("texts", {}).get("values", [])
    return texts[0] if texts else ""
