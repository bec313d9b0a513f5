"""Concatenations that are written part by part, each by a kernel that reads the part anyway.

A concatenation is formed where it is read as long as that is cheap: few parts, which nothing else
computes with. Otherwise it has memory of its own, and every part goes to its place there: from the
loop that computes it, or from one copy that writes it to all concatenations nearby (torch's
``max_pointwise_cat_inputs`` is 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from gambrel.analysis.fusion.classes import Shape
from gambrel.analysis.fusion.program import WORLD, ProgramStep, Read, Region
from gambrel.ops import OpView

#: A concatenation of more parts than this is always written part by part.
PARTS: Final = 8
#: Copies of one part are one kernel if no more loops than this lie between them.
NEAR: Final = 64

#: A part that is copied: where it lies, and how much it is.
_Part: TypeAlias = tuple[Region, int]


def parts(view: OpView) -> int:
    """How many buffers a concatenation joins; 1 for any other op."""
    if view.kind != "copy" or view.attrs.get("function") not in ("cat", "stack"):
        return 1
    return len(view.inputs)


def written_in_parts(
    index: int, steps: Mapping[int, ProgramStep], shapes: Mapping[int, Shape]
) -> bool:
    """Whether a concatenation has memory of its own that its parts are written to.

    Args:
        index: The op.
        steps: All ops that run.
        shapes: Their classes.
    """
    step = steps[index]
    if parts(step.view) < 2:
        return False
    if parts(step.view) > PARTS:
        return True
    return any(_computed_with(read, index, steps, shapes) for read in step.reads)


def _computed_with(
    read: Read, index: int, steps: Mapping[int, ProgramStep], shapes: Mapping[int, Shape]
) -> bool:
    """Whether a loop over elements, another one than ``index``, reads the same part."""
    users = {u for w in read.writers if w != WORLD for u in steps[w].users} - {WORLD, index}
    return any(
        shapes[u] is Shape.POINTWISE
        and parts(steps[u].view) == 1
        and any((r.region, r.nbytes) == (read.region, read.nbytes) for r in steps[u].reads)
        for u in users
        if u in steps
    )


class Copied(msgspec.Struct, frozen=True):
    """How a concatenation is written.

    Attributes:
        launches: Copies that start for it: of parts that nothing else copies or computes.
        shared: Regions that other kernels read, or have at hand, when they write them here.
    """

    launches: int
    shared: frozenset[Region]


class Copies:
    """Follows the copies of parts along the ops."""

    def __init__(self, steps: Mapping[int, ProgramStep], shapes: Mapping[int, Shape]) -> None:
        self._steps = steps
        self._shapes = shapes
        self._begun: dict[_Part, int] = {}  # where a kernel begins that copies the part

    def of(self, index: int, position: int) -> Copied:
        """How one concatenation is written.

        Args:
            index: The op.
            position: Loops before it.
        """
        launches, shared = 0, set()
        for read in self._steps[index].reads:
            part = (read.region, read.nbytes)
            if self._from_loop(read) or position - self._begun.get(part, -NEAR - 1) <= NEAR:
                shared.add(read.region)
                continue
            launches += 1
            self._begun[part] = position
        return Copied(launches, frozenset(shared))

    def _from_loop(self, read: Read) -> bool:
        """Whether one loop over elements computes the part, and can write it where it belongs."""
        if len(read.writers) != 1 or read.writers[0] == WORLD:
            return False
        writer = read.writers[0]
        whole = self._steps[writer].writes.get(read.region) == read.nbytes
        return (
            whole
            and self._shapes[writer] is Shape.POINTWISE
            and parts(self._steps[writer].view) == 1
        )
