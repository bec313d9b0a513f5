"""Surveys that were made before, one small JSON file each, in the user's cache folder.

A survey is used again only for the same device, driver, library versions and settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gambrel.fileio import replace_file
from gambrel.measure.records import SCHEMA_VERSION, Survey


def folder() -> Path:
    """The usual place on this machine: ``gambrel/peaks`` of the user's caches."""
    from platformdirs import user_cache_path

    return user_cache_path("gambrel", appauthor=False) / "peaks"


def key_of(parts: Mapping[str, str]) -> str:
    """A short name for what decides whether a survey still holds."""
    text = "\n".join(
        f"{k}={v}" for k, v in sorted({**parts, "schema": str(SCHEMA_VERSION)}.items())
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def load(key: str, where: Path | None = None) -> Survey | None:
    """The survey under a key; None where there is none or it cannot be read any more."""
    path = (folder() if where is None else where) / f"{key}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Survey)
    except (OSError, msgspec.MsgspecError):
        return None


def save(key: str, survey: Survey, where: Path | None = None) -> Path | None:
    """Stores a survey; None where nothing can be written, which only costs time later."""
    place = folder() if where is None else where
    path = place / f"{key}.json"
    try:
        place.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(survey))
    except OSError:
        return None
    return path


def latest(where: Path | None = None, cpu: str = "") -> Survey | None:
    """The survey that was stored last; None where there is none.

    Args:
        where: Folder; None for the usual one.
        cpu: Short name of this machine's processor: a survey of another one, which a shared home
            folder may hold, is passed over.
    """
    place = folder() if where is None else where
    paths = sorted(place.glob("*.json"), key=_age) if place.is_dir() else []
    for path in paths:
        found = load(path.stem, place)
        if found is not None and (found.device != "cpu" or not cpu or found.id == cpu):
            return found
    return None


def clear(where: Path | None = None) -> int:
    """Removes every stored survey and returns how many there were."""
    place = folder() if where is None else where
    removed = 0
    for path in place.glob("*.json") if place.is_dir() else ():
        path.unlink(missing_ok=True)
        removed += 1
    return removed


def _age(path: Path) -> float:
    """Newest first; a file that has just gone is the oldest."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0
