"""The instructions of an HLO module, in order: calls and fusions inlined, loops times trips."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from gambrel.capture.jax.scopes import module_of, phase_of
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.arguments import constant_role, role_of
from gambrel.capture.xla.control import branches, looped
from gambrel.capture.xla.elements import NUMPY
from gambrel.capture.xla.fused_attention import cudnn_call
from gambrel.capture.xla.graph import Graph, Operation
from gambrel.capture.xla.hlo.attributes import attributes_of, convolution
from gambrel.capture.xla.hlo.text import Computation, HloModule, Instruction, integers
from gambrel.errors import FileFormatError, told
from gambrel.workload import Phase

_Handler: TypeAlias = Callable[["HloWalker", Instruction, "list[Edge]"], "list[Edge]"]

#: Targets of custom calls that only mark something.
_MARKS: Final = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint")
_MAX_CONSTANT: Final = 256
_KNOWN_TRIPS: Final = re.compile(r'"known_trip_count":\{"n":"?(\d+)"?\}')
_NUMBER: Final = re.compile(r"-?(?:inf|nan|[\d.]+(?:e[+-]?\d+)?)|true|false")


class HloWalker:
    """Records a module.

    Attributes:
        graph: Where operations go.
    """

    def __init__(self, module: HloModule, graph: Graph, trips: int | None = None) -> None:
        """Starts a walk."""
        self.graph = graph
        self._module = module
        self._trips = trips

    def run(self) -> None:
        """Records the entry computation."""
        parameters = [i for i in self._module.entry.instructions if i.opcode == "parameter"]
        parameters.sort(key=lambda i: _index(i.operands[0]))
        given: list[list[Edge]] = []
        for i in parameters:
            name = _quoted(i.attrs.get("metadata", ""), "op_name") or f"arg{i.operands[0]}"
            given.append([self.graph.input(name, form, role_of(name)) for form in i.forms])
        self.graph.trace.outputs = self._walk(self._module.entry, given)

    def _walk(self, computation: Computation, given: Sequence[Sequence[Edge]]) -> list[Edge]:
        """A computation with its arguments, each one edge or, a tuple, several."""
        names: dict[str, list[Edge]] = {}
        result: list[Edge] = []
        with self.graph.deeper():
            for i in computation.instructions:
                if i.opcode == "parameter":
                    results = list(given[_index(i.operands[0])])
                else:
                    results = self._record(i, [names[n] for n in _read(i, names)])
                names[i.name] = results
                if i.is_root:
                    result = results
        return result

    def _record(self, i: Instruction, operands: list[list[Edge]]) -> list[Edge]:
        inputs = [edge for edges in operands for edge in edges]
        if i.opcode == "constant":
            return [self._constant(i)]
        if i.opcode == "tuple":
            return inputs
        if i.opcode == "get-tuple-element":
            return [inputs[int(i.attrs["index"])]]
        handler = _FLOW.get(i.opcode)
        return self.emit(i, inputs) if handler is None else handler(self, i, inputs)

    def emit(self, i: Instruction, inputs: list[Edge], name: str = "") -> list[Edge]:
        """Records an instruction."""
        op, attrs = attributes_of(i, self._module.computations)
        if op in ("reduce", "reduce_window", "argmax"):
            inputs = inputs[: len(inputs) // 2]
        elif op == "select_and_scatter":
            inputs = inputs[:2]
        place = _place(i)
        return self.graph.emit(Operation(name or op, inputs, i.forms, attrs, i.opcode, *place))

    def _constant(self, i: Instruction) -> Edge:
        form, text = i.forms[0], i.operands[0]
        count = prod(form[0])
        if form[1] in NUMPY and count <= _MAX_CONSTANT and "..." not in text:
            found = [_value(t) for t in _NUMBER.findall(text)]
            if len(found) == count:
                with np.errstate(all="ignore"):
                    value = np.asarray(found).astype(NUMPY[form[1]]).reshape(form[0])
                return self.graph.constant(value, form)
        return self.graph.input(f"constant_{i.name}", form, constant_role(form))

    def _called(self, i: Instruction, *names: str) -> Computation:
        """The computation that an attribute names.

        Raises:
            FileFormatError: There is none of that name.
        """
        name = next((i.attrs[n] for n in names if n in i.attrs), "").removeprefix("%")
        found = self._module.computations.get(name)
        if found is None:
            raise FileFormatError(f"the computation {told(name)} is called and not defined.")
        return found

    def call(self, i: Instruction, inputs: list[Edge]) -> list[Edge]:
        """A call or a fusion."""
        body = self._called(i, "to_apply", "calls")
        forms = [p.forms for p in body.instructions if p.opcode == "parameter"]
        if len(forms) == len(inputs):
            return self._walk(body, [[e] for e in inputs])
        return self._walk(body, _grouped(body, inputs))

    def loop(self, i: Instruction, inputs: list[Edge]) -> list[Edge]:
        """A while: its body times its trips."""
        test, body = self._called(i, "condition"), self._called(i, "body")
        known = _KNOWN_TRIPS.search(i.attrs.get("backend_config", ""))
        found = looped(
            self.graph,
            inputs,
            lambda edges: self._walk(test, [edges])[0],
            lambda edges: self._walk(body, [edges]),
            int(known[1]) if known else self._trips,
            stated=known is not None,
        )
        return self.emit(i, inputs, "while without a known trip count") if found is None else found

    def conditional(self, i: Instruction, inputs: list[Edge]) -> list[Edge]:
        """The larger branch; of two, the first is the one of true."""
        computations = self._module.computations
        listed = re.findall(r"[\w.\-]+", i.attrs.get("branch_computations", ""))
        if not listed:
            listed = [i.attrs[f"{n}_computation"].removeprefix("%") for n in ("false", "true")]
            inputs = [inputs[0], *inputs[1:][::-1]]
        given, tried = inputs[1:], []
        for position, name in enumerate(listed):
            body = computations.get(name)
            if body is None:
                raise FileFormatError(f"the computation {told(name)} is called and not defined.")
            own = given if len(listed) != len(given) else [given[position]]
            tried.append(partial(self._walk, body, [own]))
        return branches(self.graph, inputs[0], tried)

    def custom(self, i: Instruction, inputs: list[Edge]) -> list[Edge]:
        """A call by name: GEMMs and convolutions of libraries; marks; other kernels by name."""
        target = i.attrs.get("custom_call_target", "").strip('"')
        if target in _MARKS:
            return self.emit(i, inputs, "annotation")
        attrs: dict[str, Any] | None = None
        if target.startswith(("__cublas$gemm", "__cublas$lt$matmul")):
            attrs, op = _gemm(i.attrs.get("backend_config", "")), "dot_general"
        elif target.startswith("__cudnn$conv") and "Forward" in target:
            attrs, op = convolution(i), "convolution"
        place = _place(i)
        fused = cudnn_call(target, i.attrs.get("backend_config", ""), inputs)
        if fused is not None:
            name, operands, sizes = fused
            return self.graph.emit(Operation(name, operands, i.forms, sizes, target, *place))
        if attrs is None:
            return self.emit(i, inputs, f"custom_call {target}")
        forms = i.forms[:1]
        own = Operation(op, inputs[:2], forms, attrs, target, *place)
        rest = [Edge("", *form) for form in i.forms[1:]]
        return [*self.graph.emit(own), *rest]


def _gemm(config: str) -> dict[str, Any] | None:
    """Dimensions of a product of cuBLAS."""

    def dims(name: str) -> list[int]:
        found = re.search(rf'"{name}":\[([^\]]*)\]', config)
        return integers(found[1]) if found else []

    if "dot_dimension_numbers" not in config:
        return None
    return {
        "contract": (dims("lhs_contracting_dimensions"), dims("rhs_contracting_dimensions")),
        "batch": (dims("lhs_batch_dimensions"), dims("rhs_batch_dimensions")),
    }


_FLOW: Final[dict[str, _Handler]] = {
    "call": HloWalker.call,
    "fusion": HloWalker.call,
    "async-start": HloWalker.call,
    "async-done": lambda _, i, inputs: inputs[: len(i.forms)],
    "while": HloWalker.loop,
    "conditional": HloWalker.conditional,
    "custom-call": HloWalker.custom,
}


def _read(i: Instruction, names: dict[str, list[Edge]]) -> list[str]:
    """Names of operands that are computed.

    Raises:
        FileFormatError: One is not.
    """
    if i.opcode == "constant":
        return []
    missing = [n for n in i.operands if n not in names]
    if missing:
        raise FileFormatError(f"{told(i.name)} reads {told(missing[0])}, which is not computed.")
    return i.operands


def _grouped(body: Computation, inputs: list[Edge]) -> list[list[Edge]]:
    """Flat operands as the parameters of a computation take them, tuples together."""
    own = sorted(
        (i for i in body.instructions if i.opcode == "parameter"),
        key=lambda i: _index(i.operands[0]),
    )
    found, start = [], 0
    for i in own:
        found.append(inputs[start : start + len(i.forms)])
        start += len(i.forms)
    return found


def _index(text: str) -> int:
    return int(text.strip())


def _value(text: str) -> float | bool:
    return text == "true" if text in ("true", "false") else float(text)


def _quoted(metadata: str, key: str) -> str:
    found = re.search(rf'\b{key}="((?:[^"\\]|\\.)*)"', metadata)
    return found[1].replace("\\'", "'").replace('\\"', '"') if found else ""


def _place(i: Instruction) -> tuple[str, str, Phase]:
    """Module path, line and phase, from the metadata."""
    metadata = i.attrs.get("metadata", "")
    path = _quoted(metadata, "op_name").rpartition("/")[0]
    file = _quoted(metadata, "source_file")
    line = re.search(r"source_line=(\d+)", metadata)
    source = f"{Path(file).name}:{line[1]}" if file and line else ""
    return module_of(path), source, phase_of(path)
