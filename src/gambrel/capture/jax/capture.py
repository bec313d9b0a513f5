"""From a function of JAX and the forms of its arguments to a workload. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gambrel.capture.jax.arguments import Leaf, leaves_of, said
from gambrel.capture.jax.functions import function_name
from gambrel.capture.jax.kernels import without_cudnn
from gambrel.capture.jax.walk import JaxprWalker, form_of
from gambrel.capture.xla.finish import finished
from gambrel.capture.xla.graph import Graph
from gambrel.errors import CaptureError, FileFormatError, require, told
from gambrel.workload import Workload


def capture_jax(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    trips: int | None = None,
) -> Workload:
    """The workload of one call.

    Args:
        function: A function of arrays, jitted or not; a module of Equinox, Flax or Keras.
        args: Arrays, ``jax.ShapeDtypeStruct`` or trees of them.
        kwargs: Likewise.
        name: Of the workload.
        trips: How often loops run whose trip count depends on data.

    Raises:
        CaptureError: The function cannot be traced with these arguments.
        MissingExtraError: JAX is not installed.
    """
    require("jax", "jax", "capturing a function of JAX")
    from gambrel.capture.jax.modules import called

    name = name or function_name(function)
    function, args, kwargs = called(function, args, dict(kwargs or {}))
    leaves = leaves_of(function, args, kwargs)
    closed = _traced(function, args, kwargs, name)
    try:
        return _workload(closed, leaves, name, trips)
    except FileFormatError as error:
        raise CaptureError(f"{name}: {error}") from None


def _traced(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Any:
    import jax

    try:
        with without_cudnn():
            return jax.make_jaxpr(function)(*args, **kwargs)
    except Exception as error:  # whatever the user's code raises
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        why = f"{type(error).__name__}: {told(lines[0][:200])}" if lines else type(error).__name__
        raise CaptureError(f"{name} cannot be traced by jax.make_jaxpr: {why}") from error


def _workload(closed: Any, leaves: Sequence[Leaf], name: str, trips: int | None) -> Workload:
    import jax

    graph = Graph("jax")
    formal = [form_of(v.aval) for v in closed.jaxpr.invars]
    if len(formal) != len(leaves):
        leaves = [Leaf(name=f"arg{i}", role=leaves[0].role) for i in range(len(formal))]
    given = [
        graph.input(leaf.name, form, leaf.role) for leaf, form in zip(leaves, formal, strict=True)
    ]
    walker = JaxprWalker(graph, trips)
    graph.trace.outputs = walker.walk_closed(closed, given)
    workload = finished(graph, name=name, origin=f"JAX {jax.__version__}", trips=trips)
    rule = said(leaves)
    return replace(workload, assumptions=(f"{rule[0].upper()}{rule[1:]}.", *workload.assumptions))
