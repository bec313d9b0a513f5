"""The fields of Core ML's messages that are looked at; all others are skipped, weights too.

Numbers: mlmodel/format/Model.proto and MIL.proto of coremltools 9.0 (BSD-3-Clause).
"""

from __future__ import annotations

import struct
from typing import Any, Final

from gambrel.errors import FileFormatError
from gambrel.protobuf import Buffer, read_fields, read_varint

#: Message → field number → (name, type); ``*`` marks repeated ones. Types: int, text, another
#: message, or numbers packed as ints or floats.
_MESSAGES: Final[dict[str, dict[int, tuple[str, str]]]] = {
    "Model": {
        1: ("version", "int"),
        202: ("pipeline", "skip"),
        303: ("neural_network", "skip"),
        403: ("neural_network", "skip"),
        500: ("neural_network", "skip"),
        502: ("program", "Program"),
    },
    "Program": {2: ("functions*", "FunctionEntry")},
    "FunctionEntry": {1: ("key", "text"), 2: ("value", "Function")},
    "Function": {1: ("inputs*", "Named"), 2: ("opset", "text"), 3: ("blocks*", "BlockEntry")},
    "BlockEntry": {1: ("key", "text"), 2: ("value", "Block")},
    "Block": {1: ("inputs*", "Named"), 2: ("outputs*", "text"), 3: ("operations*", "Operation")},
    "Operation": {
        1: ("type", "text"),
        2: ("inputs*", "ArgumentEntry"),
        3: ("outputs*", "Named"),
        4: ("blocks*", "Block"),
        5: ("attributes*", "ValueEntry"),
    },
    "ArgumentEntry": {1: ("key", "text"), 2: ("value", "Argument")},
    "Argument": {1: ("arguments*", "Binding")},
    "Binding": {1: ("name", "text"), 2: ("value", "Value")},
    "ValueEntry": {1: ("key", "text"), 2: ("value", "Value")},
    "Named": {1: ("name", "text"), 2: ("type", "Type")},
    "Type": {1: ("tensor", "TensorType"), 5: ("state", "StateType")},
    "StateType": {1: ("wrapped", "Type")},
    "TensorType": {1: ("code", "int"), 2: ("rank", "int"), 3: ("dimensions*", "Dimension")},
    "Dimension": {1: ("constant", "Constant"), 2: ("unknown", "skip")},
    "Constant": {1: ("size", "int")},
    "Value": {2: ("type", "Type"), 3: ("immediate", "Immediate"), 5: ("blob", "Blob")},
    "Immediate": {1: ("tensor", "Elements")},
    "Blob": {2: ("offset", "int")},
    "Elements": {
        1: ("floats", "Floats"),
        2: ("ints", "Ints"),
        3: ("ints", "Ints"),
        4: ("texts", "Texts"),
        5: ("ints", "Ints"),
    },
    "Floats": {1: ("values", "floats")},
    "Ints": {1: ("values", "ints")},
    "Texts": {1: ("values*", "text")},
}
#: Constants up to this size are looked at.
_VALUE_BYTES: Final = 8192
_MAX_DEPTH: Final = 60
#: Fields of one message, counted before they are read where there may be many.
_MAX_FIELDS: Final = 200_000
_MANY_BYTES: Final = 2 * _MAX_FIELDS


def decode(data: Buffer, message: str, start: int = 0, end: int | None = None) -> dict[str, Any]:
    """The known fields of a message by name.

    Raises:
        FileFormatError: The bytes are no such message.
    """
    return _decode(data, message, start, len(data) if end is None else end, 0)


def _decode(data: Buffer, message: str, start: int, end: int, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise FileFormatError(f"messages nested more than {_MAX_DEPTH} deep; refused.")
    if end - start > _MANY_BYTES and sum(1 for _ in read_fields(data, start, end)) > _MAX_FIELDS:
        raise FileFormatError(f"more than {_MAX_FIELDS:,} operations in one block; refused.")
    known = _MESSAGES[message]
    found: dict[str, Any] = {}
    for number, wire, _, begin, stop in read_fields(data, start, end):
        name, kind = known.get(number, ("", "skip"))
        if not name:
            continue
        value = _value(data, kind, wire, begin, stop, depth)
        if name.endswith("*"):
            found.setdefault(name[:-1], []).append(value)
        else:
            found[name] = value
    return found


def _value(data: Buffer, kind: str, wire: int, begin: int, stop: int, depth: int) -> Any:
    if kind == "skip":
        return True
    if kind == "int":
        return _signed(read_varint(data, begin, stop)[0]) if wire == 0 else 0
    if wire != 2 and kind in ("ints", "floats"):
        return _single(data, kind, wire, begin, stop)
    if wire != 2:
        raise FileFormatError(f"damaged at byte {begin:,}: a field of another type.")
    if kind == "text":
        return bytes(data[begin : min(stop, begin + 2000)]).decode("utf-8", "replace")
    if kind in ("ints", "floats"):
        return _packed(data, kind, begin, stop)
    return _decode(data, kind, begin, stop, depth + 1)


def _single(data: Buffer, kind: str, wire: int, begin: int, stop: int) -> list[float]:
    if kind == "ints":
        return [_signed(read_varint(data, begin, stop)[0])]
    return list(struct.unpack("<f", data[begin:stop])) if wire == 5 else []


def _packed(data: Buffer, kind: str, begin: int, stop: int) -> list[float]:
    """Numbers; none of what is too large to be anything but a weight."""
    if stop - begin > _VALUE_BYTES:
        return []
    if kind == "floats":
        count = (stop - begin) // 4
        return list(struct.unpack(f"<{count}f", data[begin : begin + 4 * count]))
    found: list[float] = []
    at = begin
    while at < stop:
        value, at = read_varint(data, at, stop)
        found.append(_signed(value))
    return found


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
