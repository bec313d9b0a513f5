"""Writes GGUF files from the format's specification, for tests: any claim can be made false."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
LETTERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B"}
LETTERS |= {U64: "Q", I64: "q", F64: "d"}

#: Number, values in a block and bytes of a block of the formats that tests use.
FORMATS = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144)}
FORMATS |= {"q6_k": (14, 256, 210), "mxfp4": (39, 32, 17), "bf16": (30, 1, 2)}


@dataclass
class Typed:
    """A value with its type; an array's value is (type of its values, values)."""

    kind: int
    value: Any


@dataclass
class Writer:
    """One file; ``order`` is the order of bytes."""

    order: str = "<"
    version: int = 3
    alignment: int = 32

    def text(self, text: str) -> bytes:
        data = text.encode()
        return struct.pack(self.order + "Q", len(data)) + data

    def value(self, typed: Typed) -> bytes:
        if typed.kind == STRING:
            return self.text(typed.value)
        if typed.kind == ARRAY:
            kind, values = typed.value
            head = struct.pack(self.order + "IQ", kind, len(values))
            return head + b"".join(self.value(Typed(kind, v)) for v in values)
        return struct.pack(self.order + LETTERS[typed.kind], typed.value)

    def entry(self, key: str, typed: Typed) -> bytes:
        return self.text(key) + struct.pack(self.order + "I", typed.kind) + self.value(typed)

    def tensor(self, name: str, sizes: Sequence[int], number: int, offset: int) -> bytes:
        """Sizes are the file's: the fastest first."""
        form = f"{self.order}I{len(sizes)}QIQ"
        return self.text(name) + struct.pack(form, len(sizes), *sizes, number, offset)

    def file(
        self,
        metadata: Mapping[str, Any],
        tensors: Sequence[tuple[str, Sequence[int], str]],
        data: bool = True,
    ) -> bytes:
        """A whole file. Tensors are (name, shape with the slowest first, format).

        The data are zeros; with ``data=False`` they are missing, as in a download cut off.
        """
        head = b"GGUF" + struct.pack(self.order + "IQQ", self.version, len(tensors), len(metadata))
        head += b"".join(self.entry(k, typed(v)) for k, v in metadata.items())
        offset = 0
        for name, shape, form in tensors:
            number, block, nbytes = FORMATS[form]
            head += self.tensor(name, list(reversed(shape)), number, offset)
            size = nbytes
            for n in shape:
                size *= n
            offset += -(-(size // block) // self.alignment) * self.alignment
        head += b"\0" * (-len(head) % self.alignment)
        return head + (b"\0" * offset if data else b"")


def typed(value: Any) -> Typed:
    """Types as converters choose them."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(BOOL, value)
    if isinstance(value, int):
        return Typed(U32, value)
    if isinstance(value, float):
        return Typed(F32, value)
    if isinstance(value, str):
        return Typed(STRING, value)
    kind = STRING if value and isinstance(value[0], str) else I32
    return Typed(ARRAY, (kind, value))


def write_sparse(path: Path, content: bytes, size: int) -> Path:
    """A file of ``size`` bytes that takes no space beyond ``content``."""
    with path.open("wb") as file:
        file.write(content)
        file.truncate(size)
    return path


def data_bytes(tensors: Sequence[tuple[str, Sequence[int], str]], alignment: int = 32) -> int:
    """Bytes of the data of a file, each tensor aligned."""
    total = 0
    for _, shape, form in tensors:
        _, block, nbytes = FORMATS[form]
        size = nbytes
        for n in shape:
            size *= n
        total += -(-(size // block) // alignment) * alignment
    return total
