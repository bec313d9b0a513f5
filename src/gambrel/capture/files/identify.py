"""What a model file is, told by its content; the name decides only for plain text."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from gambrel.capture.files.archive import check_file, open_zip, read_head
from gambrel.errors import FileFormatError, told


class FileKind(StrEnum):
    """The kinds of file that are told apart."""

    PT2 = "pt2"
    CHECKPOINT = "checkpoint"
    TORCHSCRIPT = "torchscript"
    ONNX = "onnx"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    CONFIG = "config"
    WORKLOAD = "workload"
    ANALYSIS = "analysis"
    PYTHON = "python"


#: Largest JSON text that is looked into.
MAX_JSON_BYTES: Final = 256 * 2**20
#: How much of a file is enough to tell binary kinds apart.
_HEAD_BYTES: Final = 4096
#: Field numbers of onnx.ModelProto that may follow ir_version: (2 producer_name, 3
#: producer_version, 4 domain, 5 model_version, 6 doc_string, 7 graph, 8 opset_import).
_ONNX_SECOND: Final = frozenset({0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})

#: A configuration has one of these; the last is in those of Mamba's authors.
_CONFIG_FIELDS: Final = frozenset({"model_type", "architectures", "_class_name", "ssm_cfg"})

_WANTED: Final = (
    "give a .pt2 export, a .pt/.pth checkpoint, an .onnx file, a config.json, a file.py:function "
    "or a name from 'gambrel models list'."
)


def identify(path: str | Path) -> FileKind:
    """Says what a file is.

    Raises:
        FileFormatError: It is missing, empty, a directory, truncated, or nothing that gambrel
            knows; the message says what to give.
    """
    path = Path(path)
    check_file(path)
    head = read_head(path, _HEAD_BYTES)
    for matches, kind in _MAGIC:
        if matches(head):
            return kind
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(path)
    if head.startswith(b"\x1f\x8b"):
        return _compressed(path, head)
    if _is_safetensors(path, head):
        return FileKind.SAFETENSORS
    if head.lstrip()[:1] == b"{":
        return _json(path)
    if path.suffix.lower() == ".py" and _is_text(head):
        return FileKind.PYTHON
    raise FileFormatError(f"{path} is {_looks(head)}; {_WANTED}")


def _is_pickle(head: bytes) -> bool:
    """Protocol 2 to 5, then an instruction that can follow."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _is_onnx(head: bytes) -> bool:
    """ir_version, a small number, then another field of the model."""
    return len(head) > 3 and head[0] == 0x08 and head[1] < 0x40 and head[2] in _ONNX_SECOND


def _is_safetensors(path: Path, head: bytes) -> bool:
    """A length, then JSON. A damaged length is recognised by the file's name."""
    if len(head) < 9 or head[8:9] != b"{":
        return path.suffix.lower() == ".safetensors"
    return head[7] == 0 and head[6] == 0


_MAGIC: Final[tuple[tuple[Callable[[bytes], bool], FileKind], ...]] = (
    (lambda head: head.startswith(b"GGUF"), FileKind.GGUF),
    (_is_pickle, FileKind.CHECKPOINT),
    (_is_onnx, FileKind.ONNX),
)


def _archive(path: Path) -> FileKind:
    with open_zip(path) as archive:
        names = archive.namelist()
    if any("/models/" in f"/{n}" and n.endswith(".json") for n in names) or any(
        n.endswith("serialized_exported_program.json") for n in names
    ):
        return FileKind.PT2
    if any(n == "data.pkl" or n.endswith("/data.pkl") for n in names):
        scripted = any(n.endswith("/constants.pkl") or "/code/" in f"/{n}" for n in names)
        return FileKind.TORCHSCRIPT if scripted else FileKind.CHECKPOINT
    if any("aotinductor" in n for n in names):
        raise FileFormatError(
            f"{path} is a compiled AOTInductor package, whose code cannot be read as a model; save "
            "the program before compiling, with torch.export.save."
        )
    raise FileFormatError(f"{path} is a zip archive without a model; {_WANTED}")


def _compressed(path: Path, head: bytes) -> FileKind:
    """The first bytes of a gzip tell whether it is one of gambrel's own files."""
    try:
        text = zlib.decompressobj(wbits=31).decompress(head, 1024)
    except zlib.error:
        raise FileFormatError(f"{path} is a damaged gzip file.") from None
    if b'"gambrel-workload"' in text:
        return FileKind.WORKLOAD
    if b'"schema_version"' in text:
        return FileKind.ANALYSIS
    raise FileFormatError(f"{path} is a gzip file of something else; unpack it first.")


def _json(path: Path) -> FileKind:
    size = check_file(path)
    if size > MAX_JSON_BYTES:
        raise FileFormatError(f"{path}: {size} bytes of JSON are more than any model; refused.")
    try:
        data = json.loads(read_head(path, MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged or truncated JSON ({error}).") from None
    return _json_kind(path, data)


def _json_kind(path: Path, data: dict[str, Any]) -> FileKind:
    if data.get("format") == "gambrel-workload":
        return FileKind.WORKLOAD
    if "schema_version" in data and ("units" in data or "ops" in data or "kind" in data):
        return FileKind.ANALYSIS
    if _CONFIG_FIELDS.intersection(data):
        return FileKind.CONFIG
    keys = ", ".join(told(key) for key in list(data)[:4]) or "none"
    raise FileFormatError(
        f"{path} is JSON of an unknown kind (keys: {keys}); a model's config.json has 'model_type'."
    )


def _is_text(head: bytes) -> bool:
    try:
        head[: _HEAD_BYTES - 4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _looks(head: bytes) -> str:
    return "text, not a model" if _is_text(head) else "no model file of a known kind"
