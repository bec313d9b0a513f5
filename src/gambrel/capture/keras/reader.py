"""From a Keras archive to a workload: the way in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gambrel.capture.files.dynamic import over_batch
from gambrel.capture.graph.finish import finish, reading
from gambrel.capture.graph.writer import Writer
from gambrel.capture.keras.model_file import KerasGraph, open_keras
from gambrel.capture.keras.walk import GraphWalker, open_name
from gambrel.workload import Symbol, Workload


def read_keras(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads the workload of a ``.keras`` archive: its layers, not its weights.

    Args:
        path: The archive.
        sizes: ``batch``; ``image`` or ``seq`` where the inputs leave them open.

    Raises:
        FileFormatError: It is damaged, or its model is code.
        InputError: A size that it leaves open and that was not given.
    """
    path = Path(path)
    given = {k: v for k, v in (sizes or {}).items() if v is not None}
    with reading(path, "Keras archive", "save it again with model.save"):
        graph = open_keras(path)

        def at(values: Mapping[str, int]) -> Workload:
            writer = Writer("keras")
            GraphWalker(writer, {**given, **values}).run(graph)
            return finish(writer.trace, name=path.stem, origin="Keras archive")

        chosen = tuple(_fixed(name, given[name]) for name in _open(graph) if name in given)
        batch = given.get("batch") or 1
        if "batch" not in _open(graph):
            return replace(at({}), symbols=chosen)
        return over_batch(at, batch, tuple(s for s in chosen if s.name != "batch"))


def _fixed(name: str, value: int) -> Symbol:
    return Symbol(name=name, default=value, minimum=value, maximum=value)


def _open(graph: KerasGraph) -> list[str]:
    """The sizes that the inputs leave to the user."""
    inputs = [graph.layers[ref.layer].config.get("batch_shape") or [1] for ref in graph.inputs]
    names = [
        "batch" if axis == 0 else open_name(shape)
        for shape in inputs
        for axis, size in enumerate(shape)
        if size is None
    ]
    return list(dict.fromkeys(names))
