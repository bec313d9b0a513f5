"""A part of a workload: the ops that a name picks, what they read from outside as inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from gambrel.closest import closest
from gambrel.errors import InputError, UnknownNameError, shown
from gambrel.ops import is_free
from gambrel.workload import Op, Role, Workload
from gambrel.workload.prune import renumbered

#: Names that a message lists.
_SHOWN = 12
#: What a tensor from outside becomes an input of; the others keep their role.
_INNER = frozenset({Role.ACTIVATION, Role.OUTPUT})


def part_of(workload: Workload, name: str) -> Workload:
    """The ops of a module, of a kind, or of one name.

    Args:
        workload: The whole.
        name: A module path (``layer1.0.conv2``; all ops below it), the name of a node or of what
            it writes (``Conv_12``, ``logits``), the framework's name of an op (``aten.softmax``)
            or a kind (``attention``): the first that fits. Else the end of one such path or name.

    Raises:
        UnknownNameError: Nothing is called so.
        InputError: Several are.
    """
    picked = _picked(workload, name) or _by_end(workload, name)
    nodes = {op.labels for op in picked if name in op.labels}
    if len(nodes) > 1:
        _refuse_several(workload, name, sorted(labels[-1] for labels in nodes))
    if not picked:
        known = _names(workload)
        near = closest(name, known, 5, 50) or known[:_SHOWN]
        raise UnknownNameError(f"op of {workload.name}", name, near)
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
        lambda op: name in op.labels,
        lambda op: op.name == name or f"{op.module}.{op.name}" == name,
        lambda op: op.kind == name,
    )
    return next(
        (ops for test in tests if (ops := [op for op in workload.ops if test(op)])),
        [],
    )


def _by_end(workload: Workload, name: str) -> list[Op]:
    """The ops of the only module or node whose path ends so.

    Raises:
        InputError: There are several.
    """
    ends = (f".{name}", f"/{name}")
    paths = [path for path in _names(workload) if path.endswith(ends)]
    if len(paths) > 1:
        _refuse_several(workload, name, paths)
    return _picked(workload, paths[0]) if paths else []


def _refuse_several(workload: Workload, name: str, names: Sequence[str]) -> NoReturn:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    listed = ", ".join(names[:_SHOWN])
    raise InputError(
        f"{workload.name} has {len(names):,} ops {shown(name)}: {listed}{more}; name one of them."
    )


def _names(workload: Workload) -> list[str]:
    """The path of each op that does something, its node's name where it has no path, its kind."""
    done = [op for op in workload.ops if not is_free(op.kind)]
    paths = (op.module or "".join(op.labels[:1]) for op in done)
    return list(dict.fromkeys(filter(None, (*paths, *(op.name for op in done)))))


def _others(ops: Sequence[Op], picked: Sequence[Op]) -> list[Op]:
    own = set(map(id, picked))
    return [op for op in ops if id(op) not in own]
