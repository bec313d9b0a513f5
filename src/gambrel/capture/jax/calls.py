"""Equations that hold another jaxpr, or a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gambrel.capture.jax import kernels
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.elements import BOOL

if TYPE_CHECKING:
    from gambrel.capture.jax.walk import JaxprWalker

#: Where equations keep the jaxpr that they call.
_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr", "fwd_jaxpr", "call")


def body_of(eqn: Any) -> Any:
    """The jaxpr that an equation calls with its own operands; None for any other."""
    for name in _BODIES:
        body = eqn.params.get(name)
        inner = getattr(body, "jaxpr", body)
        if hasattr(inner, "eqns") and len(inner.invars) == len(eqn.invars):
            return body
    return None


def select(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """The case that a predicate numbers: false first. More than two are chosen pair by pair."""
    which, *cases = inputs
    if len(cases) == 2 and which.code == BOOL:
        return walker.emit(eqn, "select", [which, cases[1], cases[0]])
    chosen = cases[0]
    for case in cases[1:]:
        chosen = walker.emit(eqn, "select", [which, case, chosen])[0]
    return [chosen]


def pallas(walker: JaxprWalker, eqn: Any, inputs: Sequence[Edge]) -> list[Edge]:
    """A kernel of its own: counted where its author states a cost, unmodelled otherwise."""
    stated = eqn.params.get("cost_estimate")
    name = _kernel_name(eqn.params)
    attention = kernels.of_pallas(walker, eqn, inputs, name)
    if attention is not None:
        return attention
    if stated is None:
        walker.graph.note(
            f"the Pallas kernel {name} states no cost (pallas_call(cost_estimate=...)) and is "
            "unmodelled"
        )
        return walker.emit(eqn, f"pallas_call {name}", inputs)
    attrs = {
        "flops": int(stated.flops),
        "transcendentals": int(stated.transcendentals),
        "traffic_bytes": int(stated.bytes_accessed),
    }
    walker.graph.note(f"the cost of the Pallas kernel {name} is what its author states")
    return walker.emit(eqn, "kernel", inputs, attrs)


def _kernel_name(params: Any) -> str:
    named = params.get("name") or getattr(params.get("name_and_src_info"), "name", "")
    debug = getattr(getattr(params.get("jaxpr"), "debug_info", None), "func_name", "")
    return str(named or debug or "without a name")
