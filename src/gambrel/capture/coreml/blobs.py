"""Tensors in the file of weights of a Core ML package."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from gambrel.capture.files.archive import check_file
from gambrel.capture.onnx.edges import Edge, FileRange
from gambrel.capture.onnx.folding import read_range
from gambrel.errors import FileFormatError

_HEAD: Final = struct.Struct("<IIQQ")
_MARK: Final = 0xDEADBEEF


def read_blob(path: Path, edge: Edge) -> Any:
    """The elements of a tensor in the file of weights; None where it is not there.

    Its place leads to 64 bytes: a mark, a type, the size and the offset of the data
    (mlmodel/src/MILBlob/Blob/StorageFormat.hpp).
    """
    if not isinstance(edge.place, tuple) or edge.place[0] != "blob":
        return None
    try:
        check_file(path)
        with path.open("rb") as file:
            file.seek(edge.place[1])
            mark, _, size, offset = _HEAD.unpack(file.read(_HEAD.size))
    except (OSError, ValueError, struct.error, FileFormatError):
        return None
    there = Edge(edge.name, edge.shape, edge.code, place=FileRange(offset, offset + size))
    return read_range(path, there) if mark == _MARK else None
