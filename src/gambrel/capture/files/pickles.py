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


class PickleStream(Protocol):
    """What instructions are read from."""

    def read(self, count: int = -1, /) -> bytes:
        """Up to ``count`` bytes."""

    def readline(self) -> bytes:
        """Up to the end of a line."""


def read_pickle(data: bytes | PickleStream, source: str) -> Any:
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
            if opcode.name in _PUSHED:
                machine.stack.append(_PUSHED[opcode.name](machine, argument))
            elif opcode.name in _DONE:
                _DONE[opcode.name](machine, argument)
            else:
                raise FileFormatError(f"{source}: the pickle uses {opcode.name}; refused.")
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

    def pop_two(self) -> tuple[Any, Any]:
        """The value under the top one, and that one."""
        above, below = self.stack.pop(), self.stack.pop()
        return below, above


def _name(argument: str) -> Name:
    return Name(argument.replace(" ", ".", 1))


def _stack_name(machine: _Machine, _: Any) -> Name:
    module, name = machine.pop_two()
    return Name(f"{short_text(module)}.{short_text(name)}")


def _tuple(machine: _Machine, count: int) -> tuple[Any, ...]:
    if len(machine.stack) < count:
        raise ValueError("too few values")
    taken = tuple(machine.stack[-count:])
    del machine.stack[-count:]
    return taken


def _dict(machine: _Machine, _: Any) -> dict[Any, Any]:
    filled: dict[Any, Any] = {}
    set_items(filled, machine.pop_mark())
    return filled


def _called(machine: _Machine, _: Any) -> Any:
    return made(*machine.pop_two())


def _called_with_names(machine: _Machine, _: Any) -> Any:
    machine.stack.pop()  # keyword arguments
    return made(*machine.pop_two())


def _grouped(machine: _Machine, _: Any) -> Any:
    function, *args = machine.pop_mark()
    return made(function, tuple(args))


_Action = Callable[[_Machine, Any], Any]
_CONSTANTS: Final = (
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING"
    " UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
)
#: What an instruction with its argument pushes onto the stack.
_PUSHED: Final[dict[str, _Action]] = {
    **dict.fromkeys(_CONSTANTS.split(), lambda _, argument: argument),
    "NONE": lambda *_: None,
    "NEWTRUE": lambda *_: True,
    "NEWFALSE": lambda *_: False,
    "MARK": lambda *_: _MARK,
    "DUP": lambda machine, _: machine.stack[-1],
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_SET"), lambda *_: []),
    "EMPTY_TUPLE": lambda *_: (),
    "EMPTY_DICT": lambda *_: {},
    **dict.fromkeys(("LIST", "FROZENSET"), lambda machine, _: machine.pop_mark()),
    "TUPLE": lambda machine, _: tuple(machine.pop_mark()),
    "TUPLE1": lambda machine, _: _tuple(machine, 1),
    "TUPLE2": lambda machine, _: _tuple(machine, 2),
    "TUPLE3": lambda machine, _: _tuple(machine, 3),
    "DICT": _dict,
    "GLOBAL": lambda _, argument: _name(argument),
    "STACK_GLOBAL": _stack_name,
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _called),
    "NEWOBJ_EX": _called_with_names,
    "OBJ": _grouped,
    "INST": lambda machine, argument: made(_name(argument), tuple(machine.pop_mark())),
    "PERSID": lambda _, argument: storage_of(argument),
    "BINPERSID": lambda machine, _: storage_of(machine.stack.pop()),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda machine, argument: machine.memo[argument]
    ),
}


def _append(machine: _Machine, _: Any) -> None:
    target, item = machine.pop_two()
    machine.stack.append(target)
    _extend(target, [item])


def _appends(machine: _Machine, _: Any) -> None:
    items = machine.pop_mark()
    _extend(machine.stack[-1], items)


def _set_item(machine: _Machine, _: Any) -> None:
    pair = list(machine.pop_two())
    set_items(machine.stack[-1], pair)


def _set_all_items(machine: _Machine, _: Any) -> None:
    items = machine.pop_mark()
    set_items(machine.stack[-1], items)


def _build(machine: _Machine, _: Any) -> None:
    state = machine.stack.pop()
    if isinstance(machine.stack[-1], Instance):
        machine.stack[-1].state = state


def _put(machine: _Machine, argument: int) -> None:
    machine.memo[argument] = machine.stack[-1]


#: What the other instructions do.
_DONE: Final[dict[str, _Action]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda *_: None),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_mark(),
    "APPEND": _append,
    **dict.fromkeys(("APPENDS", "ADDITEMS"), _appends),
    "SETITEM": _set_item,
    "SETITEMS": _set_all_items,
    "BUILD": _build,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    "MEMOIZE": lambda machine, _: _put(machine, len(machine.memo)),
}


def _extend(target: Any, items: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Instance):
        target.items.extend(items)
    else:
        raise ValueError("elements for what is no list")
