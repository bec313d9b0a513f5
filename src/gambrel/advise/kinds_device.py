"""Changes to the device itself: what another memory or other arithmetic units would be worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.advise.case import Effort, Kind, Scenario
from gambrel.device.model import Ceiling, Device, MemoryLevel
from gambrel.device.roofs import main_memory
from gambrel.errors import InputError
from gambrel.units import parse_quantity

#: Multiples that a change may ask for: beyond them constants of the device say nothing.
_LEAST, _MOST = 0.05, 20.0


def _multiple(text: str, name: str) -> float:
    """``"2x"``, ``"x2"`` → 2.

    Raises:
        InputError: No multiple, or one far from the device.
    """
    try:
        found = float(text.lower().strip("x× "))
    except ValueError:
        found = 0.0
    if not _LEAST <= found <= _MOST:
        raise InputError(
            f"{name}={text}: write a multiple of the device's own from {_LEAST:g}x to "
            f"{_MOST:g}x, e.g. {name}=2x."
        )
    return found


def _bandwidth(case: Scenario, text: str) -> Scenario:
    memory = main_memory(case.device)
    if memory is None or memory.byte_per_s is None:
        raise InputError(f"bandwidth={text}: the bandwidth of {case.device.id} is unknown.")
    if text[-1:].lower() == "x" or text[:1].lower() == "x":
        rate = memory.byte_per_s * _multiple(text, "bandwidth")
    else:
        rate = parse_quantity(text, "bandwidth")
        _multiple(f"{roofline.ratio(rate, memory.byte_per_s)}x", "bandwidth")

    def changed(level: MemoryLevel) -> MemoryLevel:
        own = level.name == memory.name
        return msgspec.structs.replace(level, byte_per_s=rate) if own else level

    levels = tuple(map(changed, case.device.memory))
    return replace(case, device=_imagined(case.device, f"bandwidth={text}", memory=levels))


def _peak(case: Scenario, text: str) -> Scenario:
    factor, own = _multiple(text, "peak"), case.device

    def changed(roof: Ceiling) -> Ceiling:
        return msgspec.structs.replace(roof, flop_per_s=roof.flop_per_s * factor)

    return replace(
        case,
        device=_imagined(
            own,
            f"peak={text}",
            ceilings=tuple(map(changed, own.ceilings)),
            demonstrated=tuple(map(changed, own.demonstrated)),
            tdp_w=own.tdp_w and own.tdp_w * factor,  # else the power limit would take it back
        ),
    )


def _imagined(device: Device, change: str, **fields: Any) -> Device:
    """The device with other figures; it says that there is none such."""
    note = f"imagined: {device.id} with {change}; its other figures and constants are unchanged."
    return msgspec.structs.replace(device, notes=(*device.notes, note), **fields)


def _kind(name: str, about: str, apply: Callable[[Scenario, str], Scenario]) -> Kind:
    return Kind(
        name=name,
        about=about,
        example=f"{name}=2x",
        apply=apply,
        propose=lambda _: (),  # nobody can buy it
        effort=Effort.REPLACE,
    )


IMAGINED: Final = (
    _kind(
        "bandwidth",
        "The device with another bandwidth of its main memory: what the memory is worth.",
        _bandwidth,
    ),
    _kind(
        "peak",
        "The device with all compute roofs and its power limit multiplied: what more arithmetic "
        "is worth.",
        _peak,
    ),
)
