"""Changes of the model itself: the same ops with weights or caches stored narrower."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec

from gambrel.dtypes import width_bytes
from gambrel.errors import InputError
from gambrel.workload import Op, Role, Tensor, Workload

_PRODUCTS = frozenset({"matmul", "grouped_matmul"})


def narrow_weights(workload: Workload, dtype: str) -> Workload:
    """Stores the weights of GEMMs in a narrower format; they are multiplied as before.

    Weights that anything but a GEMM reads (tied embeddings, convolutions) stay. Scales
    are not counted: with one a group of 128 they add about 3 % to 4-bit weights.

    Args:
        workload: The model.
        dtype: Format to store them in, e.g. ``"int4"``.

    Raises:
        InputError: No weight would change.
    """
    storages = _product_weights(workload, dtype)
    if not storages:
        raise InputError(f"{workload.name} has no matrix weights wider than {dtype} to store so.")
    tensors = _stored(workload, dtype, lambda t: t.storage in storages)
    ops = tuple(_dequantizing(op, workload, storages) for op in workload.ops)
    return msgspec.structs.replace(workload, tensors=tensors, ops=ops)


def narrow_cache(workload: Workload, dtype: str) -> Workload:
    """Stores the key/value cache in a narrower format; attention computes as before.

    Raises:
        InputError: The model keeps no cache, or none wider.
    """

    def narrows(t: Tensor) -> bool:
        return t.role is Role.KV_CACHE and width_bytes(t.dtype) > width_bytes(dtype)

    if not any(map(narrows, workload.tensors)):
        raise InputError(
            f"{workload.name} has no key/value cache wider than {dtype}; language models read one "
            "when they decode (--phase decode)."
        )
    return msgspec.structs.replace(workload, tensors=_stored(workload, dtype, narrows))


def _stored(workload: Workload, dtype: str, chosen: Callable[[Tensor], bool]) -> tuple[Tensor, ...]:
    return tuple(
        msgspec.structs.replace(t, dtype=dtype) if chosen(t) else t for t in workload.tensors
    )


def _product_weights(workload: Workload, dtype: str) -> frozenset[int]:
    """Storages of weights that GEMMs alone read, as their second operand."""
    readers: dict[int, set[bool]] = defaultdict(set)
    for op in workload.ops:
        for place, index in enumerate(op.inputs):
            storage = workload.tensors[index].storage
            readers[storage].add(op.kind in _PRODUCTS and place == 1)
    return frozenset(
        t.storage
        for t in workload.tensors
        if t.role is Role.WEIGHT
        and t.dtype == workload.own_dtype
        and width_bytes(t.dtype) > width_bytes(dtype)
        and readers[t.storage] == {True}
    )


def _dequantizing(op: Op, workload: Workload, storages: frozenset[int]) -> Op:
    """The op with its weights brought back to the format of its first operand."""
    if op.kind not in _PRODUCTS or len(op.inputs) < 2:
        return op
    x, weights = (workload.tensors[i] for i in op.inputs[:2])
    if weights.storage not in storages:
        return op
    attrs = {**op.attrs, "compute_dtype": x.dtype, "dequantize": True}
    return msgspec.structs.replace(op, attrs=attrs)
