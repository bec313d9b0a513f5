"""A GGUF file as a workload: the architecture from its metadata, the widths from its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gambrel.capture.closed_form import step_of
from gambrel.capture.weights.gguf import GgufHeader, read_gguf
from gambrel.capture.weights.gguf_config import config_of
from gambrel.capture.weights.widths import with_widths
from gambrel.errors import FileFormatError, GambrelError
from gambrel.llm.build import build
from gambrel.llm.config.read import read_config
from gambrel.llm.precision import Precisions
from gambrel.llm.recipe import Recipe
from gambrel.llm.spec import ModelSpec
from gambrel.workload import Workload

#: What stands between ops and in the cache (llama.cpp's default types).
BASE: Final = "fp16"


def gguf_spec(path: str | Path) -> tuple[ModelSpec, GgufHeader]:
    """The architecture that a GGUF file holds, and its header.

    Raises:
        FileFormatError: The header is truncated, damaged or hostile (the message names the byte),
            or describes an architecture that cannot be read from a GGUF file.
    """
    header = read_gguf(path)
    config = config_of(header)
    name = str(config.get("_name_or_path") or Path(path).stem)
    try:
        return read_config(config, name), header
    except FileFormatError:
        raise
    except GambrelError as error:
        raise FileFormatError(f"{path}: {error}") from None


def workload_from_gguf(
    path: str | Path,
    *,
    phase: str | None = None,
    sizes: Mapping[str, int | None] | None = None,
    precision: str | None = None,
) -> Workload:
    """One forward pass of the model in a GGUF file, every weight as wide as in the file.

    Args:
        path: The file; of a split model the first part.
        phase: ``"prefill"`` (the default) or ``"decode"``.
        sizes: ``batch`` (1), and ``seq`` or ``context`` (2048).
        precision: Formats of what the file does not hold, e.g. ``"kv=q8_0"``.

    Raises:
        FileFormatError: As for `gguf_spec`.
        InputError: Another phase, or a size that the model does not have.
        WorkloadError: A size out of range.
    """
    spec, header = gguf_spec(path)
    step = step_of(spec, phase, sizes or {}, fixed=True)
    chosen = Precisions.parse(precision or BASE, BASE)
    built = build(spec, step, replace(chosen, name=precision or "gguf"))
    return replace(
        with_widths(built, header),
        origin=f"{header.path.name}: {len(header.tensors)} tensors, GGUF version {header.version}",
        symbols=step.symbols,
        precisions=precision or "",
        recipe=Recipe(spec=spec, precisions=chosen, phase=step.label, stored=True).text(),
    )
