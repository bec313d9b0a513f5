"""Nodes in an order in which every input is made before it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gambrel.errors import FileFormatError, told


def ordered(nodes: Iterable[Any], outside: Callable[[str], Any]) -> list[Any]:
    """The nodes as the file has them, or sorted where the file is not.

    Args:
        nodes: Of one graph.
        outside: What a name means outside of these nodes; None where it means nothing.

    Raises:
        FileFormatError: A node reads what nothing makes, or the graph runs in a circle.
    """
    listed = list(nodes)
    made: set[str] = set()
    for node in listed:
        if any(n and n not in made and outside(n) is None for n in node.input):
            return _sorted(listed, outside)
        made.update(node.output)
    return listed


def _sorted(nodes: list[Any], outside: Callable[[str], Any]) -> list[Any]:
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    waits: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        needed = {maker[n] for n in node.input if n in maker}
        for name in node.input:
            if name and name not in maker and outside(name) is None:
                raise FileFormatError(f"{_named(node)} reads {told(name)}, which nothing makes.")
        waits[i] = len(needed)
        for other in needed:
            readers.setdefault(other, []).append(i)
    ready = [i for i in range(len(nodes)) if not waits[i]]
    found: list[Any] = []
    for i in ready:  # grows while it is read
        found.append(nodes[i])
        for reader in readers.get(i, ()):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    if len(found) < len(nodes):
        stuck = next(nodes[i] for i in range(len(nodes)) if waits[i])
        raise FileFormatError(f"the graph runs in a circle: {_named(stuck)} waits for itself.")
    return found


def _named(node: Any) -> str:
    return f"the node {told(node.name or node.op_type)}"
