"""Which memory a tensor lies in, how often that was written, and the workload's tensor entries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from gambrel.dtypes import parse_dtype
from gambrel.errors import CaptureError, UnknownNameError
from gambrel.workload import Role, Tensor
from gambrel.workload.parameters import distinct_elements, union_length

_DTYPES: Final[dict[Any, str]] = {}

#: What a known value was made of; one made of both weights and inputs is an activation like any
#: other, and is not kept.
FROM_WEIGHTS: Final = 1
FROM_INPUTS: Final = 2
FROM_CHANCE: Final = 4

#: storage, version, offset, shape, strides, dtype: what makes two tensors the same entry.
_Key: TypeAlias = tuple[int, int, int, tuple[int, ...], tuple[int, ...], str]


class Storage:
    """One piece of memory.

    Attributes:
        id: Its number in the workload; -1 until an op touches it.
        version: How often it was written.
        role: What it is to the model.
        name: Parameter, buffer or argument name.
        value: A real copy of its bytes, where the values are known.
        sources: Of which of ``FROM_WEIGHTS``, ``FROM_INPUTS``, ``FROM_CHANCE`` the value is made.
        absent: Whether it is the model's own and was handed over on the meta device.
        all_of: Whether it holds the answer to "do all elements pass?".
    """

    __slots__ = ("absent", "all_of", "id", "name", "ref", "role", "sources", "value", "version")

    def __init__(self, ref: StorageWeakRef) -> None:
        self.id = -1
        self.version = 0
        self.role = Role.ACTIVATION
        self.name = ""
        self.value: Any = None
        self.sources = 0
        self.absent = False
        self.all_of = False
        # A weak reference lets the memory go but keeps its address from being given out again.
        self.ref = ref


class Ledger:
    """The storages and tensor entries of one capture.

    Attributes:
        asks_fp32: Whether something is in fp32 that would be in a model of 16 bits as well.
    """

    def __init__(self) -> None:
        self.asks_fp32 = False
        self._storages: dict[int, Storage] = {}
        self._used: list[Storage] = []
        self._index: dict[_Key, int] = {}

    def storage(self, tensor: Any) -> Storage:
        """The record of the memory behind a tensor."""
        memory = tensor.untyped_storage()
        found = self._storages.get(memory._cdata)
        if found is None:
            found = self._storages[memory._cdata] = Storage(StorageWeakRef(memory))
        return found

    def label(self, tensor: Any, role: Role, name: str = "", *, only: Role | None = None) -> None:
        """Gives a tensor's memory a role and a name; ``only`` when it still has that role."""
        storage = self.storage(tensor)
        if only is None or storage.role is only:
            storage.role = role
            storage.name = storage.name or name

    def entry(self, tensor: Any) -> int:
        """The index of the workload's tensor that describes this one in its present version."""
        storage = self.storage(tensor)
        if storage.id < 0:
            storage.id = len(self._used)
            self._used.append(storage)
        key = (
            storage.id,
            storage.version,
            tensor.storage_offset(),
            tuple(tensor.shape),
            tensor.stride(),
            dtype_name(tensor.dtype),
        )
        return self._index.setdefault(key, len(self._index))

    def enter_whole(self, tensors: Iterable[Any], *, read: bool = False) -> None:
        """Adds entries of those contiguous tensors of which the present ones leave out a part.

        Args:
            tensors: Any.
            read: Only of tensors of which a part is there.
        """
        seen: dict[int, set[tuple[int, int]]] = {}
        for storage, _, offset, shape, strides, _ in self._index:
            seen.setdefault(storage, set()).add((offset, distinct_elements(shape, strides)))
        for tensor in tensors:
            begin, count = tensor.storage_offset(), tensor.numel()
            parts = (
                (max(offset, begin), min(offset + n, begin + count) - max(offset, begin))
                for offset, n in seen.get(self.storage(tensor).id, ())
            )
            length = union_length((offset, n) for offset, n in parts if n > 0)
            if (length or not read) and length < count:
                self.entry(tensor)

    def tensors(self) -> tuple[Tensor, ...]:
        """All entries, in the order of their indices."""
        return tuple(self._tensor(*key) for key in self._index)

    def _tensor(
        self,
        storage: int,
        version: int,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str,
    ) -> Tensor:
        owner = self._used[storage]
        return Tensor(
            shape=shape,
            dtype=dtype,
            storage=storage,
            offset=offset,
            elements=_fewer_elements(shape, strides),
            version=version,
            role=owner.role,
            name=owner.name,
        )


@lru_cache(maxsize=4096)
def _fewer_elements(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    distinct = distinct_elements(shape, strides)
    return None if distinct == prod(shape) else distinct


def dtype_name(dtype: Any) -> str:
    """The name in `gambrel.dtypes` of a torch dtype.

    Raises:
        CaptureError: gambrel has no such format.
    """
    found = _DTYPES.get(dtype)
    if found is None:
        found = _DTYPES[dtype] = _look_up(dtype)
    return found


def _look_up(dtype: torch.dtype) -> str:
    try:
        return parse_dtype(str(dtype))
    except UnknownNameError:
        pass
    if dtype.is_floating_point and dtype.itemsize == 1:
        return "fp8"  # the exponent-only and other 8-bit variants
    raise CaptureError(
        f"{dtype} has no counterpart among gambrel's number formats; convert the model "
        "or its inputs to a floating dtype first, e.g. model.to(torch.bfloat16)."
    )
