"""The memory levels of a device, from DRAM to the arithmetic, as the traffic model needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gambrel.analysis.levels.near import Near, near_of, part_bytes
from gambrel.device.model import Device, MemoryLevel
from gambrel.device.roofs import main_memory

#: Caches that hardware manages, outermost first. Software-managed memory (``SRAM``) holds what a
#: compiler decides, which no reuse distance tells.
_CACHES: Final = ("LLC", "L2", "L1")

#: Units that `Device.facts` counts and that own near memory.
_UNITS: Final = "num_units"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
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

    The first is the main memory; it is alone when the device publishes no cache size. Near
    memories (see `near`) follow when the caches around them and the number of units are known.

    Returns:
        The levels; empty for a device without a main memory of known bandwidth.
    """
    memory = main_memory(device)
    if memory is None:
        return ()
    found = [Level(name=memory.name, capacity_bytes=None, byte_per_s=memory.byte_per_s)]
    found += _caches(device)
    return tuple(found) if len(found) == 1 else (*found, *_near(device, found[-1]))


def _caches(device: Device) -> list[Level]:
    known = {m.name: m for m in device.memory}
    levels: list[Level] = []
    for name in _CACHES:
        memory = known.get(name)
        if memory is None:
            continue
        if memory.capacity_bytes is None:
            break  # a gap: what lies inside cannot be placed
        levels.append(_cache(device, memory))
    return levels


def _cache(device: Device, memory: MemoryLevel) -> Level:
    whole = memory.capacity_bytes or 0
    part = part_bytes(device.architecture, memory.name)
    instances = max(1, whole // part) if part else 1
    return Level(
        name=memory.name,
        capacity_bytes=whole // instances,
        instances=instances,
        # The parts of a processor's last cache see each other's data; those of a GPU's L2 are
        # written back when a kernel ends, so that the other dies see it.
        keeps=instances == 1 or memory.name == "LLC",
        byte_per_s=memory.byte_per_s,
    )


def _near(device: Device, outer: Level) -> list[Level]:
    units = device.fact(_UNITS)
    order = (*_CACHES, "registers")
    inside = order[order.index(outer.name) + 1 :]
    if units is None:
        return []
    found: list[Level] = []
    for name, near in zip(inside, _following(near_of(device.architecture), inside), strict=False):
        found.append(_near_level(device, name, near, round(units.value)))
    return found


def _following(near: tuple[Near, ...], names: tuple[str, ...]) -> list[Near]:
    """The near memories that continue the hierarchy without a gap."""
    by_name = {n.name: n for n in near}
    found = []
    for name in names:
        if name not in by_name:
            break
        found.append(by_name[name])
    return found


def _near_level(device: Device, name: str, near: Near, units: int) -> Level:
    clock = device.fact("boost_clock")
    rate = None
    if near.byte_per_clock is not None and clock is not None:
        rate = near.byte_per_clock * clock.value * units * near.per_unit
    return Level(
        name=name,
        capacity_bytes=near.capacity_bytes,
        instances=units * near.per_unit,
        byte_per_s=rate,
    )
