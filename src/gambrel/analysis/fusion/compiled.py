"""Kernels as a compiler without templates forms them: loops fuse, library calls stay apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from gambrel.analysis.fusion.classes import Shape, applies_apart, iteration
from gambrel.analysis.fusion.concatenation import NEAR, Copied, Copies, parts
from gambrel.analysis.fusion.inline import Inlined, Leaf, Value, inline
from gambrel.analysis.fusion.kernel import POINTWISE, REDUCTION
from gambrel.analysis.fusion.layout import copied_weights
from gambrel.analysis.fusion.merge import Groups
from gambrel.analysis.fusion.program import WORLD, Program, ProgramStep
from gambrel.analysis.fusion.traffic import Members

#: A kernel holds at most this many stored results (``max_fusion_size`` of torch's compiler).
LARGEST: Final = 64
#: Of the kernels that read the same tensor, how many are tried.
ATTEMPTS: Final = 8

#: (rows, values per row); values per row 1 without a reduction.
Loop = tuple[int, int]


def compiled(program: Program, *, recompute: bool = True) -> list[Members]:
    """Groups the ops that run.

    Args:
        program: The dataflow; see `gambrel.analysis.fusion.program`.
        recompute: Whether cheap results may be computed again instead of stored, and weights
            copied to another layout.

    Returns:
        Groups in an order in which they can run; dead code is in none of them.
    """
    steps = program.live()
    inlined = inline(steps, share=recompute)
    fuser = _Fuser(steps, inlined, program.storage_bytes, recompute)
    for node in inlined.bodies:
        fuser.add(node)
    return fuser.groups()


class _Fuser:
    """Takes the nodes in execution order and joins each to the kernel it shares most with."""

    def __init__(
        self,
        steps: Mapping[int, ProgramStep],
        inlined: Inlined,
        sizes: Mapping[int, int],
        recompute: bool,
    ) -> None:
        self._steps = steps
        self._recompute = recompute
        self._shapes = inlined.shapes
        self._bodies = inlined.bodies
        self._stored = {n: inlined.values[n].stored for n in inlined.bodies}
        self._position: dict[int, int] = {}
        self._apart = inlined.apart
        self._copies = Copies(steps, inlined.shapes)
        self._copied: dict[int, Copied] = {}  # by concatenation that is written in parts
        self._loops = 0  # so far; of a concatenation in parts one a part
        self._merger = Groups()
        self._loop: dict[int, Loop] = {}  # by group; extern nodes have none
        self._readers: dict[Leaf, list[int]] = defaultdict(list)
        self._sizes = sizes  # of storages
        self._written = {i: sum(step.writes.values()) for i, step in steps.items()}

    def add(self, node: int) -> None:
        """Adds a node and joins it to one kernel, or leaves it alone."""
        body = self._bodies[node]
        self._position[node] = self._loops
        self._loops += parts(self._steps[node].view) if node in self._apart else 1
        self._merger.add(node, (op for op, _ in body.leaves if op >= 0 and op != node))
        if node in self._apart:
            self._copied[node] = self._copies.of(node, self._position[node])
        elif self._shapes[node] is not Shape.EXTERN:
            self._loop[node] = iteration(self._steps[node].view, self._shapes[node])
            self._join_best(node, body)
        for leaf in body.leaves:
            self._readers[leaf].append(node)

    def groups(self) -> list[Members]:
        """What was formed."""
        owners: set[int] = set()
        result = []
        for group in self._merger.in_order():
            nodes = self._merger.members(group)
            members = set(nodes)
            for n in nodes:
                members |= self._bodies[n].members
            mine = {i for i in members if i in nodes or (i not in self._bodies and i not in owners)}
            owners |= mine
            copied = self._copied.get(nodes[0])
            weights = copied_weights(self._steps[nodes[0]], self._steps) if self._recompute else 0
            apart = tuple(self._loop_before(n) for n in nodes if self._applied_apart(n))
            result.append(
                Members(
                    ops=tuple(sorted(mine)),
                    recomputed=tuple(sorted(members - mine)),
                    kind=self._kind(nodes),
                    launches=self._pieces(nodes) + len(apart) + bool(weights),
                    twice=apart,
                    shared=copied.shared if copied else frozenset(),
                    relaid_bytes=weights,
                )
            )
        return result

    def _kind(self, nodes: list[int]) -> str:
        shapes = {self._shapes[n] for n in nodes}
        if Shape.EXTERN in shapes:
            return self._steps[nodes[0]].view.kind
        return REDUCTION if Shape.REDUCTION in shapes else POINTWISE

    def _pieces(self, nodes: list[int]) -> int:
        """How many kernels a loop becomes: one for each slice that others read of its result.

        A result of which everyone reads a slice (q, k and v of one tensor) is never formed as a
        whole; every slice is computed by itself.
        """
        if nodes[0] in self._copied:
            return self._copied[nodes[0]].launches
        if len(nodes) > 1 or self._shapes[nodes[0]] is not Shape.POINTWISE:
            return 1
        step = self._steps[nodes[0]]
        if WORLD in step.users or len(step.writes) != 1:
            return 1
        ((written, whole),) = step.writes.items()
        slices = {
            read.region: read.nbytes
            for user in step.users
            if user in self._steps
            for read in self._steps[user].reads
            if read.region[0] == written[0]
        }
        return max(1, len(slices)) if all(n < whole for n in slices.values()) else 1

    def _applied_apart(self, node: int) -> bool:
        view = self._steps[node].view
        reduces = self._shapes[node] is Shape.REDUCTION
        return reduces and self._stored[node] and self._recompute and applies_apart(view)

    def _loop_before(self, node: int) -> tuple[int, ...]:
        return (*sorted(self._bodies[node].members - {node}), node)

    def _size(self, leaf: Leaf) -> int:
        op, _ = leaf
        return self._written[op] if op >= 0 else self._sizes[-1 - op]

    def _join_best(self, node: int, body: Value) -> None:
        shared: dict[int, int] = defaultdict(int)
        for leaf in body.leaves:
            weight = self._size(leaf)
            for other in self._sharing(leaf):
                shared[other] += weight
        group = node
        for other in sorted(shared, key=lambda g: -shared[g])[:ATTEMPTS]:
            if self._fits(group, other, body):
                joined = self._merger.try_join(group, other)
                if joined is not None:
                    loops = self._loop.pop(group), self._loop.pop(other)
                    self._loop[joined] = max(loops, key=lambda loop: loop[1])
                    return

    def _sharing(self, leaf: Leaf) -> set[int]:
        """Kernels that write or read a stored tensor, the latest readers only."""
        here = self._loops
        near = (n for n in self._readers[leaf][-ATTEMPTS:] if here - self._position[n] <= NEAR)
        found = {self._merger.find(n) for n in near}
        if leaf[0] >= 0:
            found.add(self._merger.find(leaf[0]))
        return {g for g in found if g in self._loop}

    def _fits(self, node: int, group: int, body: Value) -> bool:
        """Whether the loops agree and what the node reads of the group is read in place."""
        members = self._merger.members(group)
        if len(members) >= LARGEST:
            return False
        if not same_loop(self._loop[node], self._loop[group]):
            return False
        if self._steps[members[0]].repeat != self._steps[node].repeat:
            return False
        return all(
            straight
            for (op, _), straight in body.leaves.items()
            if op >= 0 and op != node and self._merger.find(op) == group
        )


def same_loop(a: Loop, b: Loop) -> bool:
    """Equal; or the loop over elements runs over the rows of the reduction, or over all values."""
    if a == b:
        return True
    if a[1] != 1 and b[1] != 1:
        return False
    reduction, elements = (a, b[0]) if a[1] != 1 else (b, a[0])
    return reduction[1] != 1 and elements in (reduction[0], reduction[0] * reduction[1])
