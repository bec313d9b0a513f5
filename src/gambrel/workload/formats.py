"""A model as it runs in a format: casts that its code asks for are ops in 16 bits, not in fp32.

Code computes parts in fp32 by name (``x.float()`` in a norm). A capture in fp32 cannot tell these
from the rest; one in 16 bits has them, and its casts between the model's own format and fp32 are
those that an fp32 run skips: what torch's ``to`` returns there is the tensor that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec.structs import replace

from gambrel.dtypes import FLOATING, width_bytes
from gambrel.workload.model import Op, Role, Tensor, Workload
from gambrel.workload.symbols import Dim, added

#: What torch calls a cast.
_CAST: Final = "aten._to_copy"
_KEPT: Final = "in its own format"

#: Everything about an op but the numbers of its tensors, and its tensors.
_Row: TypeAlias = tuple[Op, tuple[Tensor, ...], tuple[Tensor, ...]]


def in_format(workload: Workload, precision: str) -> Workload:
    """The ops of a workload in a number format.

    Args:
        workload: As captured; one without `Workload.recorded_dtype` has the same ops in all.
        precision: What replaces the model's own format.
    """
    if not workload.recorded_dtype:
        return workload
    # One object for each question: tables are kept by the identity of their workload.
    narrow = precision in FLOATING and width_bytes(precision) < width_bytes(workload.dtype)
    known = workload.__dict__.setdefault(_KEPT, {})
    if narrow not in known:
        known[narrow] = _narrow(workload) if narrow else _without_casts(workload)
    found: Workload = known[narrow]
    return found


def to_edit(workload: Workload, precision: str) -> Workload:
    """What to change of a workload that runs in a number format: the ops that it has there.

    Args:
        workload: As captured.
        precision: What replaces the model's own format.
    """
    form = in_format(workload, precision)
    return workload if form.ops is workload.ops else form


def recorded_in(workload: Workload, narrow: Workload) -> Workload:
    """A workload with the ops that it has in 16 bits as well.

    Args:
        workload: Captured in its own format.
        narrow: The same model captured in 16 bits.

    Returns:
        One that `in_format` makes either of; the first one alone where the second asks for no
        other format by name, or differs by more than casts.
    """
    if not any(t.dtype == workload.dtype for t in narrow.tensors):
        return workload
    both = replace(
        workload,
        recorded_dtype=narrow.dtype,
        tensors=narrow.tensors,
        ops=narrow.ops,
        outputs=narrow.outputs,
    )
    return both if _rows(_without_casts(both)) == _rows(workload) else workload


def recorded_as(workload: Workload, dtype: str) -> Workload:
    """A workload beside others whose tensors of the model's own format stand in ``dtype``.

    Args:
        workload: Any.
        dtype: A `Workload.recorded_dtype`; empty leaves the workload.
    """
    own = workload.own_dtype
    if own == dtype or not dtype:
        return workload
    return replace(
        workload,
        recorded_dtype=dtype,
        tensors=tuple(_recast(t, own, dtype) for t in workload.tensors),
        ops=tuple(_renamed(op, own, dtype) for op in workload.ops),
    )


def _narrow(workload: Workload) -> Workload:
    return replace(workload, dtype=workload.recorded_dtype, recorded_dtype="")


def _without_casts(workload: Workload) -> Workload:
    """The ops of a run in the model's own format."""
    own, native = workload.recorded_dtype, workload.dtype
    casts = [op for op in workload.ops if _is_cast(op, workload.tensors, {own, native})]
    skipped = set(map(id, casts))
    aliases = _Aliases(workload.tensors)
    for op in casts:
        aliases.add(op.inputs[0], op.outputs[0])
    tensors = tuple(_recast(aliases.moved(t), own, native) for t in workload.tensors)
    index = aliases.merged(tensors)
    wide = replace(
        workload,
        recorded_dtype="",
        tensors=tensors,
        outputs=tuple(dict.fromkeys(index[i] for i in workload.outputs)),
    )
    ops = [
        replace(
            _renamed(op, own, native),
            inputs=tuple(index[i] for i in op.inputs),
            outputs=tuple(index[i] for i in op.outputs),
        )
        for op in workload.ops
        if id(op) not in skipped
    ]
    gone = {i for op in casts for i in (*op.inputs, *op.outputs)}
    return _as_met(replace(wide, ops=tuple(ops)), gone)


def _as_met(workload: Workload, gone: set[int]) -> Workload:
    """The workload with tensors and memory numbered in the order in which ops meet them.

    Args:
        workload: With tensors that nothing refers to any more.
        gone: Those that casts read and wrote.
    """
    met = dict.fromkeys(i for op in workload.ops for i in (*op.inputs, *op.outputs))
    met |= dict.fromkeys(workload.outputs)
    whole = {_extent(workload.tensors[i]) for i in met}
    rest = (
        i
        for i, t in enumerate(workload.tensors)
        if i not in met and not (i in gone and (t.role is not Role.WEIGHT or _extent(t) in whole))
    )
    order = [*met, *rest]
    index = {old: new for new, old in enumerate(order)}
    memory: dict[int, int] = {}
    tensors = [workload.tensors[i] for i in order]
    return replace(
        workload,
        tensors=tuple(
            replace(t, storage=memory.setdefault(t.storage, len(memory))) for t in tensors
        ),
        ops=tuple(
            replace(
                op,
                inputs=tuple(index[i] for i in op.inputs),
                outputs=tuple(index[i] for i in op.outputs),
            )
            for op in workload.ops
        ),
        outputs=tuple(index[i] for i in workload.outputs),
    )


def _is_cast(op: Op, tensors: Sequence[Tensor], formats: set[str]) -> bool:
    if op.name != _CAST or len(op.inputs) != 1 or len(op.outputs) != 1:
        return False
    if tensors[op.inputs[0]].role is Role.CONSTANT:
        return False  # made on the host: it is copied to the device in any format
    return {tensors[op.inputs[0]].dtype, tensors[op.outputs[0]].dtype} == formats


def _recast(tensor: Tensor, old: str, new: str) -> Tensor:
    return replace(tensor, dtype=new) if tensor.dtype == old else tensor


def _renamed(op: Op, old: str, new: str) -> Op:
    """The op where its attributes name another format."""
    if old not in op.attrs.values():
        return op
    return replace(op, attrs={k: new if v == old else v for k, v in op.attrs.items()})


def _extent(tensor: Tensor) -> tuple[Dim, ...]:
    """What of which memory a tensor covers."""
    elements = tensor.elements
    if elements is None and all(isinstance(d, int) for d in tensor.shape):
        elements = prod(d for d in tensor.shape if isinstance(d, int))
    return tensor.storage, tensor.offset, -1 if elements is None else elements


class _Aliases:
    """Memory of results that are what they were made of.

    Args:
        tensors: All of the workload.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._base: dict[int, tuple[Tensor, Tensor]] = {}
        self._roles: dict[int, tuple[Role, str]] = {}
        self._shared: set[int] = set()

    def add(self, source: int, result: int) -> None:
        """The memory of a result is that of its source."""
        base, made = self.moved(self._tensors[source]), self._tensors[result]
        self._base[made.storage] = base, made
        self._shared |= {base.storage, made.storage}
        if base.role is Role.ACTIVATION and made.role is not Role.ACTIVATION:
            self._roles[base.storage] = made.role, made.name

    def moved(self, tensor: Tensor) -> Tensor:
        """A tensor where its memory is."""
        base, made = self._base.get(tensor.storage, (None, None))
        if base is not None and tensor == made:
            tensor = base  # also where it was spread out: a cast fills its result
        elif base is not None:
            tensor = replace(
                tensor,
                storage=base.storage,
                offset=added(base.offset, tensor.offset),
                version=base.version + tensor.version,
                role=base.role,
                name=base.name,
            )
        role, name = self._roles.get(tensor.storage, (tensor.role, tensor.name))
        return tensor if role is tensor.role else replace(tensor, role=role, name=name)

    def merged(self, tensors: Sequence[Tensor]) -> list[int]:
        """For each tensor the first one that is the same."""
        first: dict[Tensor, int] = {}
        return [
            first.setdefault(t, i) if old.storage in self._shared else i
            for i, (t, old) in enumerate(zip(tensors, self._tensors, strict=True))
        ]


def _rows(workload: Workload) -> tuple[list[_Row], tuple[Tensor, ...]]:
    """Ops and outputs with their tensors, memory numbered in the order in which ops meet it."""
    numbers: dict[int, int] = {}

    def met(indices: Sequence[int]) -> tuple[Tensor, ...]:
        found = [workload.tensors[i] for i in indices]
        return tuple(replace(t, storage=numbers.setdefault(t.storage, len(numbers))) for t in found)

    rows = [
        (replace(op, inputs=(), outputs=()), met(op.inputs), met(op.outputs)) for op in workload.ops
    ]
    return rows, met(workload.outputs)
