"""Memory levels that consist of several memories: how many, and how large and fast they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gambrel.device.model import Device, MemoryLevel

#: Levels without which the sum of the on-chip memory is not the whole, by part of the category.
#: Other devices (NPUs, TPUs) need one level of any name.
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "gpu": ("L1", "registers"),
    "cpu": ("LLC", "L2", "L1"),
}
#: Endings of the names of on-chip capacities in `Device.unknown`.
_UNKNOWN: Final = ("l2_capacity", "llc_capacity", "sram_capacity")
#: A wafer is no measure for what an ordinary chip may hold.
_WAFER: Final = "wafer-scale"


def instances(device: Device, level: MemoryLevel) -> int | None:
    """How many memories make up a level; None where the number of units is not published."""
    if level.instance_bytes is None:
        return 1
    if level.capacity_bytes is not None:
        return max(1, level.capacity_bytes // level.instance_bytes)
    units = device.fact("num_units")
    if units is None or level.per_unit is None:
        return None
    return round(units.value) * level.per_unit


def capacity_bytes(device: Device, level: MemoryLevel) -> int | None:
    """Capacity of a whole level, byte: the published one, or instances x size of one."""
    if level.capacity_bytes is not None or level.instance_bytes is None:
        return level.capacity_bytes
    count = instances(device, level)
    return None if count is None else count * level.instance_bytes


def byte_per_s(device: Device, level: MemoryLevel) -> float | None:
    """Bandwidth of a whole level, byte/s: the published one, or instances x width x boost clock."""
    if level.byte_per_s is not None or level.byte_per_clock is None:
        return level.byte_per_s
    count, clock = instances(device, level), device.fact("boost_clock")
    return None if count is None or clock is None else count * level.byte_per_clock * clock.value


def on_chip_levels(device: Device) -> dict[str, int]:
    """Capacity in byte of every level inside the DRAM whose size is known, by name."""
    sizes = ((m.name, capacity_bytes(device, m)) for m in device.memory if m.name != "DRAM")
    return {name: size for name, size in sizes if size is not None}


def publishes_on_chip(device: Device) -> bool:
    """Whether the known levels are all of the on-chip memory."""
    known = on_chip_levels(device)
    if any(m.name != "DRAM" and m.name not in known for m in device.memory):
        return False
    if not known or any(name.endswith(_UNKNOWN) for name in device.unknown):
        return False
    needed = next((names for part, names in _NEEDED.items() if part in device.category), ())
    return set(needed) <= known.keys()


def device_class(device: Device) -> str:
    """The first word of the category: datacenter, consumer, edge, cpu, ..."""
    return device.category.partition(" ")[0]


def largest_on_chip(devices: Iterable[Device]) -> dict[str, tuple[str, int]]:
    """By class of device, the one with the most on-chip memory, and its byte; "" is all classes.

    Only devices count that publish all of theirs, and wafers do not.
    """
    largest: dict[str, tuple[str, int]] = {}
    for device in sorted(devices, key=lambda d: d.id):
        if not publishes_on_chip(device) or device.category.startswith(_WAFER):
            continue
        size = sum(on_chip_levels(device).values())
        for kind in ("", device_class(device)):
            if size > largest.get(kind, ("", 0))[1]:
                largest[kind] = (device.id, size)
    return dict(sorted(largest.items()))
