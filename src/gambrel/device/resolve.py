"""Hardware and sizes as users name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gambrel.device.files import load_file
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.measure.records import HardwarePeaks

Hardware: TypeAlias = "str | PathLike[str] | Device | HardwarePeaks"


def listed_hardware(hardware: Hardware | Sequence[Hardware]) -> list[Hardware]:
    """One device or several, as a list."""
    if isinstance(hardware, Sequence) and not isinstance(hardware, str):
        return list(hardware)
    return [hardware]


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


def checked_sizes(sizes: Mapping[str, int | None]) -> dict[str, int | None]:
    """The sizes that were given.

    Raises:
        InputError: One that is no whole number of at least 1.
    """
    for name, value in sizes.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name}={value!r}: give a whole number of at least 1.")
    return {k: v for k, v in sizes.items() if v is not None}
