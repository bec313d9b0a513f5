"""Language models by name: the architecture fields of their published ``config.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gambrel.closest import closest, family
from gambrel.errors import FileFormatError, UnknownNameError
from gambrel.fileio import check_name, path_of, read_json
from gambrel.hub import folder_of, is_hub, title_of

if TYPE_CHECKING:
    from gambrel.llm.spec import ModelSpec

_FILE: Final = Path(__file__).parent / "models.json"
#: How alike, of 100, a name must be to be meant: below it are names of other networks.
_NEAR: Final = 84
_HINT: Final = (
    "Run 'gambrel models list', or give the model's config.json or --hub org/name; networks of "
    "other kinds are for 'gambrel analyze'."
)
_MAX_BYTES: Final = 10_000_000


def spec_of(model: str | Path | Mapping[str, Any] | ModelSpec) -> ModelSpec:
    """The model that a name, a ``config.json``, its folder or its content means.

    Args:
        model: One of these; a `ModelSpec` is returned as it is.

    Raises:
        UnknownNameError: No such name and no such file; carries the closest names.
        FileFormatError: A file that cannot be read as JSON.
        CaptureError: A configuration that is not understood.
    """
    from gambrel.llm.config.read import read_config  # names are looked up without these
    from gambrel.llm.spec import ModelSpec

    if isinstance(model, ModelSpec):
        return model
    if isinstance(model, Mapping):
        return read_config(model)
    path = folder_of(model) if is_hub(model) else path_of(model, "model")
    check_name(path)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file() or path.suffix == ".json":
        return read_config(_parse(path), _name(path))
    return _named(str(model))


def names() -> tuple[str, ...]:
    """All names, without aliases."""
    return tuple(_entries())


def spellings() -> Mapping[str, tuple[str, ...]]:
    """Name → the name itself and its aliases."""
    return {name: (name, *entry["aliases"]) for name, entry in _entries().items()}


def config_of(name: str) -> tuple[str, Mapping[str, Any]] | None:
    """Canonical name and configuration of a built-in model; None where there is no such model."""
    wanted = _plain(name.rpartition("/")[2])
    for canonical, entry in _entries().items():
        if wanted in {_plain(canonical), *map(_plain, entry["aliases"])}:
            return canonical, entry["config"]
    return None


def weights_of(name: str) -> str | None:
    """Where the weights of a built-in model are published, ``org/name``; None for others.

    Names that share one architecture have weights of their own; an ``org/name`` stays as it is.
    """
    found = None if "/" in name else config_of(name)
    if found is None:
        return None
    repositories: list[str] = _entries()[found[0]]["weights"]
    own = [one for one in repositories if _plain(one.rpartition("/")[2]) == _plain(name)]
    return (own or repositories)[0]


def _named(name: str) -> ModelSpec:
    found = config_of(name)
    if found is not None:
        from gambrel.llm.config.read import read_config

        return read_config(found[1], found[0])
    key, keys = _key(name), {_key(text): text for text in names()}
    near = dict.fromkeys([*closest(key, keys, 3, _NEAR), *family(key, keys, 3)])
    raise UnknownNameError("language model", name, [keys[k] for k in near][:3], _HINT)


@lru_cache(maxsize=1)
def _entries() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_bytes())
    return found


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


#: What a name may add without being another architecture.
_VARIANT: Final = re.compile(
    r"[-_.](instruct|chat|base|it|hf|thinking|\d{4}|fp8|fp4|nvfp4|mxfp4|bf16|dynamic|block|awq|gptq"
    r"|int4|int8|w4a16|w8a8)$"
)


def _plain(name: str) -> str:
    """Without organization, tuning and number format."""
    text = name.lower()
    while found := _VARIANT.search(text):
        text = text[: found.start()]
    return _key(text)


def _name(path: Path) -> str:
    """The folder of a ``config.json`` names the model, else the file does."""
    return title_of(path.parent) if path.name == "config.json" else path.stem


def _parse(path: Path) -> Mapping[str, Any]:
    found = read_json(path, _MAX_BYTES, "a configuration")
    if not isinstance(found, dict):
        raise FileFormatError(f"{path}: a configuration is a JSON object.")
    return found
