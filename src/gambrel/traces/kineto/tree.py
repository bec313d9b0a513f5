"""Ops nested by time: which op called which, thread by thread."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gambrel.traces.kineto.events import Event
from gambrel.traces.kineto.spans import Span


@dataclass(slots=True, eq=False)
class OpNode:
    """An op call.

    Attributes:
        event: As recorded.
        span: Microseconds.
        parent: The op that called it.
        children: Ops that it called.
    """

    event: Event
    span: Span
    parent: OpNode | None = None
    children: list[OpNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For example ``aten::addmm``."""
        return str(self.event.name)


class Forest:
    """All ops of a trace."""

    def __init__(self, events: Iterable[tuple[Event, Span]]) -> None:
        self.roots: list[OpNode] = []
        self.by_id: dict[int, OpNode] = {}
        self._threads: dict[tuple[Any, Any], list[OpNode]] = {}
        threads: dict[tuple[Any, Any], list[OpNode]] = {}
        for event, span in events:
            threads.setdefault((str(event.pid), str(event.tid)), []).append(OpNode(event, span))
        for key, nodes in threads.items():
            nodes.sort(key=lambda n: (n.span[0], -n.span[1]))
            self._threads[key] = nodes
            self._nest(nodes)

    def _nest(self, nodes: list[OpNode]) -> None:
        stack: list[OpNode] = []
        for node in nodes:
            while stack and stack[-1].span[1] <= node.span[0]:
                stack.pop()
            if stack:
                node.parent = stack[-1]
                stack[-1].children.append(node)
            else:
                self.roots.append(node)
            stack.append(node)
            op_id = node.event.args.op_id if node.event.args else None
            if op_id:
                self.by_id[op_id] = node

    def around(self, event: Event, at: float) -> OpNode | None:
        """The innermost op that was running on the event's thread at a time."""
        nodes = self._threads.get((str(event.pid), str(event.tid)), [])
        i = bisect_right(nodes, at, key=lambda n: n.span[0]) - 1
        node = nodes[i] if i >= 0 else None
        while node is not None and node.span[1] < at:
            node = node.parent
        return node
