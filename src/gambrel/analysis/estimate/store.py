"""Where a user's own constants are kept: one small JSON file a calibration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import msgspec

from gambrel.analysis.estimate.constants import Adjustment, Calibration, Set, packaged
from gambrel.analysis.estimate.probed import Probed
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import replace_file

_Kind = TypeVar("_Kind")

#: Beside the constants: what was measured of whole machines, of whole models on NPUs and elsewhere.
_MACHINES = "machines"
_CHIPS = "chips"
_RUNS = "runs"


def folder() -> Path:
    """The usual place on this machine: ``gambrel/calibration`` of the user's data."""
    from platformdirs import user_data_path

    return user_data_path("gambrel", appauthor=False) / "calibration"


def save(name: str, sets: tuple[Set, ...], where: Path | None = None) -> Path:
    """Stores sets under a name, replacing what had it.

    Raises:
        InputError: The name is no plain word.
    """
    return _write(name, folder() if where is None else where, sets)


def load(where: Path | None = None) -> Calibration | None:
    """The constants of gambrel with the user's own before them; None where there are no own.

    Raises:
        FileFormatError: A stored file cannot be read.
    """
    place = folder() if where is None else where
    if not place.is_dir():
        return None
    probed = _load_all(place / _MACHINES, Probed)
    chips = _load_all(place / _CHIPS, TiledConstants)
    runs = _load_all(place / _RUNS, Adjustment)
    own: list[Set] = []
    for path in sorted(place.glob("*.json")):
        try:
            own += msgspec.json.decode(path.read_bytes(), type=tuple[Set, ...])
        except (OSError, msgspec.MsgspecError) as error:
            raise FileFormatError(f"cannot use the calibration {path}: {error}.") from None
    if not (own or probed or chips or runs):
        return None
    base = packaged()
    return msgspec.structs.replace(
        base,
        sets=(*own, *base.sets),
        probed=probed,
        tiled=(*chips, *base.tiled),
        adjusted=runs,
    )


def save_probed(name: str, probed: tuple[Probed, ...], where: Path | None = None) -> Path:
    """Stores what was measured of a machine's kernels under a name, replacing what had it.

    Raises:
        InputError: The name is no plain word, or the folder cannot be written to.
    """
    return _write(name, (folder() if where is None else where) / _MACHINES, probed)


def save_runs(name: str, found: TiledConstants | Adjustment, where: Path | None = None) -> Path:
    """Stores what whole models say of a device under a name, replacing what had it.

    Raises:
        InputError: The name is no plain word, or the folder cannot be written to.
    """
    kind = _CHIPS if isinstance(found, TiledConstants) else _RUNS
    return _write(name, (folder() if where is None else where) / kind, (found,))


def _load_all(place: Path, kind: type[_Kind]) -> tuple[_Kind, ...]:
    found: list[_Kind] = []
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        try:
            found += msgspec.json.decode(path.read_bytes(), type=tuple[kind, ...])  # type: ignore[valid-type]
        except (OSError, msgspec.MsgspecError) as error:
            raise FileFormatError(f"cannot use the calibration {path}: {error}.") from None
    return tuple(found)


def _write(name: str, place: Path, content: object) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise InputError(f"{name!r} is no name for a calibration; use letters, digits, . _ -")
    path = place / f"{name}.json"
    try:
        place.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(content))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from None
    return path
