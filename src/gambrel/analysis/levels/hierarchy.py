"""The memory levels of a device, from DRAM to the arithmetic, as the traffic model needs them."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.device.levels import byte_per_s, capacity_bytes, instances
from gambrel.device.model import Device, MemoryLevel
from gambrel.device.roofs import main_memory

#: Memories that hardware or the compiler of a kernel manages, outermost first. Software-managed
#: memory (``SRAM``, ``TMEM``) holds what a compiler decides, which no reuse distance tells.
_INWARDS: Final = ("LLC", "L2", "L1", "registers")


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One level.

    Attributes:
        name: ``DRAM``, ``LLC``, ``L2``, ``L1`` or ``registers``.
        capacity_bytes: Of one instance; None for the outermost, which holds everything.
        instances: How many of them the device has.
        keeps: Whether data stays in it from one op to the next. A cache that is private to a unit
            or to a die that does not see the others' writes keeps nothing: the next op runs its
            parts elsewhere.
        byte_per_s: Bandwidth towards the arithmetic, all instances; None where unknown.
    """

    name: str
    capacity_bytes: int | None
    instances: int = 1
    keeps: bool = False
    byte_per_s: float | None = None

    @property
    def total_bytes(self) -> int:
        """Capacity of all instances; 0 for the outermost."""
        return (self.capacity_bytes or 0) * self.instances


def hierarchy_of(device: Device) -> tuple[Level, ...]:
    """The levels that are known, outermost first, without a gap.

    The first is the main memory; it is alone when the device publishes no cache size. What each
    unit has for itself follows when the caches around it and the number of units are known.

    Returns:
        The levels; empty for a device without a main memory of known bandwidth.
    """
    memory = main_memory(device)
    if memory is None:
        return ()
    found = [Level(name=memory.name, capacity_bytes=None, byte_per_s=memory.byte_per_s)]
    for name in _INWARDS:
        level = device.level(name)
        if level is None:
            continue
        size = capacity_bytes(device, level)
        if size is None or (level.per_unit is not None and not _touches(found[-1].name, name)):
            break  # a gap: what lies inside cannot be placed
        found.append(_cache(device, level, size))
    return tuple(found)


def _touches(outer: str, name: str) -> bool:
    return outer in _INWARDS and _INWARDS.index(name) == _INWARDS.index(outer) + 1


def _cache(device: Device, level: MemoryLevel, whole: int) -> Level:
    count = instances(device, level) or 1
    # The parts of a processor's last cache see each other's data; those of a GPU's L2 are written
    # back when a kernel ends, so that the other dies see it.
    shared = level.per_unit is None and (count == 1 or level.name == "LLC")
    return Level(
        name=level.name,
        capacity_bytes=whole // count,
        instances=count,
        keeps=shared,
        byte_per_s=byte_per_s(device, level),
    )
