"""Bytes of a kernel: what its ops read from outside, once, and what others need of its results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from gambrel.analysis.fusion.kernel import WHOLE, Kernel
from gambrel.analysis.fusion.program import WORLD, Program, Read, Region


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """A group of ops before its bytes are counted; see `Kernel` for the fields.

    Attributes:
        twice: Loops that run in a launch of their own before the rest, each with the op that needs
            it last: what they read is read once more.
        shared: Regions that a kernel before it has read, or computed, and writes for it as well.
        relaid_bytes: Of weights that a launch of its own copies to another layout before.
    """

    ops: tuple[int, ...]
    kind: str
    recomputed: tuple[int, ...] = ()
    launches: int = 1
    twice: tuple[tuple[int, ...], ...] = ()
    shared: frozenset[Region] = frozenset()
    relaid_bytes: int = 0


def with_traffic(groups: Sequence[Members], program: Program) -> tuple[Kernel, ...]:
    """Counts the bytes of groups that together hold every op that runs.

    A group of one op moves what the op's own formula says. A larger group reads every region that
    comes from outside once, however many of its ops read it, and never more than the storage
    holds; it writes what an op outside, the next run or the caller needs. Therefore merging two
    groups never adds traffic.

    Args:
        groups: In execution order.
        program: The dataflow of all ops.
    """
    inside = _Inside(groups)
    return tuple(_kernel(position, group, program, inside) for position, group in enumerate(groups))


class _Inside:
    """Which groups run an op, be it a second time."""

    def __init__(self, groups: Sequence[Members]) -> None:
        self._home = {i: k for k, group in enumerate(groups) for i in group.ops}
        self._also: dict[int, set[int]] = defaultdict(set)
        for k, group in enumerate(groups):
            for i in group.recomputed:
                self._also[i].add(k)

    def has(self, group: int, op: int) -> bool:
        """Whether a group computes an op."""
        return self._home.get(op) == group or group in self._also.get(op, ())

    def needed_outside(self, op: int, users: Sequence[int]) -> bool:
        """Whether a group that does not compute ``op`` reads its result, or nobody does."""
        if not users:
            return True
        for user in users:
            if user == WORLD:
                return True
            if user not in self._home:
                continue  # dead code
            groups = {self._home[user]} | self._also.get(user, set())
            if not all(self.has(g, op) for g in groups):
                return True
        return False


def _kernel(position: int, group: Members, program: Program, inside: _Inside) -> Kernel:
    repeat = 1 if group.kind == WHOLE else program.steps[group.ops[0]].repeat
    if len(group.ops) == 1 and not group.recomputed and not group.twice:
        only = group.ops[0]
        step = program.steps[only]
        read, write = step.eager_bytes
        read -= sum(r.nbytes for r in step.reads if r.region in group.shared)
        # A norm whose users all apply it themselves only finds its statistics.
        reads, writes = {only: read}, {only: write * inside.needed_outside(only, step.users)}
    else:
        reads = _reads(position, group, program, inside)
        writes = _writes(group, program, inside)
    if group.relaid_bytes:
        first = group.ops[0]
        reads[first] = reads.get(first, 0) + group.relaid_bytes
        writes[first] = writes.get(first, 0) + group.relaid_bytes
    return Kernel(
        ops=group.ops,
        recomputed=group.recomputed,
        kind=group.kind,
        op_read_bytes={i: n * repeat for i, n in reads.items() if n},
        op_write_bytes={i: n * repeat for i, n in writes.items() if n},
        repeat=repeat,
        launches=group.launches,
    )


def _reads(position: int, group: Members, program: Program, inside: _Inside) -> dict[int, int]:
    """By op; what a recomputed op reads counts for the first op that the kernel owns."""
    owned = set(group.ops)
    budget = _Budget(program, group)
    found: dict[int, int] = defaultdict(int)
    for i in sorted((*group.ops, *group.recomputed)):
        reader = i if i in owned else group.ops[0]
        for read in program.steps[i].reads if program.steps[i].counted else ():
            if not _internal(read, position, inside):
                found[reader] += budget.take(read.region, read.nbytes)
    for loop in group.twice:
        found[loop[-1]] += _loop_reads(loop, position, program, inside)
    return found


def _loop_reads(loop: tuple[int, ...], position: int, program: Program, inside: _Inside) -> int:
    """What a loop reads from outside its kernel, or what was stored for it within."""
    budget = _Budget(program)
    outside = [
        budget.take(read.region, read.nbytes)
        for i in loop
        for read in program.steps[i].reads
        if not _internal(read, position, inside)
    ]
    last = program.steps[loop[-1]].reads
    stored = sum(read.nbytes for read in last if _internal(read, position, inside))
    return sum(outside) if len(loop) > 1 else sum(outside) + stored


def _internal(read: Read, position: int, inside: _Inside) -> bool:
    return all(w != WORLD and inside.has(position, w) for w in read.writers)


def _writes(group: Members, program: Program, inside: _Inside) -> dict[int, int]:
    """By op; of several writes to one region (an op in place after another) the last counts."""
    budget = _Budget(program, group)
    found: dict[int, int] = {}
    for i in reversed(group.ops):
        step = program.steps[i]
        if step.counted and inside.needed_outside(i, step.users):
            found[i] = sum(budget.take(region, n) for region, n in step.writes.items())
    return found


class _Budget:
    """Counts the same bytes once: by region, and at most a storage's size in all.

    The kernel of a whole model runs every layer once: repeated layers bring each copy of theirs.
    """

    def __init__(self, program: Program, group: Members | None = None) -> None:
        self._sizes = program.storage_bytes
        self._copies = program.copies if group is not None and group.kind == WHOLE else {}
        self._regions: dict[Region, int] = {}
        self._storages: dict[int, int] = {}

    def take(self, region: Region, nbytes: int) -> int:
        """The bytes that were not counted before."""
        new = nbytes - self._regions.get(region, 0)
        if new <= 0:
            return 0
        storage = region[0]
        before = self._storages.get(storage, 0)
        if before:  # a single region may be read in full, whatever the storage is said to hold
            new = min(new, max(0, self._sizes[storage] - before))
        self._regions[region] = nbytes
        self._storages[storage] = before + new
        return new * self._copies.get(storage, 1)
