"""An ONNX file opened: its structure parsed, its version known, its external data in its folder."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from gambrel.capture.files.archive import check_file
from gambrel.capture.onnx.wire import without_data
from gambrel.errors import FileFormatError, MissingExtraError, told

#: TensorProto.DataLocation
_EXTERNAL: Final = 1
#: Most bytes of structure, weights left out: protobuf's own limit.
_MAX_STRUCTURE: Final = 2**31 - 1

#: No operator set has so large a version; onnx itself is at 28.
_MAX_VERSION: Final = 100_000


def open_model(path: Path) -> Any:
    """Returns the ``onnx.ModelProto`` of a file, without the data of large tensors.

    Raises:
        FileFormatError: It is damaged, holds no graph, or names data outside its folder.
        MissingExtraError: The package onnx is not installed.
    """
    check_file(path)
    onnx = import_onnx()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        structure = without_data(data)
    if len(structure) > _MAX_STRUCTURE:
        raise FileFormatError(
            f"{len(structure):,} bytes of structure besides the weights; refused."
        )
    try:
        model = onnx.ModelProto.FromString(structure)
    except Exception as error:  # the decoder's own class, of another module in each version
        raise FileFormatError(
            f"damaged ({type(error).__name__}): no ONNX model can be read from it; export it again."
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileFormatError("holds no graph; was the export interrupted?")
    for entry in (*model.opset_import, *(o for f in model.functions for o in f.opset_import)):
        if not 0 <= entry.version < _MAX_VERSION:
            raise FileFormatError(
                f"operator set {entry.version} of {told(entry.domain)} is impossible."
            )
    _check_external(model, path.resolve().parent)
    return model


def import_onnx() -> Any:
    """The package onnx, its parser of structures included."""
    try:
        import onnx
        import onnx.shape_inference
    except ImportError:
        raise MissingExtraError("onnx", "onnx", "reading an .onnx file") from None
    return onnx


def _check_external(model: Any, folder: Path) -> None:
    """Data in other files must lie in the folder of the model; it is not opened."""
    checked: set[str] = set()
    for tensor in _tensors(model.graph, 0):
        if tensor.data_location != _EXTERNAL:
            continue
        for entry in tensor.external_data:
            if entry.key == "location" and entry.value not in checked:
                checked.add(entry.value)
                _check_location(entry.value, folder, tensor.name)


def _check_location(location: str, folder: Path, tensor: str) -> None:
    where = f"the data of {told(tensor)} are in {told(location)}"
    windows = PureWindowsPath(location)
    if "\0" in location or windows.is_absolute() or windows.drive or location.startswith("/"):
        raise FileFormatError(f"{where}, an absolute path; data must lie beside the model.")
    try:
        target = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError):
        raise FileFormatError(f"{where}, which is no path; refused.") from None
    if ".." in windows.parts or not target.is_relative_to(folder):
        raise FileFormatError(f"{where}, outside the model's folder; refused.")


def _tensors(graph: Any, depth: int) -> Iterator[Any]:
    """All tensors of a graph and of the graphs within."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == 4:  # TENSOR
                yield attribute.t
            elif attribute.type == 5 and depth < 60:  # GRAPH
                yield from _tensors(attribute.g, depth + 1)
