"""A Core ML model opened: the file within a package, the main function of its program."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any, Final

from gambrel.capture.coreml.messages import decode
from gambrel.capture.files.archive import check_file, read_head
from gambrel.errors import FileFormatError, told

_MANIFEST: Final = "Manifest.json"
_MAX_MANIFEST: Final = 2**20


def is_package(path: Path) -> bool:
    """Whether a folder is a model package."""
    return path.is_dir() and (path / _MANIFEST).is_file()


def file_of_package(folder: Path) -> Path:
    """The model's file in a package.

    Raises:
        FileFormatError: The manifest names none, or one outside.
    """
    try:
        manifest = json.loads(read_head(folder / _MANIFEST, _MAX_MANIFEST))
        item = manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]
        inner = str(item["path"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise FileFormatError(f"{folder}: {_MANIFEST} names no model; save it again.") from None
    path = folder / "Data" / inner
    if not path.resolve().is_relative_to(folder.resolve()):
        raise FileFormatError(f"{folder}: {_MANIFEST} names {told(inner)}, outside the package.")
    return path


def open_program(path: Path) -> dict[str, Any]:
    """The main function of a model's program: inputs and a block.

    Raises:
        FileFormatError: It is damaged, or holds a model of another kind.
    """
    check_file(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        model = decode(data, "Model")
    if "neural_network" in model:
        raise FileFormatError(
            "a Core ML neural network of the older kind, which does not store shapes; convert the "
            "model again with convert_to='mlprogram'."
        )
    if "program" not in model:
        raise FileFormatError("holds no ML program (a pipeline, a tree, or damaged).")
    functions = {
        f.get("key", ""): f.get("value", {}) for f in model["program"].get("functions", [])
    }
    function = functions.get("main") or next(iter(functions.values()), None)
    blocks = [b.get("value", {}) for b in (function or {}).get("blocks", [])]
    if function is None or not blocks:
        raise FileFormatError("holds a program without a function.")
    return {"inputs": function.get("inputs", []), "block": blocks[0]}
