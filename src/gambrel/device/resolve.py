"""Hardware as users name it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gambrel.device.files import load_file
from gambrel.device.lookup import find, from_peaks
from gambrel.device.model import Device
from gambrel.errors import InputError, UnknownNameError
from gambrel.views import view

if TYPE_CHECKING:
    from gambrel.measure.records import HardwarePeaks

Hardware: TypeAlias = "str | PathLike[str] | Device | HardwarePeaks"


def resolve_hardware(hardware: Hardware) -> tuple[Device, tuple[str, ...]]:
    """A device from a name, a TOML file or itself, with what the user should know of the choice.

    ``"this"`` is this machine as `gambrel.measure_peaks` found it; measured peaks are a device too.

    Raises:
        UnknownNameError: No such device; the closest names are given.
        InputError: ``"this"`` before anything was measured.
        FileFormatError: The file is no device description.
    """
    if isinstance(hardware, Device):
        return hardware, ()
    measured = getattr(hardware, "to_device", None)
    if measured is not None:
        return measured(), ()
    text = str(hardware)
    if text.strip().lower() == "this":
        return this_machine()
    if text.endswith(".toml"):
        return load_file(Path(text)), ()
    match = find(text)
    return match.device, (match.note,) if match.note else ()


def this_machine() -> tuple[Device, tuple[str, ...]]:
    """This machine as it was measured."""
    found: tuple[Device, tuple[str, ...]] = view("this_machine")
    return found


def asked_device(
    hardware: Hardware | None, peak: float | None, bandwidth: float | None
) -> tuple[Device, tuple[str, ...]]:
    """The device that is named, or that two numbers describe.

    Args:
        hardware: As for `resolve_hardware`; None for two numbers.
        peak: Compute roof, FLOP/s.
        bandwidth: Memory roof, byte/s.

    Raises:
        InputError: Neither, both, or half of it; and what `resolve_hardware` raises.
    """
    if hardware is not None:
        if peak is not None or bandwidth is not None:
            raise InputError("give either --hardware or --peak and --bandwidth, not both.")
        return resolve_hardware(hardware)
    if peak is None or bandwidth is None:
        raise InputError(
            "which device? Give --hardware NAME (see 'gambrel hardware list'), "
            "or --peak 989T --bandwidth 3.35T."
        )
    return from_peaks(peak, bandwidth), ()


def _resolved(name: Hardware) -> list[tuple[Device, tuple[str, ...]]]:
    """One device, or those of a class; names before a class stand beside it."""
    if not isinstance(name, str) or "=" not in name:
        return [resolve_hardware(name)]
    parts = [part.strip() for part in name.split(",")]
    plain = [resolve_hardware(part) for part in parts if "=" not in part]
    return [*plain, *((device, ()) for device in _of_class(part for part in parts if "=" in part))]


def _of_class(parts: Iterable[str]) -> list[Device]:
    from dataclasses import fields

    from gambrel.device.catalog import load
    from gambrel.device.listing import Filter, list_rows

    pairs = (part.partition("=") for part in parts)
    wanted: dict[str, Any] = {name.strip(): value.strip() for name, _, value in pairs}
    known = [field.name for field in fields(Filter)]
    for field in wanted:
        if field not in known:
            raise UnknownNameError("class of devices", field, known)
    rows = list_rows(Filter(**wanted))
    if not rows:
        said = ", ".join(f"{field}={value}" for field, value in wanted.items())
        raise InputError(f"no device of the catalog has {said}; see 'gambrel hardware list'.")
    return [load(row.id) for row in rows]


def asked_devices(
    hardware: Iterable[Hardware] | None, peak: float | None, bandwidth: float | None
) -> tuple[list[Device], list[str]]:
    """Several devices, each once, with what the user should know; ``"all"`` is the catalog.

    ``"category=edge,max_tdp=15W"`` is a class of them: fields of `gambrel.device.listing.Filter`.

    Raises:
        InputError: As `asked_device`.
    """
    from gambrel.device.catalog import list_devices

    named = list(hardware or ())
    if peak is not None or bandwidth is not None or not named:
        device, notes = asked_device(named[0] if named else None, peak, bandwidth)
        return [device], list(notes)
    if any(isinstance(name, str) and name.strip().lower() == "all" for name in named):
        return list(list_devices()), []
    found = [one for name in named for one in _resolved(name)]
    devices = {device.id: device for device, _ in found}
    return list(devices.values()), list(dict.fromkeys(n for _, notes in found for n in notes))


def prices_of(given: Mapping[str, float] | None, devices: Sequence[Device]) -> dict[str, float]:
    """Device id → price; a price under ``""`` is that of every device."""
    prices = dict(given or {})
    common = prices.pop("", None)
    found = {} if common is None else {device.id: common for device in devices}
    own = {device.id for device in devices}
    named = ((n if n in own else resolve_hardware(n)[0].id, value) for n, value in prices.items())
    return found | dict(named)
