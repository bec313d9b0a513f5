"""Fields of messages in Protocol Buffers' wire format, as far as traces need them.

https://protobuf.dev/programming-guides/encoding/ : a tag (field number and type), then a varint, 8
bytes, 4 bytes, or a length and as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: Of a varint of 64 bits.
_LONGEST = 10

Value = int | memoryview


class WireError(ValueError):
    """Bytes that are no message."""


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order: varints as ints, all else as bytes.

    Raises:
        WireError: It ends within a field, or has a type that no message has.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise WireError(f"type {kind} of a field")
        if at + size > end:
            raise WireError("it ends within a field")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, min(at + _LONGEST, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    raise WireError("a number without end")


def text(value: Value) -> str:
    """A string; empty where the field is a number."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", errors="replace")


def number(value: Value) -> int:
    """A whole number; 0 where the field is none."""
    return value if isinstance(value, int) else 0


def double(value: Value) -> float:
    """A floating-point number of 8 bytes; 0 where the field is none."""
    if isinstance(value, int) or len(value) != struct.calcsize("<d"):
        return 0.0
    found: float = struct.unpack("<d", value)[0]
    return found
