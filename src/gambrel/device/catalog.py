"""The catalog: one TOML file a device, and an index so that a look-up reads one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gambrel.device.files import load_file
from gambrel.device.levels import largest_on_chip
from gambrel.device.model import Device
from gambrel.device.names import name_key
from gambrel.errors import FileFormatError, InputError

CATALOG: Final = Path(__file__).parent / "catalog"
INDEX_FILE: Final = CATALOG / "index.json"
AMBIGUOUS_FILE: Final = CATALOG / "_ambiguous.toml"


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """What a look-up needs to know before it reads a file. Generated; see `build_index`.

    Attributes:
        vendors: Maker by device id; its keys are all ids.
        names: Device id by name key.
        ambiguous: Ids by name key for names that several devices share, the default first.
        on_chip: By class of device the one with the most on-chip memory, and its byte; see
            `gambrel.device.levels.largest_on_chip`.
    """

    vendors: dict[str, str]
    names: dict[str, str]
    ambiguous: dict[str, tuple[str, ...]]
    on_chip: dict[str, tuple[str, int]]


@lru_cache(maxsize=1)
def index() -> Index:
    """The generated index of the catalog."""
    try:
        return msgspec.json.decode(INDEX_FILE.read_bytes(), type=Index)
    except (OSError, msgspec.DecodeError) as error:
        raise FileFormatError(
            f"{INDEX_FILE}: {error}. Run scripts/build_catalog.py --index, or install again."
        ) from None


@lru_cache(maxsize=256)
def load(device_id: str) -> Device:
    """Reads one device of the catalog by its exact id.

    Raises:
        FileFormatError: The file is missing or damaged.
    """
    return load_file(CATALOG / f"{device_id}.toml")


def list_devices() -> tuple[Device, ...]:
    """All devices of the catalog, by id."""
    return tuple(load(device_id) for device_id in sorted(index().vendors))


def build_index(devices: Iterable[Device], ambiguous: Mapping[str, Iterable[str]]) -> Index:
    """Derives the index from the devices.

    Args:
        devices: All devices.
        ambiguous: Names that several devices share, with their ids, the default first.

    Raises:
        InputError: Two devices share an id or a name, or an ambiguous name has an unknown id.
    """
    devices = tuple(devices)
    vendors: dict[str, str] = {}
    shared = {key: tuple(ids) for name, ids in ambiguous.items() for key in name_key(name).keys}
    names: dict[str, str] = {}
    for device in devices:
        if device.id in vendors:
            raise InputError(f"two devices have the id {device.id!r}.")
        vendors[device.id] = device.vendor
        for name in (device.id, device.name, *device.aliases):
            for key in name_key(name).keys:
                if key in shared or names.setdefault(key, device.id) != device.id:
                    raise InputError(
                        f"{device.id}: the name {name!r} also stands for "
                        f"{', '.join(shared.get(key, (names.get(key, ''),)))}."
                    )
    unknown = sorted({i for ids in shared.values() for i in ids} - vendors.keys())
    if unknown:
        raise InputError(f"an ambiguous name stands for unknown ids: {', '.join(unknown)}.")
    return Index(
        vendors=dict(sorted(vendors.items())),
        names=dict(sorted(names.items())),
        ambiguous=dict(sorted(shared.items())),
        on_chip=largest_on_chip(devices),
    )
