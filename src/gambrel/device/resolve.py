"""Hardware as users name it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gambrel.device.files import load_file
from gambrel.device.lookup import find, from_peaks
from gambrel.device.model import Device
from gambrel.errors import InputError

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
    """This machine as it was measured; measuring lies above this layer, so it is looked up late."""
    found: tuple[Device, tuple[str, ...]] = import_module("gambrel.measure.this").this_device()
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


def asked_devices(
    hardware: Iterable[Hardware] | None, peak: float | None, bandwidth: float | None
) -> tuple[list[Device], list[str]]:
    """Several devices, each once, with what the user should know; ``"all"`` is the catalog.

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
    found = [resolve_hardware(name) for name in named]
    devices = {device.id: device for device, _ in found}
    return list(devices.values()), list(dict.fromkeys(n for _, notes in found for n in notes))
