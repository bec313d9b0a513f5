"""The equations of a jaxpr, in order: calls inlined, loops counted times their trips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gambrel.capture.jax import calls, kernels, loops, mesh
from gambrel.capture.jax.primitives import operation_of
from gambrel.capture.jax.scopes import EquationPlace
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.elements import NUMPY, code_of
from gambrel.capture.xla.graph import Form, Graph, Operation
from gambrel.workload import Role

_Handler: TypeAlias = Callable[["JaxprWalker", Any, list[Edge]], "list[Edge]"]

_FLOW: Final[dict[str, _Handler]] = {
    "scan": loops.scan,
    "while": loops.while_loop,
    "cond": loops.cond,
    "shard_map": mesh.shard_map,
    "pallas_call": calls.pallas,
    **dict.fromkeys(kernels.CUDNN, kernels.cudnn),
    "select_n": calls.select,
    **dict.fromkeys(mesh.COLLECTIVES, mesh.collective),
}


class JaxprWalker:
    """Records the equations of a jaxpr.

    Attributes:
        graph: Where they go.
        trips: How often a loop runs whose trip count depends on data; None if that is not said.
        axes: Sizes of the mesh axes in scope.
    """

    def __init__(self, graph: Graph, trips: int | None = None) -> None:
        """Starts a walk."""
        self.graph = graph
        self.trips = trips
        self.axes: dict[str, int] = {}
        self.scopes = EquationPlace()
        self._constants: dict[int, tuple[Any, Edge]] = {}

    def walk_closed(self, closed: Any, given: Sequence[Edge]) -> list[Edge]:
        """A jaxpr with its constants."""
        constants = [self.constant(value) for value in closed.consts]
        return self.walk(closed.jaxpr, [*constants, *given])

    def walk(self, jaxpr: Any, given: Sequence[Edge]) -> list[Edge]:
        """An open jaxpr: constants, then arguments."""
        names: dict[Any, Edge] = {}
        for formal, edge in zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True):
            names[formal] = edge
        with self.graph.deeper():
            for eqn in jaxpr.eqns:
                inputs = [self._read(atom, names) for atom in eqn.invars]
                with self.scopes.entered(eqn.source_info):
                    results = self._record(eqn, inputs)
                names.update(zip(eqn.outvars, results, strict=True))
        return [self._read(atom, names) for atom in jaxpr.outvars]

    def _record(self, eqn: Any, inputs: list[Edge]) -> list[Edge]:
        name = eqn.primitive.name
        handler = _FLOW.get(name)
        if handler is not None:
            return handler(self, eqn, inputs)
        body = calls.body_of(eqn)
        if body is not None:
            closed = hasattr(body, "consts")
            return self.walk_closed(body, inputs) if closed else self.walk(body, inputs)
        try:
            op, attrs = operation_of(name, eqn.params)
        except (KeyError, TypeError, ValueError, AttributeError):
            op, attrs = f"primitive {name}", {}
        return self.emit(eqn, op, inputs, attrs)

    def emit(
        self,
        eqn: Any,
        op: str,
        inputs: Sequence[Edge],
        attrs: Mapping[str, Any] | None = None,
    ) -> list[Edge]:
        """Records an equation as an operation."""
        forms = [form_of(v.aval) for v in eqn.outvars]
        place = self.scopes
        own = Operation(op, inputs, forms, dict(attrs or {}), eqn.primitive.name)
        own = replace(own, module=place.module, source=place.source, phase=place.phase)
        return self.graph.emit(own)

    def constant(self, value: Any) -> Edge:
        """A value that a function closes over: numbers are known, real arrays are parameters."""
        import numpy as np

        known = self._constants.get(id(value))
        if known is not None:
            return known[1]
        form = form_of(value)
        small = not form[0] or (np.size(value) <= 256 and np.asarray(value).dtype.kind in "iub")
        if small and form[1] in NUMPY:
            edge = self.graph.constant(np.asarray(value).astype(NUMPY[form[1]]), form)
        else:
            real = form[1] in _PARAMETERS
            role = Role.WEIGHT if real else Role.CONSTANT
            edge = self.graph.input(f"constant_{len(self._constants)}", form, role)
        self._constants[id(value)] = (value, edge)
        return edge

    def _read(self, atom: Any, names: Mapping[Any, Edge]) -> Edge:
        if hasattr(atom, "val"):
            return self.constant(atom.val) if _has_shape(atom.val) else self._literal(atom)
        return names[atom]

    def _literal(self, atom: Any) -> Edge:
        import numpy as np

        shape, code = form_of(atom.aval)
        value = np.asarray(atom.val)
        known = value.astype(NUMPY[code]) if code in NUMPY else None
        return self.graph.constant(known, (shape, code))


_PARAMETERS: Final = frozenset({1, 10, 11, 16, 17, 19})


def _has_shape(value: Any) -> bool:
    return bool(getattr(value, "shape", ()))


def form_of(aval: Any) -> Form:
    """Shape and element type; of tokens, keys and references no known type."""
    shape = getattr(aval, "shape", ())
    return tuple(int(n) for n in shape), code_of(str(getattr(aval, "dtype", "")))
