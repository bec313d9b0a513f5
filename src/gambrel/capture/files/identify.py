"""What a model file is, told by its content; the name decides only for plain text.

The tests of the formats; `gambrel.capture.formats` is the table that they stand in.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
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
    TFLITE = "tflite"
    COREML = "coreml"
    KERAS = "keras"
    OPENVINO = "openvino"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    CONFIG = "config"
    WORKLOAD = "workload"
    ANALYSIS = "analysis"
    STABLEHLO = "stablehlo"
    HLO = "hlo"
    PYTHON = "python"


#: Largest JSON text that is looked into.
MAX_JSON_BYTES: Final = 256 * 2**20
#: How much of a file is enough to tell binary kinds apart.
_HEAD_BYTES: Final = 4096
#: Field numbers of onnx.ModelProto that may follow ir_version: (2 producer_name, 3
#: producer_version, 4 domain, 5 model_version, 6 doc_string, 7 graph, 8 opset_import).
_ONNX_SECOND: Final = frozenset({0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})

#: MLIR's bytecode.
_BYTECODE: Final = b"ML\xefR"
#: A module of MLIR in text, behind what it says of its lines.
_MODULE: Final = re.compile(rb"^module\b[^\n]*\{|^ *(?:func\.func|stablehlo\.)", re.M)

#: A configuration has one of these; the last are in those of Mamba's authors, of TensorRT-LLM's
#: engines and checkpoints, and of timm.
_CONFIG_FIELDS: Final = frozenset(
    {"model_type", "architectures", "_class_name", "ssm_cfg", "pretrained_config", "architecture"}
)

_WANTED: Final = (
    "give a .pt2 export, a .pt/.pth checkpoint, an .onnx, .tflite or .mlir file, a config.json, "
    "a file.py:function or a name from 'gambrel models list'."
)


@dataclass(frozen=True)
class FileProbe:
    """A file as the tests of the formats see it; what takes time is read once and when asked for.

    Attributes:
        path: The file.
        head: Its first bytes.
    """

    path: Path
    head: bytes

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Names in a zip archive; none for other files."""
        if not self.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return ()
        with open_zip(self.path) as archive:
            return tuple(archive.namelist())

    @cached_property
    def unzipped(self) -> bytes:
        """The first bytes within a gzip; none for other files."""
        if not self.head.startswith(b"\x1f\x8b"):
            return b""
        try:
            return zlib.decompressobj(wbits=31).decompress(self.head, 1024)
        except zlib.error:
            raise FileFormatError(f"{self.path} is a damaged gzip file.") from None

    @cached_property
    def data(self) -> dict[str, Any]:
        """What a JSON file holds; nothing for other files."""
        if self.head.lstrip()[:1] != b"{":
            return {}
        size = check_file(self.path)
        if size > MAX_JSON_BYTES:
            raise FileFormatError(
                f"{self.path}: {size} bytes of JSON are more than any model; refused."
            )
        try:
            data: dict[str, Any] = json.loads(read_head(self.path, MAX_JSON_BYTES))
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{self.path} is damaged or truncated JSON ({error}).") from None
        return data


def identify(path: str | Path) -> FileKind:
    """Says what a file is.

    Raises:
        FileFormatError: It is missing, empty, a directory, truncated, or nothing that gambrel
            knows; the message says what to give.
    """
    from gambrel.capture.formats import FORMATS

    path = Path(path)
    check_file(path)
    probe = FileProbe(path, read_head(path, _HEAD_BYTES))
    for row in FORMATS:
        if row.sniff(probe):
            return row.kind
    raise FileFormatError(_unknown(probe))


def is_gguf(probe: FileProbe) -> bool:
    """The magic word."""
    return probe.head.startswith(b"GGUF")


def is_checkpoint(probe: FileProbe) -> bool:
    """A pickle of protocol 2 to 5, or a zip with one and without code."""
    head = probe.head
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return True
    return _has_pickle(probe) and not _has_code(probe)


def is_torchscript(probe: FileProbe) -> bool:
    """A zip with a pickle and code."""
    return _has_pickle(probe) and _has_code(probe)


def is_pt2(probe: FileProbe) -> bool:
    """A zip with an exported program."""
    return any(
        ("/models/" in f"/{n}" and n.endswith(".json"))
        or n.endswith("serialized_exported_program.json")
        for n in probe.members
    )


def is_onnx(probe: FileProbe) -> bool:
    """ir_version, a small number, then another field of the model; or named so."""
    head = probe.head
    named = probe.path.suffix.lower() == ".onnx" and not probe.members
    return named or (
        len(head) > 3 and head[0] == 0x08 and head[1] < 0x40 and head[2] in _ONNX_SECOND
    )


def is_tflite(probe: FileProbe) -> bool:
    """The identifier of the flatbuffer's schema; a damaged file is told by its name."""
    return probe.head[4:8] == b"TFL3" or probe.path.suffix.lower() == ".tflite"


def is_openvino(probe: FileProbe) -> bool:
    """XML of a net."""
    head = probe.head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return head.startswith((b"<?xml", b"<net")) and b"<net" in head


def is_keras(probe: FileProbe) -> bool:
    """A zip with a configuration and weights; a damaged one is told by its name."""
    members = {"config.json", "model.weights.h5"} <= set(probe.members)
    return members or probe.path.suffix.lower() == ".keras"


def is_coreml(probe: FileProbe) -> bool:
    """specificationVersion, then a description whose first field is a message; or named so."""
    head = probe.head
    if probe.path.suffix.lower() == ".mlmodel":
        return True
    if len(head) < 8 or head[0] != 0x08 or head[2] != 0x12:
        return False
    at = 3
    while at < 7 and head[at] & 0x80:
        at += 1
    return head[at + 1] in (0x0A, 0x52, 0xA2)


def is_safetensors(probe: FileProbe) -> bool:
    """A length, then JSON. A damaged length is recognised by the file's name."""
    head = probe.head
    if len(head) < 9 or head[8:9] != b"{":
        return probe.path.suffix.lower() == ".safetensors"
    return head[7] == 0 and head[6] == 0


def is_workload(probe: FileProbe) -> bool:
    """Gambrel's own file of a workload, packed or not."""
    return b'"gambrel-workload"' in probe.unzipped or probe.data.get("format") == "gambrel-workload"


def is_analysis(probe: FileProbe) -> bool:
    """Gambrel's own file of a result, packed or not."""
    data = probe.data
    named = "units" in data or "ops" in data or "kind" in data
    return b'"schema_version"' in probe.unzipped or ("schema_version" in data and named)


def is_config(probe: FileProbe) -> bool:
    """The configuration of a model of Hugging Face, timm or TensorRT-LLM."""
    return bool(_CONFIG_FIELDS.intersection(probe.data))


def is_stablehlo(probe: FileProbe) -> bool:
    """Bytecode of MLIR, by itself or as jax.export wraps it; a module in text; or named so."""
    if probe.path.suffix.lower() in (".mlir", ".mlirbc", ".stablehlo") or _BYTECODE in probe.head:
        return True
    return bool(_MODULE.search(probe.head)) and probe.path.suffix.lower() != ".py"


def is_hlo(probe: FileProbe) -> bool:
    """The first word of a dump; or named so."""
    named = probe.path.suffix.lower() == ".hlo" and _is_text(probe.head)
    return named or probe.head.startswith(b"HloModule ")


def is_python(probe: FileProbe) -> bool:
    """Text that is named so."""
    return probe.path.suffix.lower() == ".py" and _is_text(probe.head)


def _has_pickle(probe: FileProbe) -> bool:
    return any(n == "data.pkl" or n.endswith("/data.pkl") for n in probe.members)


def _has_code(probe: FileProbe) -> bool:
    return any(n.endswith("/constants.pkl") or "/code/" in f"/{n}" for n in probe.members)


def _unknown(probe: FileProbe) -> str:
    """Why a file is of no known kind, and what to give."""
    path = probe.path
    if any("aotinductor" in n for n in probe.members):
        return (
            f"{path} is a compiled AOTInductor package, whose code cannot be read as a model; save "
            "the program before compiling, with torch.export.save."
        )
    if probe.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return f"{path} is a zip archive without a model; {_WANTED}"
    if probe.unzipped or probe.head.startswith(b"\x1f\x8b"):
        return f"{path} is a gzip file of something else; unpack it first."
    if probe.head.lstrip()[:1] == b"{":
        keys = ", ".join(told(key) for key in list(probe.data)[:4]) or "none"
        return (
            f"{path} is JSON of an unknown kind (keys: {keys}); "
            "a model's config.json has 'model_type'."
        )
    looks = "text, not a model" if _is_text(probe.head) else "no model file of a known kind"
    return f"{path} is {looks}; {_WANTED}"


def _is_text(head: bytes) -> bool:
    try:
        head[: _HEAD_BYTES - 4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
