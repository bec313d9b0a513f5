"""Pickles read as data: no class is imported, nothing is called.

A pickle is a program for a small stack machine, which may name any class and call it. This machine
runs the same program with every name inert: what would be a class is a text, what would be an
object is a record of that text with its arguments and state. Tensors, which checkpoints rebuild
with a handful of functions of torch, become their shapes.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any, Final, Protocol

from gambrel.capture.files.records import Instance, Name, made, set_items, short_text, storage_of
from gambrel.errors import FileFormatError

#: Most instructions of one pickle; the largest checkpoints known take a million.
MAX_INSTRUCTIONS: Final = 5_000_000
#: Most values on the stack and in the memo at one time.
MAX_VALUES: Final = 5_000_000


#: What a pickle that contradicts itself leads to.
_DAMAGE: Final = (
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    AttributeError,
    RecursionError,
)


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
    except _DAMAGE as error:
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
    set_items(found, machine.pop_mark())
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
    set_items(machine.stack[-1], [key, value])


@_on("SETITEMS")
def _setitems(machine: _Machine, _: Any) -> None:
    items = machine.pop_mark()
    set_items(machine.stack[-1], items)


@_on("GLOBAL")
def _global(machine: _Machine, argument: str) -> None:
    machine.stack.append(Name(argument.replace(" ", ".", 1)))


@_on("STACK_GLOBAL")
def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(Name(f"{short_text(module)}.{short_text(name)}"))


@_on("REDUCE", "NEWOBJ")
def _reduce(machine: _Machine, _: Any) -> None:
    args, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(made(function, args))


@_on("NEWOBJ_EX")
def _newobj_ex(machine: _Machine, _: Any) -> None:
    machine.stack.pop()  # keyword arguments
    _reduce(machine, None)


@_on("OBJ")
def _obj(machine: _Machine, _: Any) -> None:
    function, *args = machine.pop_mark()
    machine.stack.append(made(function, tuple(args)))


@_on("INST")
def _inst(machine: _Machine, argument: str) -> None:
    args = tuple(machine.pop_mark())
    machine.stack.append(made(Name(argument.replace(" ", ".", 1)), args))


@_on("BUILD")
def _build(machine: _Machine, _: Any) -> None:
    state = machine.stack.pop()
    if isinstance(machine.stack[-1], Instance):
        machine.stack[-1].state = state


@_on("PERSID")
def _persid(machine: _Machine, argument: Any) -> None:
    machine.stack.append(storage_of(argument))


@_on("BINPERSID")
def _binpersid(machine: _Machine, _: Any) -> None:
    machine.stack.append(storage_of(machine.stack.pop()))


@_on("GET", "BINGET", "LONG_BINGET")
def _get(machine: _Machine, argument: int) -> None:
    machine.stack.append(machine.memo[argument])


@_on("PUT", "BINPUT", "LONG_BINPUT")
def _put(machine: _Machine, argument: int) -> None:
    machine.memo[argument] = machine.stack[-1]


@_on("MEMOIZE")
def _memoize(machine: _Machine, _: Any) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _extend(target: Any, items: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Instance):
        target.items.extend(items)
    else:
        raise ValueError("elements for what is no list")
