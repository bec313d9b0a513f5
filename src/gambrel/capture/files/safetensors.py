"""Headers of safetensors files: names, shapes and number formats, no bytes of weights.

Format: 8 bytes with the length of the header, little endian; the header, JSON; the tensors' bytes
(https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any, Final

from gambrel.capture.files.archive import check_file, read_head
from gambrel.capture.files.records import TensorInfo
from gambrel.errors import FileFormatError

#: The limit of the reference implementation.
MAX_HEADER_BYTES: Final = 100_000_000

_DTYPES: Final[dict[str, tuple[str, int]]] = {
    "F64": ("float64", 64),
    "F32": ("float32", 32),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "I64": ("int64", 64),
    "I32": ("int32", 32),
    "I16": ("int16", 16),
    "I8": ("int8", 8),
    "U64": ("uint64", 64),
    "U32": ("uint32", 32),
    "U16": ("uint16", 16),
    "U8": ("uint8", 8),
    "BOOL": ("bool", 8),
    "C64": ("complex64", 64),
}


def read_safetensors(path: str | Path) -> dict[str, TensorInfo]:
    """Names and forms of the tensors in a file; only its header is read.

    Raises:
        FileFormatError: It is truncated, damaged, or its header makes impossible claims.
    """
    path = Path(path)
    size = check_file(path)
    length = int.from_bytes(read_head(path, 8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise FileFormatError(
            f"{path}: the header claims {length} bytes of a file of {size}; it is truncated or no "
            "safetensors file."
        )
    try:
        header = json.loads(read_head(path, 8 + length)[8:])
    except (ValueError, RecursionError):
        raise FileFormatError(f"{path}: the header is no JSON; the file is damaged.") from None
    return tensors_of(path, header, size - 8 - length)


def tensors_of(path: Path, header: Any, room: int = 2**60) -> dict[str, TensorInfo]:
    """The tensors that a header describes.

    Args:
        path: For messages.
        header: Parsed.
        room: Bytes behind it.

    Raises:
        FileFormatError: It makes impossible claims.
    """
    if not isinstance(header, dict):
        raise FileFormatError(f"{path}: the header is no JSON object; the file is damaged.")
    return {k: _tensor(path, k, v, room) for k, v in header.items() if k != "__metadata__"}


def _tensor(path: Path, name: str, entry: Any, room: int) -> TensorInfo:
    try:
        dtype, bits = _DTYPES[entry["dtype"]]
        shape = tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        whole = [*shape, begin, end]
        if not all(type(n) is int and 0 <= n < 2**60 for n in whole):
            raise ValueError("no sizes")
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"{path}: the tensor {name[:80]!r} is described wrongly.") from None
    if not begin <= end <= room or (end - begin) * 8 != prod(shape) * bits:
        raise FileFormatError(
            f"{path}: the tensor {name[:80]!r} does not fit its place in the file; truncated?"
        )
    return TensorInfo(shape, dtype, name)
