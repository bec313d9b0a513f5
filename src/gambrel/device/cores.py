"""The cores of a processor and the clocks that they may have.

A processor's peaks are stated at its highest clock, as those of other devices are: that of all
cores at once where it is published, else that of a single one. No run is faster. What all cores
hold together lies between that and the base clock, by how much power the work draws; where nothing
more is known it is halfway, at the geometric mean of the two (`held`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from gambrel.device.model import Cores, Device, Fact

#: Names of facts, the clock that the peaks belong to first.
_HIGHEST: Final = ("all_core_clock", "boost_clock", "base_clock")
_PROCESSOR: Final = "cpu"
_RATE: Final = "rate_per_clk_per_unit_vector_fp32"


def highest_clock(device: Device) -> Fact | None:
    """The clock that a processor's peaks are stated at; None where none is published."""
    return next((fact for name in _HIGHEST if (fact := device.fact(name)) is not None), None)


def kinds(device: Device) -> tuple[Cores, ...]:
    """The kinds of cores of a processor, the fastest first; none where too little is published."""
    if device.cores:
        return device.cores
    units, rate, top = device.fact("num_units"), device.fact(_RATE), highest_clock(device)
    if device.category != "cpu" or units is None or rate is None or top is None:
        return ()
    base = device.fact("base_clock") or top
    return (
        Cores(
            name="all",
            count=round(units.value),
            flop_per_clock=rate.value,
            base_clock_hz=base.value,
            boost_clock_hz=top.value,
            source=units.source,
        ),
    )


def at_highest(cores: Iterable[Cores]) -> float:
    """FLOP/s in fp32 of cores at their highest clocks."""
    return sum(c.count * c.flop_per_clock * c.boost_clock_hz for c in cores)


def held(cores: Iterable[Cores]) -> float:
    """FLOP/s in fp32 of cores halfway between their base and their highest clocks."""
    return sum(
        c.count * c.flop_per_clock * math.sqrt(c.base_clock_hz * c.boost_clock_hz) for c in cores
    )


def held_share(device: Device) -> float:
    """What is left of a processor's peaks where all cores work; 1 of other devices."""
    cores = kinds(device) if device.category == _PROCESSOR else ()
    return held(cores) / at_highest(cores) if cores else 1.0


def load(cores: Iterable[Cores]) -> float:
    """Power of cores at their highest clocks, W, for an energy of 1 J a FLOP at 1 GHz.

    Voltage follows the clock, so that the energy of a FLOP grows with its square.
    """
    return sum(at_highest([c]) * (c.boost_clock_hz / 1e9) ** 2 for c in cores)
