"""What follows a matmul or convolution element by element, run inside its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.fusion.classes import Shape, iteration, reads_elsewhere
from gambrel.analysis.fusion.kernel import POINTWISE
from gambrel.analysis.fusion.merge import Groups
from gambrel.analysis.fusion.program import WORLD, Program, Read
from gambrel.analysis.fusion.traffic import Members
from gambrel.ops.base import product

#: Library kernels that come with a place for arithmetic on their result.
HOSTS: Final = frozenset({"matmul", "grouped_matmul", "convolution"})


def with_epilogues(groups: Sequence[Members], program: Program) -> list[Members]:
    """Joins each fused pointwise kernel with the last matmul or convolution that feeds it.

    The kernel must walk over the elements of that result and use each in its place; every matmul
    or convolution takes in at most one kernel. Norms and softmaxes, which need whole rows, stay.

    Args:
        groups: As `gambrel.analysis.fusion.compiled` forms them, in execution order.
        program: The dataflow.
    """
    groups = [_with_own_weights(group) for group in groups]
    home = {i: k for k, group in enumerate(groups) for i in group.ops}
    merger = Groups()
    for k, group in enumerate(groups):
        merger.add(k, _feeding(group, program, home) - {k})
    taken: dict[int, int] = {}  # host → what it took in
    for k, group in enumerate(groups):
        if group.kind != POINTWISE or group.launches > 1:
            continue
        for host in sorted(_hosts(group, program, home, groups) - taken.keys(), reverse=True):
            if merger.try_join(host, k) is not None:
                taken[host] = k
                break
    return [_joined([groups[k] for k in sorted(merger.members(g))]) for g in merger.in_order()]


def _with_own_weights(group: Members) -> Members:
    """Such stacks lay weights out beforehand."""
    if not group.relaid_bytes:
        return group
    return replace(group, relaid_bytes=0, launches=group.launches - 1)


def _feeding(group: Members, program: Program, home: dict[int, int]) -> set[int]:
    """The groups whose results a group reads."""
    return {
        home[w]
        for i in (*group.ops, *group.recomputed)
        for read in program.steps[i].reads
        for w in read.writers
        if w in home
    }


def _hosts(
    group: Members, program: Program, home: dict[int, int], groups: Sequence[Members]
) -> set[int]:
    """The groups of matmuls and convolutions whose result the kernel walks over."""
    return {
        home[read.writers[0]]
        for i in group.ops
        for read in program.steps[i].reads
        if _in_place(i, read, program)
        and read.writers[0] in home
        and groups[home[read.writers[0]]].kind in HOSTS
        and program.steps[i].repeat == program.steps[read.writers[0]].repeat
    }


def _in_place(reader: int, read: Read, program: Program) -> bool:
    if len(read.writers) != 1 or read.writers[0] == WORLD:
        return False
    view = program.steps[reader].view
    host = program.steps[read.writers[0]]
    elements = iteration(view, Shape.POINTWISE)[0]
    return (
        host.writes.get(read.region) == read.nbytes
        and not reads_elsewhere(view)
        and bool(host.view.outputs)
        and elements == product(host.view.outputs[0].shape)
    )


def _joined(parts: Sequence[Members]) -> Members:
    if len(parts) == 1:
        return parts[0]
    ops = {i for part in parts for i in part.ops}
    again = {i for part in parts for i in part.recomputed} - ops
    host = next(part for part in parts if part.kind in HOSTS)
    return Members(ops=tuple(sorted(ops)), recomputed=tuple(sorted(again)), kind=host.kind)
