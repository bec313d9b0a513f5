"""Rows of the list of devices: what one compares when choosing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.device.catalog import list_devices
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, main_memory, resolve
from gambrel.dtypes import parse_dtype
from gambrel.errors import UnknownNameError
from gambrel.units import parse_quantity


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One device in a list.

    Attributes:
        id: Of the device.
        name: Full name.
        vendor: Maker.
        category: Class of device.
        year: Of introduction.
        precision: The format of the peak: the one asked for, or the device's own.
        peak_flop_per_s: Dense peak for that format; None when it has no such engine.
        peak_byte_per_s: Bandwidth of its main memory; None when unknown.
        ridge_point: FLOP/byte; None when either is unknown.
        capacity_bytes: Of its main memory.
        tdp_w: The most power that it draws.
        typical_power_w: What it draws while it works, where that is stated.
        modes: Names of its power modes.
    """

    id: str
    name: str
    vendor: str
    category: str
    year: int | None
    precision: str
    peak_flop_per_s: float | None
    peak_byte_per_s: float | None
    ridge_point: float | None
    capacity_bytes: int | None
    tdp_w: float | None
    typical_power_w: float | None = None
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which devices to list; None does not filter. Unknown values never pass a limit.

    Attributes:
        text: Part of name, id or alias.
        vendor: Maker.
        category: Part of the class; an ``npu`` is an accelerator as well.
        min_memory: E.g. ``"24GiB"``.
        max_tdp: E.g. ``"75W"``.
    """

    text: str | None = None
    vendor: str | None = None
    category: str | None = None
    min_memory: str | None = None
    max_tdp: str | None = None


_SORTS: Final[dict[str, Callable[[DeviceRow], float | int | str | None]]] = {
    "name": lambda r: r.name.lower(),
    "year": lambda r: r.year,
    "peak": lambda r: r.peak_flop_per_s,
    "bandwidth": lambda r: r.peak_byte_per_s,
    "memory": lambda r: r.capacity_bytes,
    "tdp": lambda r: r.tdp_w,
    "ridge": lambda r: r.ridge_point,
}


#: Word → parts of the classes that it means: makers call both NPUs.
_ALSO: Final = {"npu": ("npu", "accelerator")}


def list_rows(
    wanted: Filter, *, precision: str | None = None, sort: str = "name", reverse: bool = False
) -> tuple[DeviceRow, ...]:
    """The devices that pass a filter, sorted; numbers largest first, names A to Z.

    Args:
        wanted: The filter.
        precision: Format of the peak and ridge columns, without fallback to another format; None
            takes for each device the one that its engine is made for.
        sort: A key: name, year, peak, bandwidth, memory, tdp, ridge.
        reverse: The other way round; unknown values stay last.

    Raises:
        UnknownNameError: No such sort key or precision.
        InputError: A limit that is no quantity.
    """
    if sort not in _SORTS:
        raise UnknownNameError("sort key", sort, _SORTS)
    dtype = None if precision is None else parse_dtype(precision)
    passes = _predicate(wanted)
    rows = [device_row(device, dtype) for device in list_devices() if passes(device)]
    rows = _limited(rows, wanted)
    key = _SORTS[sort]
    known = [r for r in rows if key(r) is not None]
    unknown = [r for r in rows if key(r) is None]
    known.sort(key=key, reverse=(sort != "name") != reverse)  # type: ignore[arg-type]
    return (*known, *unknown)


def _predicate(wanted: Filter) -> Callable[[Device], bool]:
    named = (wanted.category or "").lower()
    classes = _ALSO.get(named, (named,))

    def passes(device: Device) -> bool:
        names = " ".join((device.id, device.name, *device.aliases)).lower()
        return (
            (wanted.text is None or wanted.text.lower() in names)
            and (wanted.vendor is None or wanted.vendor.lower() == device.vendor.lower())
            and any(one in device.category.lower() for one in classes)
        )

    return passes


def _limited(rows: list[DeviceRow], wanted: Filter) -> list[DeviceRow]:
    if wanted.min_memory is not None:
        least = parse_quantity(wanted.min_memory, "size")
        rows = [r for r in rows if r.capacity_bytes is not None and r.capacity_bytes >= least]
    if wanted.max_tdp is not None:
        most = parse_quantity(wanted.max_tdp, "power")
        rows = [r for r in rows if r.tdp_w is not None and r.tdp_w <= most]
    return rows


def device_row(device: Device, asked: str | None = None) -> DeviceRow:
    """A device as a row of the list; ``asked`` is the format of peak and ridge point."""
    dtype = asked or default_precision(device)[0]
    roof = resolve(device, "matrix", dtype)
    peak = roof.flop_per_s if roof is not None and roof.dtype == dtype else None
    memory = main_memory(device)
    rate = memory.byte_per_s if memory else None
    return DeviceRow(
        id=device.id,
        name=device.name,
        vendor=device.vendor,
        category=device.category,
        year=device.year,
        precision=dtype,
        peak_flop_per_s=peak,
        peak_byte_per_s=rate,
        ridge_point=roofline.ratio(peak, rate) if peak and rate else None,
        capacity_bytes=memory.capacity_bytes if memory else None,
        tdp_w=device.tdp_w,
        typical_power_w=device.typical_power_w,
        modes=tuple(mode.name for mode in device.modes),
    )
