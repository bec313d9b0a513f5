"""The table of formats that a file can have: how each is told, who reads it, what that needs.

Adding a format is one module that reads it and one row here, with a test of the content in
`gambrel.capture.files.identify`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gambrel.capture import readers
from gambrel.capture.files import identify as tests
from gambrel.capture.files.identify import FileKind, FileProbe


class FileFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format.

    Attributes:
        kind: Its name.
        sniff: Whether a file has it, told by its content.
        reader: From a file to its workload.
        suffixes: How such files are usually named.
        extra: The optional dependency that reading needs; empty where the core is enough.
        runs: Whether such a file may hold a module that runs with example inputs.
    """

    kind: FileKind
    sniff: Callable[[FileProbe], bool]
    reader: readers.FileReader
    suffixes: tuple[str, ...]
    extra: str = ""
    runs: bool = False


#: In the order in which they are tried.
FORMATS: Final[tuple[FileFormat, ...]] = (
    FileFormat(
        kind=FileKind.GGUF, sniff=tests.is_gguf, reader=readers.from_gguf, suffixes=(".gguf",)
    ),
    FileFormat(kind=FileKind.PT2, sniff=tests.is_pt2, reader=readers.from_pt2, suffixes=(".pt2",)),
    FileFormat(
        kind=FileKind.TORCHSCRIPT,
        sniff=tests.is_torchscript,
        reader=readers.from_checkpoint,
        suffixes=(".pt",),
        extra="torch",
        runs=True,
    ),
    FileFormat(
        kind=FileKind.CHECKPOINT,
        sniff=tests.is_checkpoint,
        reader=readers.from_checkpoint,
        suffixes=(".pt", ".pth", ".ckpt", ".bin"),
        runs=True,
    ),
    FileFormat(
        kind=FileKind.TFLITE,
        sniff=tests.is_tflite,
        reader=readers.from_tflite,
        suffixes=(".tflite",),
        extra="tflite",
    ),
    FileFormat(
        kind=FileKind.OPENVINO,
        sniff=tests.is_openvino,
        reader=readers.from_openvino,
        suffixes=(".xml",),
    ),
    FileFormat(
        kind=FileKind.COREML,
        sniff=tests.is_coreml,
        reader=readers.from_coreml,
        suffixes=(".mlpackage", ".mlmodel"),
    ),
    FileFormat(
        kind=FileKind.KERAS,
        sniff=tests.is_keras,
        reader=readers.from_keras,
        suffixes=(".keras",),
    ),
    FileFormat(
        kind=FileKind.ONNX,
        sniff=tests.is_onnx,
        reader=readers.from_onnx,
        suffixes=(".onnx",),
        extra="onnx",
    ),
    FileFormat(
        kind=FileKind.WORKLOAD,
        sniff=tests.is_workload,
        reader=readers.from_workload,
        suffixes=(".json",),
    ),
    FileFormat(
        kind=FileKind.ANALYSIS,
        sniff=tests.is_analysis,
        reader=readers.from_analysis,
        suffixes=(".json",),
    ),
    FileFormat(
        kind=FileKind.SAFETENSORS,
        sniff=tests.is_safetensors,
        reader=readers.from_checkpoint,
        suffixes=(".safetensors",),
        runs=True,
    ),
    FileFormat(
        kind=FileKind.CONFIG,
        sniff=tests.is_config,
        reader=readers.from_config,
        suffixes=(".json",),
    ),
    FileFormat(
        kind=FileKind.STABLEHLO,
        sniff=tests.is_stablehlo,
        reader=readers.from_stablehlo,
        suffixes=(".mlir", ".mlirbc", ".stablehlo"),
        extra="jax",
    ),
    FileFormat(
        kind=FileKind.HLO,
        sniff=tests.is_hlo,
        reader=readers.from_hlo,
        suffixes=(".hlo",),
    ),
    FileFormat(
        kind=FileKind.PYTHON,
        sniff=tests.is_python,
        reader=readers.from_python,
        suffixes=(".py",),
        runs=True,
    ),
)

#: Every usual ending of a model's file.
SUFFIXES: Final = frozenset(suffix for row in FORMATS for suffix in row.suffixes)


def format_of(kind: FileKind) -> FileFormat:
    """The row of a kind."""
    return next(row for row in FORMATS if row.kind is kind)
