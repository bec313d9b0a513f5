"""The catalog: one TOML file a device, and what is generated from them to be read fast."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from gambrel.device.files import load_file
from gambrel.device.levels import largest_on_chip
from gambrel.device.model import Device
from gambrel.device.names import name_key
from gambrel.errors import FileFormatError, InputError

CATALOG: Final = Path(__file__).parent / "catalog"
INDEX_FILE: Final = CATALOG / "index.json"
DEVICES_FILE: Final = CATALOG / "devices.json"
AMBIGUOUS_FILE: Final = CATALOG / "_ambiguous.toml"
_AGAIN: Final = "Run scripts/build_catalog.py --index, or install again."
_T = TypeVar("_T")


#: Words that tell a product from another of the same number.
_VARIANTS: Final = frozenset(("ada", "elite", "max", "plus", "pro", "q", "super", "ti", "xt"))


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """What a look-up needs to know before it reads a file. Generated; see `build_index`.

    Attributes:
        vendors: Maker by device id; its keys are all ids.
        names: Device id by name key.
        ambiguous: Ids by name key for names that several devices share, the default first.
        stems: Device id by name key for the beginnings of ids that only one device has.
        on_chip: By class of device the one with the most on-chip memory, and its byte; see
            `gambrel.device.levels.largest_on_chip`.
    """

    vendors: dict[str, str]
    names: dict[str, str]
    ambiguous: dict[str, tuple[str, ...]]
    stems: dict[str, str]
    on_chip: dict[str, tuple[str, int]]


@lru_cache(maxsize=1)
def index() -> Index:
    """The generated index of the catalog."""
    return _generated(INDEX_FILE, Index)


def _generated(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise FileFormatError(f"{path}: {error}. {_AGAIN}") from None


@lru_cache(maxsize=1)
def _encoded() -> dict[str, msgspec.Raw]:
    """The devices as `encoded` wrote them, each decoded when it is asked for."""
    return _generated(DEVICES_FILE, dict[str, msgspec.Raw])


@cache  # all of them: a bound below their number would keep none of a scan
def load(device_id: str) -> Device:
    """One device of the catalog by its exact id.

    Raises:
        FileFormatError: There is none, or the catalog is damaged.
    """
    if device_id not in _encoded():
        raise FileFormatError(f"{DEVICES_FILE}: no device {device_id!r}. {_AGAIN}")
    return msgspec.json.decode(_encoded()[device_id], type=Device)


def read_files() -> tuple[Device, ...]:
    """All devices as their files say, by id: what index and devices are generated from."""
    return tuple(sorted(map(load_file, CATALOG.glob("[!_]*.toml")), key=lambda d: d.id))


def encoded(devices: Iterable[Device]) -> bytes:
    """All devices as JSON, one a line: a hundred TOML files take 50 times as long to read."""
    lines = (b'"%s":%s' % (d.id.encode(), msgspec.json.encode(d)) for d in devices)
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def list_devices() -> tuple[Device, ...]:
    """All devices of the catalog, by id."""
    return tuple(load(device_id) for device_id in sorted(index().vendors))


def _stems(ids: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Device by what only its id begins with: `altra-max-m128` of `altra-max-m128-30`.

    Left out is what would name another product (a GTX 1050 is no GTX 1050 Ti) and a single word
    without a number, which may be said of anything.
    """
    begun: dict[str, set[str]] = {}
    for device in ids:
        words = device.split("-")
        for count in range(1, len(words)):
            begun.setdefault("-".join(words[:count]), set()).add(device)
    found: dict[str, str] = {}
    for stem, devices in begun.items():
        if len(devices) > 1 or not ("-" in stem or re.search(r"\d", stem)):
            continue
        (device,) = devices
        key = name_key(stem)
        if _VARIANTS.isdisjoint(device.removeprefix(stem).split("-")) and not key.vendors:
            found |= {text: device for text in key.keys if text not in taken}
    return found


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
        stems=dict(sorted(_stems(vendors, names.keys() | shared.keys()).items())),
        on_chip=largest_on_chip(devices),
    )
