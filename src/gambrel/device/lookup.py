"""From a name, a file or two numbers to a device."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

import msgspec

from gambrel.closest import closest
from gambrel.device import catalog
from gambrel.device.files import load_file
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.device.modes import MARK, in_mode
from gambrel.device.names import NameKey, name_key
from gambrel.dtypes import parse_dtype
from gambrel.errors import FileFormatError, InputError, UnknownNameError
from gambrel.units import format_si

HINT: Final = "Run 'gambrel hardware list', or give --peak 989T --bandwidth 3.35T."


class DeviceMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A device and what the user should know about how it was found.

    Attributes:
        device: The device.
        note: A sentence when the name was ambiguous or the device is the user's; else empty.
    """

    device: Device
    note: str = ""


def find(name: str, *, user_folder: Path | None = None) -> DeviceMatch:
    """Finds a device by name, as people and drivers write it.

    Args:
        name: ``"h100"``, ``"NVIDIA H100 80GB HBM3"``, ``"a100-sxm4-80gb"``, or the path of a
            ``.toml`` file that describes a device; with a power mode as
            ``"jetson-orin-nano-8gb@7W"``.
        user_folder: Folder with the user's own device files, which come before the catalog;
            None for the usual one of this machine (`user_devices_folder`).

    Raises:
        UnknownNameError: No such device; the message has the closest names.
        FileFormatError: The file named cannot be used.
    """
    base, mark, mode = name.rpartition(MARK)
    if mark and base and not mode.lower().endswith("hz"):  # drivers write "CPU @ 2.00GHz"
        whole = find(base, user_folder=user_folder)
        return DeviceMatch(device=in_mode(whole.device, mode), note=whole.note)
    if name.endswith(".toml"):
        device = load_file(name)
        return DeviceMatch(device=device, note=f"{device.id} is read from {name}.")
    key = name_key(name)
    own, problems = _find_user_device(key, user_folder)
    match = own or _find_exact(name, key) or _find_ambiguous(name, key) or _find_stem(name, key)
    if match is None:
        raise UnknownNameError("device", name, _closest(name), " ".join([HINT, *problems]))
    return DeviceMatch(device=match.device, note=" ".join(filter(None, [match.note, *problems])))


def user_devices_folder() -> Path:
    """Where the user's own device files are looked for: ``gambrel/hardware`` of the settings."""
    from platformdirs import user_config_path

    return user_config_path("gambrel", appauthor=False) / "hardware"


def user_devices(folder: Path | None = None) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Reads the user's own device files.

    Args:
        folder: Where they are; None for `user_devices_folder`.

    Returns:
        The devices, and a sentence for each file that could not be used.
    """
    folder = user_devices_folder() if folder is None else folder
    devices, problems = [], []
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
        try:
            devices.append(load_file(path))
        except FileFormatError as error:
            problems.append(f"Ignored {error}")
    return tuple(devices), tuple(problems)


def from_peaks(
    peak_flop_per_s: float,
    byte_per_s: float,
    *,
    name: str = "custom",
    dtype: str | None = None,
) -> Device:
    """Makes a device of two numbers, as ``--peak 989T --bandwidth 3.35T`` gives them.

    Args:
        peak_flop_per_s: The compute roof, FLOP/s. It holds for all work, matrix and vector.
        byte_per_s: The bandwidth of the main memory, byte/s.
        name: Its name.
        dtype: The number format that the roof holds for; None for every one.

    Raises:
        InputError: A number is not positive and finite, or the format is unknown.
    """
    for value, what in ((peak_flop_per_s, "peak"), (byte_per_s, "bandwidth")):
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InputError(f"a {what} of {value!r} is not a positive, finite number.")
    source = Source(title="given by the user", confidence="user")
    roof = "any" if dtype is None else parse_dtype(dtype)
    formats = "every number format" if dtype is None else f"{roof} alone"
    return Device(
        id=name,
        name=name,
        category="custom",
        ceilings=(
            Ceiling(
                engine="any",
                dtype=roof,
                flop_per_s=float(peak_flop_per_s),
                kind=CeilingKind.USER,
                source=source,
            ),
        ),
        memory=(
            MemoryLevel(
                name="DRAM",
                byte_per_s=float(byte_per_s),
                kind=CeilingKind.USER,
                bandwidth_source=source,
            ),
        ),
        notes=(
            f"One compute roof, {format_si(peak_flop_per_s, 'FLOP/s')}, holds for {formats} and "
            "for matrix and vector work alike; the memory capacity is unknown.",
        ),
    )


def _find_user_device(
    key: NameKey, folder: Path | None
) -> tuple[DeviceMatch | None, tuple[str, ...]]:
    devices, problems = user_devices(folder)
    wanted = set(key.keys)
    for device in devices:
        names = (device.id, device.name, *device.aliases)
        if wanted.intersection(k for n in names for k in name_key(n).keys):
            return DeviceMatch(
                device=device, note=f"{device.id} is your own device file."
            ), problems
    return None, problems


def _find_exact(name: str, key: NameKey) -> DeviceMatch | None:
    known = catalog.index()
    for text in key.keys:
        found = known.names.get(text)
        if found is not None and key.may_name(known.vendors[found]):
            note = f"{name} stands for one of its devices, {found}." if key.instance else ""
            return DeviceMatch(device=catalog.load(found), note=note)
    return None


def _find_ambiguous(name: str, key: NameKey) -> DeviceMatch | None:
    known = catalog.index()
    for text in key.keys:
        first, *others = known.ambiguous.get(text, ("",))
        if first and key.may_name(known.vendors[first]):
            note = f"{name} is ambiguous: using {first}; also {', '.join(others)}."
            return DeviceMatch(device=catalog.load(first), note=note)
    return None


def _find_stem(name: str, key: NameKey) -> DeviceMatch | None:
    known = catalog.index()
    found = next((known.stems[text] for text in key.keys if text in known.stems), None)
    if found is None or not key.may_name(known.vendors[found]):
        return None
    return DeviceMatch(device=catalog.load(found), note=only_one(name, found))


def only_one(name: str, device: str) -> str:
    """Says that a name was completed."""
    return f"{name} is taken for {device}, the only device whose name begins so."


def _closest(name: str, count: int = 3, most: int = 8) -> list[str]:
    """Devices whose id holds all that was said, then those that are written alike."""
    known = catalog.index()
    names = known.names | {key: ids[0] for key, ids in known.ambiguous.items()}
    said = set(re.split(r"[^a-z0-9]+", name.lower()))
    holding = sorted((d for d in known.vendors if said <= set(d.split("-"))), key=len)
    query = name_key(name).joined or name.lower()
    alike = (names[text] for text in closest(query, names.keys(), 20, 60))
    return list(dict.fromkeys([*holding, *alike]))[: max(count, min(len(holding), most))]
