"""From recorded operations to a workload."""

from __future__ import annotations

from msgspec.structs import replace

from gambrel.capture.onnx.builder import Builder
from gambrel.capture.xla import lowering
from gambrel.capture.xla.graph import Graph
from gambrel.capture.xla.patterns import refine
from gambrel.workload import Symbol, Workload
from gambrel.workload.parameters import mention_unread
from gambrel.workload.prune import drop_unused_outputs

__all__ = ["finished", "lowering"]


def finished(graph: Graph, *, name: str, origin: str, trips: int | None = None) -> Workload:
    """The workload of a program, decompositions recognised.

    Args:
        graph: With its outputs.
        name: Of the workload.
        origin: Where it comes from.
        trips: The user's word for loops that depend on data.
    """
    refine(graph.trace)
    built = drop_unused_outputs(Builder().build(graph.trace, name=name, origin=origin))
    if trips is not None and graph.open_loops:
        about = "trips of every loop whose count depends on data"
        symbol = Symbol(name="trip", default=trips, minimum=trips, maximum=trips, about=about)
        built = replace(built, symbols=(*built.symbols, symbol))
    return mention_unread(built)
