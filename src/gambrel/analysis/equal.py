"""Ops that differ only in which memory they touch: the layers of a stack repeat them.

Such ops cost the same at any size and in any precision, so that one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gambrel.workload import Op, Tensor, Workload, once


@once
def classes_of(workload: Workload) -> tuple[int, ...]:
    """A number for each op; equal for ops of which every formula says the same.

    Formulas look at kind, phase, sizes, attributes and tensors, and of the memory behind tensors
    only at whether two of one op share it.
    """
    kinds: dict[Any, int] = {}
    tensors = [_number(_tensor(t), kinds) for t in workload.tensors]
    return tuple(_number(_op(op, workload.tensors, tensors), kinds) for op in workload.ops)


def _op(op: Op, tensors: tuple[Tensor, ...], numbers: list[int]) -> Any:
    return (
        op.kind,
        op.phase,
        tuple(op.sizes.items()),
        repr(op.attrs) if op.attrs else "",
        tuple(numbers[i] for i in op.inputs),
        tuple(numbers[i] for i in op.outputs),
        _sharing(tensors[i].storage for i in (*op.inputs, *op.outputs)),
    )


def _tensor(t: Tensor) -> Any:
    return t.shape, t.dtype, t.elements, t.offset, t.role


def _sharing(storages: Iterable[int]) -> tuple[int, ...]:
    """Storages numbered in the order in which an op names them."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(storage, len(seen)) for storage in storages)


def _number(key: Any, known: dict[Any, int]) -> int:
    return known.setdefault(key, len(known))
