"""Sequences and optional values: lists of edges that no op needs to make."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.folding import axis_list, constant

Add = Callable[[Step], None]


def run(step: Step, add: Add) -> bool:
    """Runs an op on sequences; False where the step is none, or its sequence is not known."""
    function = _OPS.get(step.op)
    if function is None:
        return False
    try:
        found = function(step, add)
    except (ValueError, IndexError, TypeError):
        return False
    if found is None:
        return False
    step.outputs = [found, *step.outputs[1:]]
    return True


def listed(name: str, members: list[Edge]) -> Edge:
    """A sequence."""
    return Edge(name, None, members[0].code if members else 0, members=members)


def _members(step: Step) -> list[Edge]:
    members = step.x().members
    if members is None:
        raise ValueError("an unknown sequence")
    return members


def _position(step: Step, index: int, length: int) -> int:
    given = step.input(index)
    if given is None:
        return length
    if given.scalar is None:
        raise ValueError("a place that depends on data")
    place = int(given.scalar)
    return place + length if place < 0 else place


def _construct(step: Step, _: Add) -> Edge:
    return listed(step.out.name, [step.x(i) for i in range(len(step.inputs))])


def _insert(step: Step, _: Add) -> Edge:
    members = list(_members(step))
    members.insert(_position(step, 2, len(members)), step.x(1))
    return listed(step.out.name, members)


def _erase(step: Step, _: Add) -> Edge:
    members = list(_members(step))
    place = len(members) - 1 if step.input(1) is None else _position(step, 1, len(members))
    del members[place]
    return listed(step.out.name, members)


def _at(step: Step, _: Add) -> Edge:
    members = _members(step)
    return members[_position(step, 1, len(members))]


def _length(step: Step, _: Add) -> Edge:
    return constant(step.out.name, np.asarray(len(_members(step)), np.int64))


def _joined(step: Step, add: Add) -> Edge | None:
    """ConcatFromSequence: a copy of all members."""
    members, axis = _members(step), int(step.attrs["axis"])
    shapes = [m.shape for m in members]
    if not members or any(s is None for s in shapes):
        return None
    first = members[0].shape or ()
    new = bool(step.attrs.get("new_axis"))
    axis %= len(first) + new
    if new:
        shape = (*first[:axis], len(members), *first[axis:])
    else:
        shape = (*first[:axis], sum((s or ())[axis] for s in shapes), *first[axis + 1 :])
    out = Edge(step.out.name, shape, members[0].code)
    add(_as(step, "Concat", list(members), [out], {"axis": axis}))
    return out


def _parts(step: Step, add: Add) -> Edge | None:
    """SplitToSequence: views, one of each part."""
    x, axis = step.x(), int(step.attrs.get("axis", 0))
    if x.shape is None:
        return None
    axis %= len(x.shape)
    length = x.shape[axis]
    given = step.input(1)
    single = given is None
    if given is None:
        sizes = [1] * length
    elif given.value is None:
        return None
    elif given.value.ndim:
        sizes = axis_list(given.value)
    else:
        each = int(given.value)
        sizes = [min(each, length - i * each) for i in range(ceil(length / each))]
    keep = bool(step.attrs.get("keepdims", 1)) or not single
    outs = [
        Edge(
            f"{step.out.name}_{i}",
            (*x.shape[:axis], n, *x.shape[axis + 1 :])
            if keep
            else (*x.shape[:axis], *x.shape[axis + 1 :]),
            x.code,
        )
        for i, n in enumerate(sizes)
    ]
    add(_as(step, "Split", [x], list(outs), {"axis": axis, "squeeze": not keep}))
    return listed(step.out.name, outs)


def _as(step: Step, op: str, inputs: list[Any], outputs: list[Any], attrs: dict[str, Any]) -> Step:
    found = Step(op, inputs, outputs, attrs, step.name, step.version, step.module)
    found.source, found.repeat = step.source, step.repeat
    return found


def _optional(step: Step, _: Add) -> Edge | None:
    return step.input(0)


def _has_element(step: Step, _: Add) -> Edge:
    there = step.input(0) is not None
    return constant(step.out.name, np.asarray(there))


_OPS: Final[dict[str, Callable[[Step, Add], Edge | None]]] = {
    "SequenceEmpty": lambda step, _: listed(step.out.name, []),
    "SequenceConstruct": _construct,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
    "SplitToSequence": _parts,
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_element,
}
