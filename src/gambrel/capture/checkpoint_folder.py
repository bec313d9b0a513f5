"""A folder with ``config.json`` and safetensors files as a workload with the files' widths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gambrel.capture.closed_form import is_closed_form, workload_of_config
from gambrel.capture.files.archive import check_file, read_head
from gambrel.capture.files.safetensors_index import has_checkpoint, read_checkpoint_folder
from gambrel.capture.weights.checkpoint import with_checkpoint
from gambrel.errors import FileFormatError
from gambrel.hub import title_of
from gambrel.llm.config import read_config
from gambrel.llm.recipe import recipe_of
from gambrel.workload import Workload

#: Largest configuration that is read.
MAX_CONFIG_BYTES = 50_000_000


def workload_from_checkpoint(
    folder: Path, *, phase: str | None = None, sizes: Mapping[str, int | None] | None = None
) -> Workload | None:
    """One forward pass of the model in a folder, every weight as wide as its tensors.

    Args:
        folder: With ``config.json`` and safetensors files.
        phase: As for a configuration.
        sizes: As for a configuration.

    Returns:
        None where there are no safetensors files, or no closed form of the model.

    Raises:
        FileFormatError: A file is damaged, missing or contradicts the index.
    """
    if not has_checkpoint(folder):
        return None
    path = folder / "config.json"
    if check_file(path) > MAX_CONFIG_BYTES:
        raise FileFormatError(f"{path} is larger than any configuration; refused.")
    try:
        config = json.loads(read_head(path, MAX_CONFIG_BYTES))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged or truncated JSON ({error}).") from None
    if not isinstance(config, dict) or not is_closed_form(config):
        return None
    tensors = read_checkpoint_folder(folder)
    given = {k: v for k, v in (sizes or {}).items() if v is not None}
    name = title_of(folder)
    plain = {k: v for k, v in config.items() if k != "quantization_config"}
    built = workload_of_config(plain, phase=phase, sizes=given, name=name)
    found = with_checkpoint(built, tensors, read_config(config).precisions().multiply)
    recipe = recipe_of(built)
    return replace(
        found,
        origin=f"{len(tensors)} tensors of {name}",
        recipe=replace(recipe, stored=True).text() if recipe else "",
        chosen_dtype=True,
    )
