"""Pickles read as data: no class is imported, nothing is called.

A pickle is a program for a small stack machine, which may name any class and call it. This machine
runs the same program with every name inert: what would be a class is a text, what would be an
object is a record of that text with its arguments and state. Tensors, which checkpoints rebuild
with a handful of functions of torch, become their shapes.
"""

from __future__ import annotations

import io
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Protocol

from gambrel.errors import FileFormatError

#: Most instructions of one pickle; the largest checkpoints known take a million.
MAX_INSTRUCTIONS: Final = 5_000_000
#: Most values on the stack and in the memo at one time.
MAX_VALUES: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that the pickle names, e.g. ``torch.nn.modules.conv.Conv2d``."""

    text: str


@dataclass(slots=True, eq=False)
class Instance:
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
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TensorInfo:
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


@dataclass(frozen=True, slots=True)
class StorageRef:
    """A persistent id: bytes that stand outside the pickle."""

    dtype: str
    key: str
    numel: int


class _Mark:
    """Where a group of values begins on the stack."""


_MARK: Final = _Mark()


class Stream(Protocol):
    """What instructions are read from."""

    def read(self, count: int = -1, /) -> bytes:
        """Up to ``count`` bytes."""

    def readline(self) -> bytes:
        """Up to the end of a line."""


def read_pickle(data: bytes | Stream, source: str) -> Any:
    """Runs a pickle with every name inert.

    Args:
        data: The pickle; from a stream only its own bytes are taken.
        source: Whose it is, for messages.

    Returns:
        Plain values, lists, tuples and dicts of them, `Instance`, `Name`, `TensorInfo`. Sets
        become lists. A dict key that is no plain value is replaced by its class's name.

    Raises:
        FileFormatError: It is truncated, no pickle, or asks for more than any checkpoint does.
    """
    machine = _Machine()
    stream: Any = io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count > MAX_INSTRUCTIONS or len(machine.stack) + len(machine.memo) > MAX_VALUES:
                raise FileFormatError(f"{source}: more instructions than any checkpoint; refused.")
            if opcode.name == "STOP":
                return machine.stack[-1]
            action = _ACTIONS.get(opcode.name)
            if action is None:
                raise FileFormatError(f"{source}: the pickle uses {opcode.name}; refused.")
            action(machine, argument)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise FileFormatError(
            f"{source}: the pickle inside is damaged or truncated ({str(error)[:100]})."
        ) from None
    raise FileFormatError(f"{source}: the pickle inside is truncated.")


class _Machine:
    """The stack and the memo of a pickle."""

    __slots__ = ("memo", "stack")

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop_mark(self) -> list[Any]:
        """The values down to the last mark, which goes as well."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                found = self.stack[i + 1 :]
                del self.stack[i:]
                return found
        raise ValueError("a group without a beginning")


_Action = Callable[[_Machine, Any], None]
_ACTIONS: Final[dict[str, _Action]] = {}


def _on(*names: str) -> Callable[[_Action], _Action]:
    def register(action: _Action) -> _Action:
        _ACTIONS.update(dict.fromkeys(names, action))
        return action

    return register


@_on("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
@_on("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE")
@_on("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8")
def _push(machine: _Machine, argument: Any) -> None:
    machine.stack.append(argument)


@_on("PROTO", "FRAME")
def _nothing(machine: _Machine, argument: Any) -> None:
    """Says how the rest is laid out, which the reader of instructions knows."""


@_on("NONE")
def _none(machine: _Machine, _: Any) -> None:
    machine.stack.append(None)


@_on("NEWTRUE")
def _true(machine: _Machine, _: Any) -> None:
    machine.stack.append(True)


@_on("NEWFALSE")
def _false(machine: _Machine, _: Any) -> None:
    machine.stack.append(False)


@_on("MARK")
def _mark(machine: _Machine, _: Any) -> None:
    machine.stack.append(_MARK)


@_on("POP")
def _pop(machine: _Machine, _: Any) -> None:
    machine.stack.pop()


@_on("POP_MARK")
def _pop_mark(machine: _Machine, _: Any) -> None:
    machine.pop_mark()


@_on("DUP")
def _dup(machine: _Machine, _: Any) -> None:
    machine.stack.append(machine.stack[-1])


@_on("EMPTY_LIST", "EMPTY_SET")
def _empty_list(machine: _Machine, _: Any) -> None:
    machine.stack.append([])


@_on("LIST", "FROZENSET")
def _list(machine: _Machine, _: Any) -> None:
    machine.stack.append(machine.pop_mark())


@_on("EMPTY_TUPLE")
def _empty_tuple(machine: _Machine, _: Any) -> None:
    machine.stack.append(())


@_on("TUPLE")
def _tuple(machine: _Machine, _: Any) -> None:
    machine.stack.append(tuple(machine.pop_mark()))


def _tuple_of(count: int) -> _Action:
    def action(machine: _Machine, _: Any) -> None:
        taken = tuple(machine.stack[-count:])
        if len(taken) < count:
            raise ValueError("too few values")
        machine.stack[-count:] = [taken]

    return action


for _count in (1, 2, 3):
    _ACTIONS[f"TUPLE{_count}"] = _tuple_of(_count)


@_on("EMPTY_DICT")
def _empty_dict(machine: _Machine, _: Any) -> None:
    machine.stack.append({})


@_on("DICT")
def _dict(machine: _Machine, _: Any) -> None:
    found: dict[Any, Any] = {}
    _set_items(found, machine.pop_mark())
    machine.stack.append(found)


@_on("APPEND")
def _append(machine: _Machine, _: Any) -> None:
    item = machine.stack.pop()
    _extend(machine.stack[-1], [item])


@_on("APPENDS", "ADDITEMS")
def _appends(machine: _Machine, _: Any) -> None:
    items = machine.pop_mark()
    _extend(machine.stack[-1], items)


@_on("SETITEM")
def _setitem(machine: _Machine, _: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set_items(machine.stack[-1], [key, value])


@_on("SETITEMS")
def _setitems(machine: _Machine, _: Any) -> None:
    items = machine.pop_mark()
    _set_items(machine.stack[-1], items)


@_on("GLOBAL")
def _global(machine: _Machine, argument: str) -> None:
    machine.stack.append(Name(argument.replace(" ", ".", 1)))


@_on("STACK_GLOBAL")
def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(Name(f"{_text(module)}.{_text(name)}"))


@_on("REDUCE", "NEWOBJ")
def _reduce(machine: _Machine, _: Any) -> None:
    args, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_made(function, args))


@_on("NEWOBJ_EX")
def _newobj_ex(machine: _Machine, _: Any) -> None:
    machine.stack.pop()  # keyword arguments
    _reduce(machine, None)


@_on("OBJ")
def _obj(machine: _Machine, _: Any) -> None:
    function, *args = machine.pop_mark()
    machine.stack.append(_made(function, tuple(args)))


@_on("INST")
def _inst(machine: _Machine, argument: str) -> None:
    args = tuple(machine.pop_mark())
    machine.stack.append(_made(Name(argument.replace(" ", ".", 1)), args))


@_on("BUILD")
def _build(machine: _Machine, _: Any) -> None:
    state = machine.stack.pop()
    if isinstance(machine.stack[-1], Instance):
        machine.stack[-1].state = state


@_on("PERSID")
def _persid(machine: _Machine, argument: Any) -> None:
    machine.stack.append(_storage(argument))


@_on("BINPERSID")
def _binpersid(machine: _Machine, _: Any) -> None:
    machine.stack.append(_storage(machine.stack.pop()))


@_on("GET", "BINGET", "LONG_BINGET")
def _get(machine: _Machine, argument: int) -> None:
    machine.stack.append(machine.memo[argument])


@_on("PUT", "BINPUT", "LONG_BINPUT")
def _put(machine: _Machine, argument: int) -> None:
    machine.memo[argument] = machine.stack[-1]


@_on("MEMOIZE")
def _memoize(machine: _Machine, _: Any) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _made(function: Any, args: Any) -> Any:
    """What a call would have made: a tensor's form, a dict, else an inert record."""
    name = function.text if isinstance(function, Name) else _text(function)
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
        _set_items(found, list(pair))
    return found


_REBUILT: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuilt_tensor,
    "torch._utils._rebuild_parameter": lambda args: args[0],
    "torch._utils._rebuild_parameter_with_state": lambda args: args[0],
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuilt_meta,
}


def _storage(pid: Any) -> StorageRef | Name | None:
    """``("storage", type, key, location, numel, ...)``, ``("module", class, ...)``, or unknown."""
    if isinstance(pid, tuple) and len(pid) > 1 and pid[0] == "module":
        return pid[1] if isinstance(pid[1], Name) else None
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        return None
    kind = pid[1].text.rpartition(".")[2] if isinstance(pid[1], Name) else ""
    numel = pid[4] if isinstance(pid[4], int) else 0
    return StorageRef(_STORAGE_DTYPES.get(kind, "uint8"), _text(pid[2]), numel)


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


def _extend(target: Any, items: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Instance):
        target.items.extend(items)
    else:
        raise ValueError("elements for what is no list")


def _set_items(target: Any, items: list[Any]) -> None:
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


def _text(value: Any) -> str:
    """A short text of any value that never walks into it."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, (str, int)):
        return str(value)[:500]
    return value.cls if isinstance(value, Instance) else type(value).__name__
