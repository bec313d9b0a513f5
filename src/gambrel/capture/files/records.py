"""What stands for the objects of a pickle that is read as data.

Classes and functions are names, objects are records; tensors, which checkpoints rebuild with a
handful of functions of torch, become their forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, Final

import msgspec


class Name(msgspec.Struct, frozen=True):
    """A class or function that the pickle names, e.g. ``torch.nn.modules.conv.Conv2d``."""

    text: str


class Instance(msgspec.Struct, eq=False):
    """An object that was not built.

    Attributes:
        cls: Name of its class, or of the function that would have made it.
        args: What that would have been called with.
        state: Its attributes, mostly a dict; None when the pickle sets none.
        items: Elements or pairs added to it, for subclasses of list, set and dict.
    """

    cls: str
    args: tuple[Any, ...] = ()
    state: Any = None
    items: list[Any] = msgspec.field(default_factory=list)


class TensorInfo(msgspec.Struct, frozen=True):
    """What a checkpoint says of a tensor.

    Attributes:
        shape: Sizes.
        dtype: A name of torch, e.g. ``"float16"``.
        storage: The member that would hold its bytes; tensors that share one are tied.
        offset: First element within the storage.
    """

    shape: tuple[int, ...]
    dtype: str
    storage: str = ""
    offset: int = 0

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)


class StorageRef(msgspec.Struct, frozen=True):
    """A persistent id: bytes that stand outside the pickle."""

    dtype: str
    key: str
    numel: int


def made(function: Any, args: Any) -> Any:
    """What a call would have made: a tensor's form, a dict, else an inert record."""
    name = function.text if isinstance(function, Name) else short_text(function)
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    known = _REBUILT.get(name)
    if known is not None:
        return known(given)
    return Instance(name, given)


def _rebuilt_tensor(args: tuple[Any, ...]) -> Any:
    """(storage, offset, size, stride, ...)."""
    storage, offset, size = _opened(args[0]), args[1], args[2]
    if not isinstance(storage, StorageRef) or not isinstance(offset, int):
        raise ValueError("a tensor without a storage")
    return TensorInfo(_shape(size), storage.dtype, storage.key, offset)


def _opened(storage: Any) -> Any:
    """A plain pickle holds each storage as a file of its own, of which only the type is taken."""
    if isinstance(storage, Instance) and storage.cls == "torch.storage._load_from_bytes":
        held = storage.args[0] if storage.args else None
        kind = _STORAGE_TYPE.search(held[:4096]) if isinstance(held, bytes) else None
        if kind is not None:
            return StorageRef(_STORAGE_DTYPES.get(kind[1].decode(), "uint8"), str(id(storage)), 0)
    return storage


def _rebuilt_meta(args: tuple[Any, ...]) -> Any:
    """(dtype, size, stride, requires_grad)."""
    dtype = args[0].text.removeprefix("torch.") if isinstance(args[0], Name) else "float32"
    return TensorInfo(_shape(args[1]), dtype)


def _shape(size: Any) -> tuple[int, ...]:
    found = size.args[0] if isinstance(size, Instance) and size.args else size
    shape = tuple(found)
    if not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError("a tensor with impossible sizes")
    return shape


def _ordered(args: tuple[Any, ...]) -> Any:
    found: dict[Any, Any] = {}
    for pair in args[0] if args and isinstance(args[0], list) else ():
        set_items(found, list(pair))
    return found


def _rebuilt_type(args: tuple[Any, ...]) -> Any:
    """(function, type, args, state): a subclass of Tensor, rebuilt as the tensor that it is."""
    return made(args[0], args[2])


_REBUILT: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuilt_tensor,
    "torch._tensor._rebuild_from_type_v2": _rebuilt_type,
    "torch._utils._rebuild_parameter": lambda args: args[0],
    "torch._utils._rebuild_parameter_with_state": lambda args: args[0],
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuilt_meta,
}


def storage_of(pid: Any) -> StorageRef | Name | None:
    """``("storage", type, key, location, numel, ...)``, ``("module", class, ...)``, or unknown."""
    if isinstance(pid, tuple) and len(pid) > 1 and pid[0] == "module":
        return pid[1] if isinstance(pid[1], Name) else None
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        return None
    kind = pid[1].text.rpartition(".")[2] if isinstance(pid[1], Name) else ""
    numel = pid[4] if isinstance(pid[4], int) else 0
    return StorageRef(_STORAGE_DTYPES.get(kind, "uint8"), short_text(pid[2]), numel)


_STORAGE_DTYPES: Final[dict[str, str]] = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "Float8_e4m3fnStorage": "float8_e4m3fn",
    "Float8_e5m2Storage": "float8_e5m2",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
}


_STORAGE_TYPE: Final = re.compile(rb"(?:^|[\n.])(\w+Storage)\b")


def short_text(value: Any) -> str:
    """A short text of any value that never walks into it."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, (str, int)):
        return str(value)[:500]
    return value.cls if isinstance(value, Instance) else type(value).__name__


def set_items(target: Any, items: list[Any]) -> None:
    """Adds keys and values, one after the other in ``items``, to a dict or a record.

    Raises:
        ValueError: The target takes none, or a value is missing.
    """
    if isinstance(target, Instance):
        target.items.extend(zip(items[::2], items[1::2], strict=True))
        return
    if not isinstance(target, dict):
        raise ValueError("keys for what is no dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[_key(key)] = value


def _key(key: Any) -> Any:
    """A key that is cheap and safe to hash: deep tuples could exhaust the stack."""
    if key is None or isinstance(key, (str, int, float, bool, bytes, Name)):
        return key
    if isinstance(key, tuple) and all(isinstance(k, (str, int, float)) for k in key):
        return key
    return Name(key.cls if isinstance(key, Instance) else type(key).__name__)
