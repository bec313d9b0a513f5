"""Joining nodes of a graph into groups without ever closing a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Space between neighbouring labels, so that groups can be moved in between.
_GAP: Final = 1 << 40
#: Begin and end of the order.
_RIM: Final = -1


class Groups:
    """Disjoint groups of nodes of an acyclic graph, kept in an order in which they can run.

    Every group has a label; a group depends only on groups with smaller ones. A path from one group
    to another therefore stays between their labels, and looking for one visits only that window.
    """

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._before: dict[int, set[int]] = {}
        self._label: dict[int, int] = {}
        # Neighbours in the order of labels; the list is a ring through _RIM, which holds no node.
        self._previous: dict[int, int] = {_RIM: _RIM}
        self._next: dict[int, int] = {_RIM: _RIM}

    def add(self, node: int, predecessors: Iterable[int]) -> None:
        """Adds a node behind all others, as a group of its own; it depends on earlier nodes."""
        self._parent[node] = node
        self._members[node] = [node]
        self._before[node] = set(predecessors)
        last = self._previous[_RIM]
        self._label[node] = self._label.get(last, 0) + _GAP
        self._insert(node, _RIM)

    def find(self, node: int) -> int:
        """The group of a node, named by one of its nodes."""
        root = node
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[node] != root:
            self._parent[node], node = root, self._parent[node]
        return root

    def members(self, group: int) -> list[int]:
        """Nodes of a group."""
        return self._members[group]

    def in_order(self) -> list[int]:
        """All groups, each after all that it depends on."""
        found, group = [], self._next[_RIM]
        while group != _RIM:
            found.append(group)
            group = self._next[group]
        return found

    def try_join(self, a: int, b: int) -> int | None:
        """Makes two groups one, unless a path between them leads through a third.

        Returns:
            The name of the group; None when they were left apart.
        """
        early, late = sorted((a, b), key=self._label.__getitem__)
        between = self._between(early, late)
        if between is None:
            return None
        self._move_before(early, between)
        self._parent[late] = early
        self._members[early] += self._members.pop(late)
        self._before[early] |= self._before.pop(late)
        self._remove(late)
        del self._label[late]
        return early

    def _needs(self, group: int) -> set[int]:
        found = {self.find(p) for p in self._before[group]}
        found.discard(group)
        self._before[group] = found
        return found

    def _between(self, early: int, late: int) -> list[int] | None:
        """What ``late`` needs and comes after ``early``; None if any of that needs ``early``."""
        floor = self._label[early]
        stack = [g for g in self._needs(late) if self._label[g] > floor]
        seen = set(stack)
        while stack:
            for needed in self._needs(stack.pop()):
                if needed == early:
                    return None
                if needed not in seen and self._label[needed] > floor:
                    seen.add(needed)
                    stack.append(needed)
        return sorted(seen, key=self._label.__getitem__)

    def _move_before(self, group: int, moved: list[int]) -> None:
        """Moves groups, in order, right before another one."""
        if not moved:
            return
        top = self._label[group]
        for g in moved:
            self._remove(g)
            self._insert(g, group)
        bottom = self._label.get(self._previous[moved[0]], 0)
        step = (top - bottom) // (len(moved) + 1)
        if not step:
            self._relabel()
            return
        for position, g in enumerate(moved, 1):
            self._label[g] = bottom + position * step

    def _insert(self, group: int, before: int) -> None:
        previous = self._previous[before]
        self._previous[group], self._next[group] = previous, before
        self._next[previous] = self._previous[before] = group

    def _remove(self, group: int) -> None:
        previous, following = self._previous.pop(group), self._next.pop(group)
        self._next[previous], self._previous[following] = following, previous

    def _relabel(self) -> None:
        for position, group in enumerate(self.in_order(), 1):
            self._label[group] = position * _GAP
