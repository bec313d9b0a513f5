"""When each piece of memory is needed: from an op order to live bytes at every op."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gambrel.analysis.evaluate import Evaluator
from gambrel.ops.base import Size
from gambrel.roofline import maximum
from gambrel.workload import Op, Phase, Role, Workload, once

#: Parts of the memory, in the order of the fields of `Footprint`.
PARTS: Final = ("weights", "activations", "kv_cache", "gradients", "optimizer", "workspace")

#: Role → part. Everything else is an activation.
_PART_OF: Final[dict[Role, str]] = {
    Role.WEIGHT: "weights",
    Role.BUFFER: "weights",
    Role.CONSTANT: "weights",
    Role.KV_CACHE: "kv_cache",
    Role.STATE: "kv_cache",
    Role.GRADIENT: "gradients",
    Role.OPTIMIZER_STATE: "optimizer",
}

#: Ops that write an output nobody asked for, which captures leave out where it is not used: its
#: bytes an element of the first output. ``aten::max_pool2d_with_indices`` writes int64 indices.
_UNASKED: Final = {"aten.max_pool2d_with_indices": 8, "aten.max_pool3d_with_indices": 8}

#: There before the first op, and after the last: the model's own, and what the caller holds.
_THROUGHOUT: Final = frozenset(
    {Role.WEIGHT, Role.BUFFER, Role.CONSTANT, Role.OPTIMIZER_STATE, Role.INPUT}
)
#: Once there, they outlive the run: caches serve the next token, and eager frameworks free
#: gradients when the next step begins.
_STAYING: Final = frozenset({Role.KV_CACHE, Role.STATE, Role.GRADIENT})


class Lifetime(msgspec.Struct, frozen=True, kw_only=True):
    """How long one storage is in memory.

    Attributes:
        storage: Its id in the workload; -1 for an output that the workload leaves out, and for the
            workspace of a kernel.
        part: One of `PARTS`.
        nbytes: Its size; views and versions of it share this memory.
        first: Index of the op that brings it; -1 when it is there before the first.
        last: Index of the last op that touches it; the number of ops when it stays.
        tensor: Index of the largest tensor seen in it.
    """

    storage: int
    part: str
    nbytes: int
    first: int
    last: int
    tensor: int


class _Seen(msgspec.Struct):
    """What one pass over the tensors and ops finds out about a storage."""

    role: Role
    tensors: list[int]
    first: int = -2  # not touched by any op
    last: int = -2
    existed: bool = False


def lifetimes(workload: Workload, evaluator: Evaluator) -> list[Lifetime]:
    """The lifetime of every storage, by the order of the ops.

    An activation lives from the op that first writes it to the last op that touches it or a view
    of it: a skip connection stays across its block, a tensor that backward reads stays until
    then, an op in place needs no new memory. What a module is called with stays until the call
    returns, because eager Python's caller holds it (`_hold_arguments`). Weights, buffers,
    optimizer states and the model's inputs are there throughout, its outputs once they are
    written. A cache that the run extends is there throughout at its full length; gradients appear
    where backward writes them and stay. What one step of backward saved goes with its last op.

    Args:
        workload: The model.
        evaluator: Bound to the sizes and precision in question.
    """
    sizes = evaluator.storage_bytes()
    end = len(workload.ops)
    found = _unasked(workload, evaluator)
    for storage, seen in _survey(workload).items():
        largest = _largest(seen.tensors, evaluator)
        copies = workload.tensors[largest].copies
        found.append(
            Lifetime(
                storage=storage,
                part=_PART_OF.get(seen.role, "activations"),
                nbytes=_whole(sizes[storage]) * copies,
                first=-1 if seen.role in _THROUGHOUT or seen.existed else seen.first,
                last=end if seen.role in _THROUGHOUT | _STAYING else seen.last,
                tensor=largest,
            )
        )
    return found


def _unasked(workload: Workload, evaluator: Evaluator) -> list[Lifetime]:
    return [
        Lifetime(
            storage=-1,
            part="activations",
            nbytes=_UNASKED[op.name] * evaluator.tensor(op.outputs[0]).elements,
            first=position,
            last=position,
            tensor=op.outputs[0],
        )
        for position, op in enumerate(workload.ops)
        if op.name in _UNASKED and len(op.outputs) == 1
    ]


@once
def _survey(workload: Workload) -> dict[int, _Seen]:
    """The storages that the run needs, by the order of the ops alone."""
    found: dict[int, _Seen] = {}
    for index, t in enumerate(workload.tensors):
        seen = found.setdefault(t.storage, _Seen(role=t.role, tensors=[]))
        seen.tensors.append(index)
        if t.role in _PART_OF or t.role in _THROUGHOUT:
            seen.role = t.role
    for position, op in enumerate(workload.ops):
        _touch(workload, found, op, position)
    _hold_arguments(workload, found)
    _hold_saved(workload, found)
    for index in workload.outputs:
        found[workload.tensors[index].storage].last = len(workload.ops)
    return {s: seen for s, seen in found.items() if seen.first >= 0 or seen.role in _THROUGHOUT}


def _largest(tensors: Sequence[int], evaluator: Evaluator) -> int:
    """The first of the largest tensors of a storage."""
    largest = tensors[0]
    for index in tensors[1:]:
        if _exceeds(evaluator.tensor(index).elements, evaluator.tensor(largest).elements):
            largest = index
    return largest


def _whole(nbytes: Size) -> Size:
    """Bytes rounded up; over arrays each."""
    if isinstance(nbytes, (int, float)):
        return math.ceil(nbytes)
    import numpy as np

    return np.ceil(nbytes)


def _exceeds(a: Size, b: Size) -> bool:
    """Whether one size is larger; over arrays, at any point."""
    larger = a > b
    return larger if isinstance(larger, bool) else bool(larger.any())


def _touch(workload: Workload, found: dict[int, _Seen], op: Op, position: int) -> None:
    for indices, reads in ((op.inputs, True), (op.outputs, False)):
        for index in indices:
            t = workload.tensors[index]
            seen = found[t.storage]
            if seen.first < 0:
                seen.first = position
                # A later version that no op here has made was made before the run.
                older = reads or t.version > 0
                seen.existed = older and seen.role in (Role.KV_CACHE, Role.STATE)
            seen.last = position


def _hold_arguments(workload: Workload, found: dict[int, _Seen]) -> None:
    """Prolongs what a module call reads from outside to the end of that call.

    In CPython the frame that calls ``module(x)`` owns a reference to ``x`` until the call returns;
    so in ``x = self.mlp(self.norm(x))`` neither the old ``x`` nor the output of ``norm`` goes
    before ``mlp`` has returned, however early ``mlp`` is done with it. A call is a run of
    consecutive forward ops below one module path.
    """
    tensors = workload.tensors
    for op, calls in zip(workload.ops, _calls(workload.ops), strict=True):
        if not calls:
            continue
        for index in op.inputs:
            seen = found[tensors[index].storage]
            for call in calls:
                if seen.first < call.start:  # the outermost call that did not make it
                    seen.last = max(seen.last, call.stop)
                    break


def _hold_saved(workload: Workload, found: dict[int, _Seen]) -> None:
    """Prolongs what one step of backward has saved to the last op of that step.

    The derivative of a product is two matmuls with the same incoming gradient; autograd lets go
    of what it saved for them when both are done. Such ops follow one another, have one name and
    read a common tensor.
    """
    run: set[int] = set()  # all that the ops of the step read
    shared: set[int] = set()  # what each of them reads
    name = ""
    for position, op in enumerate(workload.ops):
        backward = op.phase is Phase.BACKWARD
        read = {workload.tensors[i].storage for i in op.inputs} if backward else set()
        if op.name == name and shared & read:
            run, shared = run | read, shared & read
            continue
        _prolong(found, run, position - 1)
        run, shared, name = read, set(read), op.name
    _prolong(found, run, len(workload.ops) - 1)


def _prolong(found: dict[int, _Seen], storages: set[int], position: int) -> None:
    for storage in storages:
        found[storage].last = max(found[storage].last, position)


class _Call(msgspec.Struct):
    """A module call: its name below its parent, and the first and last op of it."""

    name: str
    start: int
    stop: int


def _calls(ops: tuple[Op, ...]) -> list[tuple[_Call, ...]]:
    """For each op the module calls around it, outermost first; none outside forward."""
    found: list[tuple[_Call, ...]] = []
    current: tuple[_Call, ...] = ()
    path = ""
    for position, op in enumerate(ops):
        module = op.module if op.phase is Phase.FORWARD else ""
        if module != path:
            current = _enter(current, module, position)
            path = module
        for call in current:
            call.stop = position
        found.append(current)
    return found


def _enter(current: tuple[_Call, ...], module: str, position: int) -> tuple[_Call, ...]:
    names = module.split(".") if module else []
    same = 0
    while same < min(len(names), len(current)) and names[same] == current[same].name:
        same += 1
    new = (_Call(name, position, position) for name in names[same:])
    return (*current[:same], *new)


def live_bytes(found: Iterable[Lifetime], ops: int) -> dict[str, list[int]]:
    """Bytes alive while each op runs, by part.

    Args:
        found: Lifetimes.
        ops: Number of ops.

    Returns:
        Part → one number an op, in order. While an op runs, all it reads and writes is alive.
        Without ops there is one number: what is there anyway.
    """
    steps = max(ops, 1)
    change = {part: [0] * (steps + 1) for part in PARTS}
    for life in found:
        row = change[life.part]
        row[max(life.first, 0)] += life.nbytes
        row[min(life.last, steps - 1) + 1] -= life.nbytes
    return {part: _running(row[:-1]) for part, row in change.items()}


def _running(changes: list[int]) -> list[int]:
    total, sums = 0, []
    for change in changes:
        total += change
        sums.append(total)
    return sums


def peak_bytes(found: Iterable[Lifetime], ops: int) -> Size:
    """The most that is alive at once; over arrays at each point.

    Args:
        found: Lifetimes.
        ops: Number of ops.
    """
    steps = max(ops, 1)
    change: list[Size] = [0] * (steps + 1)
    for life in found:
        first, last = max(life.first, 0), min(life.last, steps - 1) + 1
        change[first] = change[first] + life.nbytes
        change[last] = change[last] - life.nbytes
    alive: Size = 0
    most: Size = 0
    for step in change[:-1]:
        alive = alive + step
        most = maximum(most, alive)
    return most


def peak_index(live: dict[str, list[int]]) -> int:
    """Index of the first op at which the sum of all parts is largest."""
    totals = [sum(step) for step in zip(*live.values(), strict=True)]
    return max(range(len(totals)), key=totals.__getitem__)
