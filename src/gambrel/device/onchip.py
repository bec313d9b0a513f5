"""How much data may stay on a chip from one run to the next."""

from __future__ import annotations

import msgspec

from gambrel.device.catalog import index
from gambrel.device.levels import device_class, on_chip_levels, publishes_on_chip
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.units import format_capacity


class OnChip(msgspec.Struct, frozen=True, kw_only=True):
    """What may stay on chip between runs, and so need not cross the main memory again.

    Attributes:
        capacity_bytes: An upper bound, byte.
        levels: Names of the levels that add up to it; empty where it is assumed.
        assumed: Whether the device does not publish all of it, so that another device's figure
            stands in.
        note: What the user must know; empty when the figure is the device's own.
    """

    capacity_bytes: int
    levels: tuple[str, ...] = ()
    assumed: bool = False
    note: str = ""


def on_chip(device: Device) -> OnChip:
    """The on-chip memory of a device: all levels inside the main memory, added up.

    Caches need not repeat each other's content, and a persistent kernel keeps weights in shared
    memory and registers, so the sum is the most that can stay. Where a device does not publish
    every level, the largest sum of its class in the catalog stands in, or where the class has none,
    that of any device but a wafer: the device of ``--peak`` and ``--bandwidth`` gets that one. A
    class is the first word of the category, so that a Hailo-8, which publishes nothing, is compared
    with all edge devices and not with a Coral alone. Too large a figure makes a lower bound on time
    smaller, never wrong.

    Where the main memory is itself on the chip (Groq, Graphcore, Cerebras) nothing lies inside it:
    weights cross it in every run.

    Args:
        device: Any device, the user's own included.
    """
    main = main_memory(device)
    if main is not None and main.name == "SRAM":
        return OnChip(capacity_bytes=0, note=f"{device.id}: the main memory is on the chip.")
    known = on_chip_levels(device)
    total = sum(known.values())
    if publishes_on_chip(device):
        return OnChip(capacity_bytes=total, levels=tuple(known))
    largest = index().on_chip
    name, size = largest.get(device_class(device)) or largest[""]
    if total >= size:
        name, size = "what is published of it", total
    note = (
        f"{device.id} does not publish all of its on-chip memory: {format_capacity(size)} is "
        f"assumed, as much as {name}, so that no limit is too strict."
    )
    return OnChip(capacity_bytes=size, assumed=True, note=note)
