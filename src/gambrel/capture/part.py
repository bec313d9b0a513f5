"""A part of a workload: the ops that a name picks, what they read from outside as inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gambrel.errors import UnknownNameError
from gambrel.ops import is_free
from gambrel.workload import Op, Role, Workload
from gambrel.workload.prune import renumbered

#: What a tensor from outside becomes an input of; the others keep their role.
_INNER = frozenset({Role.ACTIVATION, Role.OUTPUT})


def part_of(workload: Workload, name: str) -> Workload:
    """The ops of a module, of a kind, or of one name.

    Args:
        workload: The whole.
        name: A module path (``layer1.0.conv2``; all ops below it), the framework's name of an op
            (``/conv1/Conv``, ``aten.softmax``) or a kind (``attention``): the first that fits.

    Raises:
        UnknownNameError: Nothing is called so.
    """
    picked = _picked(workload, name)
    if not picked:
        names = dict.fromkeys(
            text for op in workload.ops if not is_free(op.kind) for text in (op.module, op.name)
        )
        raise UnknownNameError(f"op of {workload.name}", name, [n for n in names if n])
    made = {i for op in picked for i in op.outputs}
    written = {workload.tensors[i].storage for i in made}
    outside = set(range(len(workload.tensors)))
    read_later = {
        workload.tensors[i].storage for op in _others(workload.ops, picked) for i in op.inputs
    } | {workload.tensors[i].storage for i in workload.outputs}
    tensors = []
    for i in outside:
        tensor = workload.tensors[i]
        if tensor.role in _INNER and tensor.storage not in written:
            tensor = msgspec.structs.replace(tensor, role=Role.INPUT)
        elif tensor.role in _INNER and tensor.storage in read_later:
            tensor = msgspec.structs.replace(tensor, role=Role.OUTPUT)
        tensors.append(tensor)
    outputs = tuple(i for i in sorted(made) if workload.tensors[i].storage in read_later)
    part = msgspec.structs.replace(
        workload, name=f"{workload.name} {name}", tensors=tuple(tensors), outputs=outputs
    )
    return renumbered(part, picked)


def _picked(workload: Workload, name: str) -> list[Op]:
    tests: tuple[Callable[[Op], bool], ...] = (
        lambda op: op.module == name or op.module.startswith(f"{name}."),
        lambda op: op.name == name or f"{op.module}.{op.name}" == name,
        lambda op: op.kind == name,
    )
    return next(
        (ops for test in tests if (ops := [op for op in workload.ops if test(op)])),
        [],
    )


def _others(ops: Sequence[Op], picked: Sequence[Op]) -> list[Op]:
    own = set(map(id, picked))
    return [op for op in ops if id(op) not in own]
