"""StableHLO modules, text and bytecode, through the MLIR that jaxlib brings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.capture.jax.scopes import module_of, phase_of
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.arguments import constant_role, role_of
from gambrel.capture.xla.control import branches, looped
from gambrel.capture.xla.elements import CODES, NUMPY
from gambrel.capture.xla.fused_attention import cudnn_call
from gambrel.capture.xla.graph import Form, Graph, Operation
from gambrel.capture.xla.mlir_attributes import attributes_of
from gambrel.errors import FileFormatError, told
from gambrel.workload import Phase

#: Larger constants are tensors that the model keeps.
_MAX_CONSTANT: Final = 256

#: Targets of custom calls that only say something to the compiler.
_SAME_TARGETS: Final = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "LayoutConstraint",
)


class ModuleWalker:
    """Records a module.

    Attributes:
        graph: Where operations go.
    """

    def __init__(self, module: Any, graph: Graph, trips: int | None = None) -> None:
        """Starts a walk.

        Raises:
            FileFormatError: There is no function to begin with.
        """
        self.graph = graph
        self._trips = trips
        self._functions = {_name(f): f for f in module.body.operations if _kind(f) == "func.func"}
        if not self._functions:
            raise FileFormatError("the module has no function.")

    def run(self) -> None:
        """Records the public function."""
        main = self._functions.get("main") or next(iter(self._functions.values()))
        block = main.regions[0].blocks[0]
        given = []
        for i, argument in enumerate(block.arguments):
            name = argument_name(argument, i)
            given.append(self.graph.input(name, form_of(argument.type), role_of(name)))
        self.graph.trace.outputs = self._block(block, given, {})

    def _block(self, block: Any, given: Sequence[Edge], outer: Mapping[Any, Edge]) -> list[Edge]:
        """A block with its arguments; what its last operation hands on."""
        names = dict(outer)
        names.update(zip(block.arguments, given, strict=True))
        with self.graph.deeper():
            for op in block.operations:
                operation = op.operation
                inputs = [names[v] for v in operation.operands]
                if _kind(op).endswith("return"):
                    return inputs
                results = self._record(operation, inputs, names)
                names.update(zip(operation.results, results, strict=True))
        return []

    def _record(self, op: Any, inputs: list[Edge], names: Mapping[Any, Edge]) -> list[Edge]:
        kind = op.name
        flow = _FLOW.get(kind)
        if flow is not None:
            return flow(self, op, inputs, names)
        if kind == "stablehlo.constant":
            return [self._constant(op)]
        return self.emit(op, inputs)

    def emit(self, op: Any, inputs: list[Edge], name: str = "") -> list[Edge]:
        """Records an operation under its own name."""
        plain = op.name
        if op.context.is_registered_operation(plain):  # not those of dialects that are not known
            plain = plain.partition(".")[2]
        forms = [form_of(v.type) for v in op.results]
        found, attrs = attributes_of(op, name or plain)
        if found in ("reduce", "reduce_window", "argmax", "scatter", "select_and_scatter"):
            inputs = _without_starts(found, inputs)
        place = place_of(str(op.location))
        return self.graph.emit(Operation(found, inputs, forms, attrs, plain, *place))

    def _constant(self, op: Any) -> Edge:
        """Numbers are known where they are few or all the same; real tensors are parameters."""
        value, form = op.attributes["value"], form_of(op.results[0].type)
        if getattr(value, "is_splat", False):
            number = _splat(value, form[1])
            if number is not None:
                return self.graph.constant(np.full((1,) * len(form[0]), number), form)
        if form[1] in NUMPY and np.prod(form[0]) <= _MAX_CONSTANT and form[1] != 16:
            known = np.array(value).astype(NUMPY[form[1]]).reshape(form[0])
            return self.graph.constant(known, form)
        return self.graph.input("constant", form, constant_role(form))

    def call(self, op: Any, inputs: list[Edge], _: Mapping[Any, Edge]) -> list[Edge]:
        """A function of the module."""
        callee = op.attributes["callee" if "callee" in op.attributes else "decomposition"]
        function = self._functions.get(callee.value)
        if function is None:
            raise FileFormatError(f"the function {told(callee.value)} is called and not defined.")
        return self._block(function.regions[0].blocks[0], inputs, {})

    def loop(self, op: Any, inputs: list[Edge], names: Mapping[Any, Edge]) -> list[Edge]:
        """A while: its body times its trips."""
        test, body = (region.blocks[0] for region in op.regions)
        found = looped(
            self.graph,
            inputs,
            lambda edges: self._block(test, edges, names)[0],
            lambda edges: self._block(body, edges, names),
            self._trips,
        )
        return self.emit(op, inputs, "while without a known trip count") if found is None else found

    def case(self, op: Any, inputs: list[Edge], names: Mapping[Any, Edge]) -> list[Edge]:
        """A case or an if: the larger branch."""
        index = inputs[0]
        regions = list(op.regions)
        if op.name.endswith(".if"):  # the first region is the one of true
            regions = regions[::-1]
        tried: list[Callable[[], list[Edge]]] = []
        for region in regions:
            block = region.blocks[0]
            tried.append(partial(self._block, block, [], names))
        return branches(self.graph, index, tried)

    def inside(self, op: Any, inputs: list[Edge], names: Mapping[Any, Edge]) -> list[Edge]:
        """A region that takes the operands (a manual computation on a mesh)."""
        block = op.regions[0].blocks[0]
        local = [_of_form(e, form_of(a.type)) for e, a in zip(inputs, block.arguments, strict=True)]
        return self._block(block, local, names)

    def custom(self, op: Any, inputs: list[Edge], _: Mapping[Any, Edge]) -> list[Edge]:
        """A call by name: marks are handed on, kernels are named."""
        target = str(getattr(op.attributes["call_target_name"], "value", ""))
        if target in _SAME_TARGETS:
            return self.emit(op, inputs, "annotation")
        config = op.attributes.get("backend_config", "")
        fused = cudnn_call(target, str(getattr(config, "value", "")), inputs)
        if fused is not None:
            name, operands, attrs = fused
            forms, place = [form_of(v.type) for v in op.results], place_of(str(op.location))
            return self.graph.emit(Operation(name, operands, forms, attrs, target, *place))
        return self.emit(op, inputs, f"custom_call {target}")


def _of_form(edge: Edge, form: Form) -> Edge:
    if edge.shape != form[0] and edge.value is None:
        edge.shape = form[0]
    return edge


_Flow = Callable[["ModuleWalker", Any, "list[Edge]", "Mapping[Any, Edge]"], "list[Edge]"]
_FLOW: Final[dict[str, _Flow]] = {
    "func.call": ModuleWalker.call,
    "stablehlo.composite": ModuleWalker.call,
    "stablehlo.while": ModuleWalker.loop,
    "stablehlo.case": ModuleWalker.case,
    "stablehlo.if": ModuleWalker.case,
    "stablehlo.custom_call": ModuleWalker.custom,
    "sdy.manual_computation": ModuleWalker.inside,
}


def _without_starts(found: str, inputs: list[Edge]) -> list[Edge]:
    """Operands without the values that reductions start from."""
    if found in ("reduce", "reduce_window", "argmax"):
        return inputs[: len(inputs) // 2]
    return inputs[:2] if found == "select_and_scatter" else inputs


def _splat(value: Any, code: int) -> Any:
    if code not in NUMPY:
        return None
    try:
        number = value.get_splat_value().value
    except (AttributeError, ValueError, TypeError):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(NUMPY[code])


def form_of(kind: Any) -> Form:
    """Shape and element type of a type of MLIR; of tokens and tuples no known type.

    Raises:
        FileFormatError: A size is left open.
    """
    if not hasattr(kind, "shape"):
        return (), 0
    if not kind.has_static_shape:
        raise FileFormatError(
            f"the module leaves sizes open ({kind}); export it with the sizes that it will run at."
        )
    return tuple(kind.shape), CODES.get(str(kind.element_type), 0)


def _kind(op: Any) -> str:
    return str(op.operation.name)


def _name(function: Any) -> str:
    try:
        return str(function.attributes["sym_name"].value)
    except RuntimeError:  # of the binding
        raise FileFormatError("the name of a function is no UTF-8.") from None


def argument_name(argument: Any, index: int) -> str:
    """What the program called an argument, where the module still says so."""
    text = str(argument.location)
    if text.startswith('loc("') and '"(' not in text and ":" not in text:
        return text[5:].partition('"')[0]
    return f"arg{index}"


def place_of(location: str) -> tuple[str, str, Phase]:
    """Module path, line and phase of ``loc("jit(f)/Net/Dense_0/dot_general"("net.py":3:1))``."""
    if not location.startswith('loc("'):
        return "", "", Phase.FORWARD
    name = location[5:].partition('"')[0]
    path, _, _ = name.rpartition("/")
    return module_of(path) if "/" in name else "", _line(location), phase_of(path)


def _line(location: str) -> str:
    found = re.search(r'"([^"]+\.py)":(\d+)', location)
    return f"{Path(found[1]).name}:{found[2]}" if found else ""
