"""Models of the Hugging Face hub: their configuration and the headers of their weights, no weights.

What is on this machine is taken first: a snapshot in the cache of huggingface_hub, then what was
read here before. The network is used only for a model that the user names with ``hf://``, and only
where neither has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.errors import CaptureError, InputError, require, shown
from gambrel.fileio import replace_file

SCHEME: Final = "hf://"
#: The headers of a model's safetensors files in one, by name of the file, beside its configuration.
HEADERS: Final = "model.safetensors.headers.json"
_ID: Final = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*(?:@[\w][\w./-]*)?")
#: What describes a model, at the top of its repository or in the folder of one part of a pipeline.
_DESCRIBES: Final = re.compile(
    r"(?:[\w-]+/)?(?:config|model_index|params|scheduler_config)\.json", re.ASCII
)
_ROOTS: Final = ("model_index.json", "config.json")
#: A folder of the cache: ``models--org--name/snapshots/commit``.
_CACHED: Final = "models--"


class HubId(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the hub.

    Attributes:
        repo: ``org/name``, or ``name``.
        revision: Branch, tag or commit.
    """

    repo: str
    revision: str

    @property
    def cached(self) -> str:
        """The name of its folder in a cache."""
        return _CACHED + self.repo.replace("/", "--")


def is_hub(model: object) -> bool:
    """Whether a text names a model of the hub: ``hf://org/name``."""
    return isinstance(model, str) and model.startswith(SCHEME)


def named(model: Any) -> Any:
    """The same model or models, named as those of the hub."""
    if isinstance(model, (tuple, list)):
        return tuple(named(one) for one in model)
    if not isinstance(model, str):
        raise InputError(f"hub: {shown(model)} is no id of the hub; give one as org/name.")
    text = model if is_hub(model) else SCHEME + model
    _parsed(text)
    return text


def title_of(folder: Path) -> str:
    """What the model in a folder is called: a snapshot in a cache is named after a commit."""
    folder = folder.resolve()
    own = folder.parent.parent.name
    if folder.parent.name == "snapshots" and own.startswith(_CACHED):
        return own.removeprefix(_CACHED).replace("--", "/")
    return folder.name


@lru_cache(maxsize=64)
def folder_of(model: str) -> Path:
    """A folder of this machine with the description of a model of the hub.

    Args:
        model: ``hf://org/name`` or ``hf://org/name@revision``.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        InputError: It is no id.
        CaptureError: The model is not on this machine and the hub does not give it.
    """
    asked = _parsed(model)
    require("huggingface_hub", "hub", f"{SCHEME}{asked.repo}")
    snapshot = _snapshot(asked)
    if snapshot is not None and _has_weights(snapshot):
        return snapshot
    own = _read_before(asked)
    if own is not None:
        return own
    try:
        return _fetched(asked)
    except CaptureError:
        if snapshot is None:
            raise
        return snapshot


def _parsed(model: str) -> HubId:
    text = model.removeprefix(SCHEME)
    if not _ID.fullmatch(text) or ".." in text:
        raise InputError(f"{shown(text)} is no id of the hub; give one as org/name.")
    repo, _, revision = text.partition("@")
    return HubId(repo=repo, revision=revision or "main")


def _snapshot(asked: HubId) -> Path | None:
    """The folder in the cache of huggingface_hub."""
    from huggingface_hub import try_to_load_from_cache

    for name in _ROOTS:
        path = try_to_load_from_cache(asked.repo, name, revision=asked.revision)
        if isinstance(path, str):
            return Path(path).parent
    return None


def _has_weights(folder: Path) -> bool:
    """Whether all safetensors files that the folder should have are there; pipelines need none."""
    if (folder / "model_index.json").is_file():
        return True
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return (folder / "model.safetensors").is_file()
    try:
        parts = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return all((folder / part).is_file() for part in parts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _place(asked: HubId) -> Path:
    """Where descriptions are kept, laid out as the cache of huggingface_hub is."""
    from platformdirs import user_cache_path

    return user_cache_path("gambrel", appauthor=False) / "hub" / asked.cached


def _read_before(asked: HubId) -> Path | None:
    place = _place(asked)
    try:
        commit = (place / "refs" / asked.revision.replace("/", "--")).read_text("utf-8").strip()
    except OSError:
        return None
    folder = place / "snapshots" / commit
    there = commit.isalnum() and any((folder / name).is_file() for name in _ROOTS)
    return folder if there else None


def _fetched(asked: HubId) -> Path:
    """Reads the description over the network and keeps it."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import NotASafetensorsRepoError, SafetensorsParsingError

    api = HfApi()
    try:
        info = api.model_info(asked.repo, revision=asked.revision, timeout=10)
        names = [one.rfilename for one in info.siblings or ()]
        files = _described(asked, names)
        texts = {
            name: Path(api.hf_hub_download(asked.repo, name, revision=info.sha)).read_bytes()
            for name in files
        }
        headers: bytes | None = None
        if "config.json" in files and any(name.endswith(".safetensors") for name in names):
            try:
                found = api.get_safetensors_metadata(asked.repo, revision=info.sha)
                headers = _headers(found.files_metadata)
            except (NotASafetensorsRepoError, SafetensorsParsingError):
                headers = None  # adapters, parts under other names: the configuration alone
    except CaptureError:
        raise
    except Exception as error:  # the network, the hub's refusals, a damaged answer
        raise CaptureError(_refusal(asked, error)) from None
    if headers is not None:
        texts[HEADERS] = headers
    return _kept(asked, str(info.sha), texts)


def _described(asked: HubId, names: Iterable[str]) -> list[str]:
    names = list(names)
    files = [name for name in names if _DESCRIBES.fullmatch(name)]
    if any(name in files for name in _ROOTS):
        return files
    gguf = next((name for name in names if name.endswith(".gguf")), None)
    if gguf is not None:
        raise CaptureError(
            f"{asked.repo} on the hub holds GGUF files: download one and give its path "
            f"(hf download {asked.repo} {gguf})."
        )
    raise CaptureError(f"{asked.repo} on the hub has no config.json; give a model that has one.")


def _headers(files: Mapping[str, Any]) -> bytes:
    return json.dumps(
        {
            name: {
                tensor: {"dtype": t.dtype, "shape": t.shape, "data_offsets": t.data_offsets}
                for tensor, t in file.tensors.items()
            }
            for name, file in files.items()
        }
    ).encode()


def _kept(asked: HubId, commit: str, texts: Mapping[str, bytes]) -> Path:
    place = _place(asked)
    folder = place / "snapshots" / commit
    try:
        for name, data in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        refs = place / "refs"
        refs.mkdir(exist_ok=True)
        replace_file(refs / asked.revision.replace("/", "--"), commit.encode())
    except OSError as error:
        raise CaptureError(f"cannot keep {asked.repo} in {place}: {error.strerror}.") from None
    return folder


def _refusal(asked: HubId, error: Exception) -> str:
    from huggingface_hub import errors as hub

    where = f"{asked.repo} on the hub"
    if isinstance(error, hub.GatedRepoError):
        return f"{where} asks for a licence: accept it on its page, then run 'hf auth login'."
    if isinstance(error, hub.RepositoryNotFoundError):
        return f"no {where} (or it is private: run 'hf auth login')."
    if isinstance(error, hub.RevisionNotFoundError):
        return f"{where} has no revision {asked.revision!r}."
    if isinstance(error, hub.OfflineModeIsEnabled):
        return f"{asked.repo} is not in the cache, and HF_HUB_OFFLINE forbids to ask the hub."
    return (
        f"{asked.repo} is not in the cache of huggingface_hub, and the hub cannot be reached "
        f"({type(error).__name__}); give the folder of a download, or its config.json."
    )
