"""All tensors of a checkpoint folder: one safetensors file, or an index and its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gambrel.capture.files.archive import check_file, read_head
from gambrel.capture.files.records import TensorInfo
from gambrel.capture.files.safetensors import read_safetensors, tensors_of
from gambrel.capture.weights.stored import StoredTensor
from gambrel.dtypes import parse_dtype, width_bytes
from gambrel.errors import FileFormatError
from gambrel.hub import HEADERS

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
#: DeepSeek-V3's index lists 91,991 tensors in 9 MB.
MAX_INDEX_BYTES: Final = 100_000_000
MAX_PARTS: Final = 2000


def read_checkpoint_folder(folder: str | Path) -> tuple[StoredTensor, ...]:
    """Every tensor of a checkpoint; only headers are read.

    Args:
        folder: With ``model.safetensors.index.json`` and the files that it names, or with
            ``model.safetensors``.

    Raises:
        FileFormatError: Neither is there; a part is missing, damaged, or lacks a tensor that the
            index promises; or the index names files outside the folder.
    """
    path = Path(folder)
    if (path / HEADERS).is_file():
        return _headers(path / HEADERS)
    if not (path / INDEX).is_file():
        return tuple(_stored(n, t) for n, t in read_safetensors(path / SINGLE).items())
    named = _weight_map(path / INDEX)
    found: dict[str, StoredTensor] = {}
    for part in sorted(set(named.values())):
        header = read_safetensors(path / part)
        missing = next((n for n, p in named.items() if p == part and n not in header), None)
        if missing is not None:
            raise FileFormatError(
                f"{path / part}: the tensor {missing[:80]!r}, which {INDEX} places here, is not in "
                "it; the download is incomplete or mixed."
            )
        for name, tensor in header.items():
            if name in found:
                raise FileFormatError(f"{path / part}: the tensor {name[:80]!r} is in two parts.")
            found[name] = _stored(name, tensor)
    return tuple(found.values())


def _headers(path: Path) -> tuple[StoredTensor, ...]:
    """Every tensor of a model whose headers alone were read from the hub."""
    try:
        parts = [tensors_of(path, part) for part in _json(path).values()]
    except (ValueError, RecursionError, AttributeError):
        raise FileFormatError(f"{path} holds no headers; it is damaged, delete it.") from None
    return tuple(_stored(name, tensor) for part in parts for name, tensor in part.items())


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds safetensors files of one model."""
    return any((folder / name).is_file() for name in (INDEX, SINGLE, HEADERS))


def _weight_map(path: Path) -> dict[str, str]:
    try:
        pairs = {str(k): str(v) for k, v in _json(path)["weight_map"].items()}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise FileFormatError(f"{path} holds no 'weight_map'; it is damaged.") from None
    parts = set(pairs.values())
    for part in parts:
        if Path(part).name != part or not part.endswith(".safetensors"):
            raise FileFormatError(f"{path}: {part[:80]!r} is no safetensors file of this folder.")
    if not parts or len(parts) > MAX_PARTS:
        raise FileFormatError(f"{path} names {len(parts)} files; a model has 1 to {MAX_PARTS}.")
    return pairs


def _json(path: Path) -> Any:
    if check_file(path) > MAX_INDEX_BYTES:
        raise FileFormatError(f"{path} is larger than any index; refused.")
    return json.loads(read_head(path, MAX_INDEX_BYTES))


def _stored(name: str, tensor: TensorInfo) -> StoredTensor:
    dtype = {"float8_e8m0fnu": "uint8"}.get(tensor.dtype) or parse_dtype(tensor.dtype)
    nbytes = round(tensor.numel * width_bytes(dtype))
    return StoredTensor(name=name, shape=tensor.shape, dtype=dtype, nbytes=nbytes)
