"""scan, while and cond."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.control import branches, looped, part, stacked, unvalued

if TYPE_CHECKING:
    from gambrel.capture.jax.walk import JaxprWalker


def scan(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """The body times its trips; what is scanned is seen in parts, results are stacked."""
    from gambrel.capture.jax.walk import form_of

    p, graph = eqn.params, walker.graph
    trips, constants, carried = int(p["length"]), p["num_consts"], p["num_carry"]
    fixed = inputs[:constants]
    states = [unvalued(e) for e in inputs[constants : constants + carried]]
    if not trips:
        forms = [form_of(v.aval) for v in eqn.outvars[carried:]]
        return [*inputs[constants : constants + carried], *(Edge("", *f) for f in forms)]
    with graph.repeated(trips):
        parts = [part(graph, e, trips) for e in inputs[constants + carried :]]
        results = walker.walk_closed(p["jaxpr"], [*fixed, *states, *parts])
    graph.trace.carried += zip(states, results[:carried], strict=True)
    ends = zip(results[carried:], eqn.outvars[carried:], strict=True)
    last = [stacked(e, form_of(v.aval)) for e, v in ends]
    graph.trace.carried += zip(last, results[carried:], strict=True)
    return [*results[:carried], *last]


def while_loop(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """The body times its trips, where these follow from a counter and a known limit."""
    p = eqn.params
    cond_count, body_count = p["cond_nconsts"], p["body_nconsts"]
    for_cond, for_body = inputs[:cond_count], inputs[cond_count : cond_count + body_count]
    carried = inputs[cond_count + body_count :]
    found = looped(
        walker.graph,
        carried,
        lambda edges: walker.walk_closed(p["cond_jaxpr"], [*for_cond, *edges])[0],
        lambda edges: walker.walk_closed(p["body_jaxpr"], [*for_body, *edges]),
        walker.trips,
    )
    return walker.emit(eqn, "while without a known trip count", inputs) if found is None else found


def cond(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """The larger branch, or the one that is known to be taken."""
    index, *given = inputs
    tried = [partial(walker.walk_closed, b, given) for b in eqn.params["branches"]]
    return branches(walker.graph, index, tried)
