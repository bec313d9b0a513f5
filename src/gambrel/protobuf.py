"""Protocol Buffers' wire format: the fields of a message, read without its schema, and written.

https://protobuf.dev/programming-guides/encoding/ : a tag (field number and type), then a varint, 8
bytes, 4 bytes, or a length and as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

from gambrel.errors import FileFormatError

Buffer: TypeAlias = Any  # bytes, a view of them or a memory map: all slice to bytes
Value: TypeAlias = int | memoryview


def read_fields(
    data: Buffer, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, wire type, first byte, first byte of the value, byte behind it) of each field.

    Raises:
        FileFormatError: The bytes are no sequence of protobuf fields.
    """
    at, stop = start, len(data) if end is None else end
    while at < stop:
        head = at
        tag, at = read_varint(data, at, stop)
        wire = tag & 7
        begin = at
        if wire == 2:
            length, begin = read_varint(data, at, stop)
            at = begin + length
        elif wire == 0:
            _, at = read_varint(data, at, stop)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise FileFormatError(f"damaged at byte {head:,}: no protobuf field starts there.")
        if at > stop:
            raise FileFormatError(f"truncated at byte {head:,}: a field of {at - begin:,} bytes.")
        yield tag >> 3, wire, head, begin, at


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order: varints as ints, all else as bytes.

    Raises:
        FileFormatError: As for `read_fields`.
    """
    for number, wire, _, begin, stop in read_fields(data):
        yield number, data[begin:stop] if wire else read_varint(data, begin, stop)[0]


def read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """A number of at most 64 bits, and the byte behind it.

    Raises:
        FileFormatError: It has no end.
    """
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise FileFormatError(f"damaged or truncated near byte {at:,}.")


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


def varint(value: int) -> bytes:
    """A whole number from 0 on as it is written."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def packed(field: int, value: bytes) -> bytes:
    """A field of bytes: a text, a message, numbers one after another."""
    return varint(field << 3 | 2) + varint(len(value)) + value
