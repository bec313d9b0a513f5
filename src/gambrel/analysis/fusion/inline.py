"""Which results are kept in memory, and which are computed again wherever they are used.

A compiler that fuses loops over elements has a choice for a result with several readers: store it,
or repeat its arithmetic in each of them, reading what it was made of. The thresholds are those of
torch's compiler (defaults of ``torch._inductor.config`` 2.13, read 2026-11: ``realize_reads_
threshold`` 4, ``realize_acc_reads_threshold`` 8, ``realize_opcount_threshold`` 30).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from gambrel.analysis.fusion.classes import (
    Shape,
    applies_apart,
    has_tail,
    reads_elsewhere,
    realizes_inputs,
    shape_of,
    statistics,
    uses,
)
from gambrel.analysis.fusion.concatenation import written_in_parts
from gambrel.analysis.fusion.program import WORLD, ProgramStep
from gambrel.ops.elementwise import FUNCTIONS

#: A result used more than once is stored if it depends on more stored tensors than this.
SHARED_READS: Final = 4
#: Any result is stored if it depends on more than this.
READS: Final = 8
#: Operations per element from which repeating them does not pay.
OPERATIONS: Final = 30

#: A part of a stored value: (op that wrote it, or the negated storage - 1 of what the model is
#: given; first element).
Leaf: TypeAlias = tuple[int, Any]


class Value(msgspec.Struct, frozen=True):
    """What an op's result depends on when it is needed.

    Attributes:
        stored: Whether it lies in memory.
        leaves: What it reads of stored values → whether element i depends on element i.
        members: The ops that compute it from the leaves, itself included; none of a reduction.
        operations: Per element, of the members.
    """

    stored: bool
    leaves: Mapping[Leaf, bool]
    members: frozenset[int]
    operations: int


@dataclass(frozen=True, slots=True)
class Inlined:
    """The outcome for all ops.

    Attributes:
        shapes: Class of each op.
        values: The result of each op.
        bodies: For each op that has a loop of its own: what that loop depends on.
        apart: Concatenations that are written part by part, in no loop of their own.
    """

    shapes: dict[int, Shape]
    values: dict[int, Value]
    bodies: dict[int, Value]
    apart: frozenset[int] = frozenset()


def inline(steps: Mapping[int, ProgramStep], *, share: bool = True) -> Inlined:
    """Decides op by op, in execution order, which results are stored.

    Args:
        steps: The ops that run.
        share: Whether a result may be computed in several places; otherwise only a result with one
            reader is computed where it is read.
    """
    shapes = {i: shape_of(step.view) for i, step in steps.items()}
    apart = frozenset(i for i in steps if written_in_parts(i, steps, shapes))
    values: dict[int, Value] = {}
    bodies: dict[int, Value] = {}
    for i, step in steps.items():
        body = _body(i, steps, values, apart)
        if shapes[i] is Shape.EXTERN or i in apart:
            values[i] = _STORED
            bodies[i] = body
            continue
        stored = _is_stored(i, step, shapes, body, steps, apart) or not (share or _read_once(step))
        values[i] = _STORED if stored else body
        if not stored and shapes[i] is Shape.REDUCTION:  # its statistics are
            if not share:
                values[i] = _STORED
                stored = True
            else:
                own = {(i, 0): not applies_apart(step.view)}
                values[i] = Value(False, {**body.leaves, **own}, body.members, body.operations)
        if stored or shapes[i] is Shape.REDUCTION:
            bodies[i] = body
    return Inlined(shapes, values, bodies, apart)


_STORED: Final = Value(True, {}, frozenset(), 0)


def _read_once(step: ProgramStep) -> bool:
    return len(set(step.users)) == 1


def _body(
    i: int, steps: Mapping[int, ProgramStep], values: Mapping[int, Value], apart: frozenset[int]
) -> Value:
    step = steps[i]
    leaves: dict[Leaf, bool] = {}
    members: set[int] = {i}
    operations = _operations(step)
    moved = reads_elsewhere(step.view)
    for read in step.reads:
        for w in read.writers:
            if w == WORLD:
                leaves[-1 - read.region[0], read.region[1]] = False
                continue
            value = values.get(w)
            if value is None:
                continue
            whole = steps[w].writes.get(read.region) == read.nbytes
            if value.stored:
                leaf = (w, read.region[1])
                straight = whole and not moved and w not in apart
                leaves[leaf] = straight and leaves.get(leaf, True)
                continue
            for leaf, straight in value.leaves.items():
                leaves[leaf] = straight and whole and not moved and leaves.get(leaf, True)
            members |= value.members
            operations += value.operations
    return Value(False, leaves, frozenset(members), operations)


def _operations(step: ProgramStep) -> int:
    vector, special = FUNCTIONS.get(str(step.view.attrs.get("function")), (1, 0))
    return max(1, vector + special)


def _is_stored(
    i: int,
    step: ProgramStep,
    shapes: Mapping[int, Shape],
    body: Value,
    steps: Mapping[int, ProgramStep],
    apart: frozenset[int],
) -> bool:
    if shapes[i] is Shape.REDUCTION and not has_tail(step.view):
        return True
    if step.view.kind == "scatter" or not step.users:
        return True
    reads = len({leaf for leaf, _ in body.leaves})
    if shapes[i] is Shape.REDUCTION:
        reads += statistics(step.view)
    users = set(step.users)
    for user in users:
        if user == WORLD or user in apart:
            return True
        if user in steps and _needs_stored(steps[user], shapes[user], reads):
            return True
        if user in steps and steps[user].repeat != step.repeat:
            return True
    many = sum(uses(steps[u].view) for u in users if u in steps) > 1
    large = body.operations > OPERATIONS
    return large or reads > READS or (many and reads > SHARED_READS)


def _needs_stored(user: ProgramStep, shape: Shape, reads: int) -> bool:
    if shape is Shape.EXTERN:
        return True
    if realizes_inputs(user.view):
        return reads > 1
    return user.view.kind == "scatter" and reads > 1
