"""Which memory level served an op that moved its data faster than main memory can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from gambrel.device.model import Device, MemoryLevel
from gambrel.units import format_capacity, format_si


class _Moved(Protocol):
    """What is asked of a row of a profile."""

    @property
    def achieved_byte_per_s(self) -> float | None: ...
    @property
    def served_by(self) -> str: ...


def beyond_memory(byte_per_s: float | None, device: Device) -> bool:
    """Whether a rate is above the roof of main memory; no where one of them is unknown."""
    memory = device.level("DRAM")
    roof = memory.byte_per_s if memory is not None else None
    return byte_per_s is not None and roof is not None and byte_per_s > roof


def caches(device: Device) -> list[MemoryLevel]:
    """Levels that keep data from one op to the next; a GPU's L1 forgets them between kernels."""
    names = {"L1", "L2", "LLC"} if device.category == "cpu" else {"L2", "LLC"}
    return [m for m in device.memory if m.name in names]


def holding(working_set: float, device: Device) -> MemoryLevel | None:
    """The smallest cache that holds so many bytes; None where none does or sizes are unknown."""
    fit = [m for m in caches(device) if working_set <= (m.capacity_bytes or 0)]
    return min(fit, key=lambda m: m.capacity_bytes or 0, default=None)


def cause(working_set: float, byte_per_s: float | None, device: Device) -> str:
    """Why so many bytes came faster than main memory gives them; empty where they did not.

    Args:
        working_set: Bytes that the op touches.
        byte_per_s: At which they were moved.
        device: Its measured or published caches.
    """
    if not beyond_memory(byte_per_s, device):
        return ""
    needed = format_si(working_set, "B", 3)
    if (level := holding(working_set, device)) is not None:
        return (
            f"its {needed} fit in {level.name} ({format_capacity(level.capacity_bytes, 3)}), which "
            "served them in place of DRAM"
        )
    largest = max((m.capacity_bytes or 0 for m in caches(device)), default=0)
    if not largest:
        return ""
    return (
        f"no cache holds its {needed} (the largest has {format_capacity(largest, 3)}), but a part "
        "may have stayed there"
    )


def explained(level: MemoryLevel | None, byte_per_s: float | None) -> bool:
    """Whether the roof of the level that served an op is as high as its rate."""
    roof = level.byte_per_s if level is not None else None
    return roof is not None and byte_per_s is not None and byte_per_s <= roof


def counts(points: Iterable[_Moved], device: Device) -> dict[str, int]:
    """How many ops moved data faster than main memory can, by what served them, most first.

    Those that no cache holds are under an empty name.
    """
    fast = [p.served_by for p in points if beyond_memory(p.achieved_byte_per_s, device)]
    return dict(Counter(fast).most_common())
