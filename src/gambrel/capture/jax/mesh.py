"""Programs over several devices: the part of one device, and what it exchanges."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from gambrel.capture.onnx.edges import Edge

if TYPE_CHECKING:
    from gambrel.capture.jax.walk import JaxprWalker

#: Primitive → operation.
COLLECTIVES: Final[dict[str, str]] = {
    **dict.fromkeys(("psum", "psum_invariant", "pmax", "pmin", "unreduced_psum"), "all_reduce"),
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), "reduce_scatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "all_to_all"),
    "ppermute": "collective_permute",
    "pbroadcast": "annotation",
}


def shard_map(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """The program of one device; tensors of the whole mesh are seen in parts."""
    from gambrel.capture.jax.walk import form_of

    p, graph = eqn.params, walker.graph
    body = p["jaxpr"]
    inner = getattr(body, "jaxpr", body)
    sizes = {str(k): int(v) for k, v in dict(p["mesh"].shape).items()}
    mesh = ", ".join(f"{k}={v}" for k, v in sizes.items())
    graph.note(f"work, traffic and memory are those of one device of the mesh ({mesh})")
    before = walker.axes
    walker.axes = {**before, **sizes}
    given = [_local(e, form_of(v.aval)[0]) for e, v in zip(inputs, inner.invars, strict=True)]
    results = walker.walk(inner, [*map(walker.constant, getattr(body, "consts", ())), *given])
    walker.axes = before
    return results


def _local(edge: Edge, shape: tuple[int, ...]) -> Edge:
    """What a device holds of an argument; values that are known stay so."""
    if edge.shape != shape and edge.value is None:
        edge.shape = shape
    return edge


def collective(walker: JaxprWalker, eqn: Any, inputs: list[Edge]) -> list[Edge]:
    """Over the axes of the mesh that it names; one device alone exchanges nothing."""
    p = eqn.params
    named = p.get("axes", p.get("axis_name", ()))
    names = named if isinstance(named, (tuple, list)) else (named,)
    groups = p.get("axis_index_groups")
    known = all(str(n) in walker.axes for n in names)
    devices = prod(walker.axes[str(n)] for n in names) if known else p.get("axis_size")
    if groups:
        devices = len(groups[0])
    if devices == 1:
        return inputs
    op = COLLECTIVES[eqn.primitive.name]
    out: list[Edge] = []
    for edge, result in zip(inputs, eqn.outvars, strict=False):
        single = _Single(eqn, result)
        out += walker.emit(single, op, [edge], {"devices": devices})
    return out


class _Single:
    """One result of an equation that has several, of the same kind."""

    def __init__(self, eqn: Any, result: Any) -> None:
        """The equation with this result alone."""
        self.primitive, self.outvars = eqn.primitive, [result]
