"""From a device of the catalog to the few numbers that the formulas of `forms` need."""

from __future__ import annotations

import math
from typing import Final

from gambrel.analysis.estimate.constants import Kin
from gambrel.analysis.estimate.forms import Chip
from gambrel.device.model import Device
from gambrel.device.roofs import resolve

#: peak · clock² / TDP of the H100 SXM, FLOP·Hz²/(s·W): the unit of `Chip.power`.
_REFERENCE_POWER: Final = 989.4e12 * 1.83e9**2 / 700
#: Units of a device whose own are not like those measured: of the order of current GPUs.
_USUAL_UNITS: Final = 120.0
#: Which level counts as the last cache, the outermost first.
_CACHES: Final = ("LLC", "L2")


def chip_of(device: Device, byte_per_s: float, kin: Kin) -> tuple[Chip, tuple[str, ...]]:
    """What the formulas need, and the names of what had to be assumed.

    Args:
        device: Of the catalog, or the user's.
        byte_per_s: Bandwidth of its memory roof.
        kin: Its class.
    """
    units, clock = device.fact("num_units"), device.fact("boost_clock")
    alike = kin.units is not None
    count, hz = _units_and_clock(device, kin)
    missing = [name for name, fact in (("number of units", units), ("clock", clock)) if not fact]
    machine = Chip(
        units=count,
        clock_hz=hz,
        byte_per_s=byte_per_s,
        cache_bytes=_last_cache(device),
        power=_power(device, hz) if clock and alike else 0.0,
        vector_flop_per_s=_vector_peak(device),
        tdp_w=device.tdp_w or 0.0,
    )
    return machine, tuple(missing) if alike else ()


def _units_and_clock(device: Device, kin: Kin) -> tuple[float, float]:
    units, clock = device.fact("num_units"), device.fact("boost_clock")
    alike = kin.units is not None
    count = units.value if units and alike else kin.units or _USUAL_UNITS
    return count, clock.value if clock and alike else kin.clock_hz


def pace_of(device: Device, kin: Kin, form: str) -> float:
    """FLOP per cycle of a unit's matrix engine over those of a unit that ``form`` was measured on.

    A power of two, as engines are built: printed peaks and printed clocks do not always belong
    together. 1 where the class does not say what was measured, or the device has no engine.
    """
    measured, peak = kin.per_unit.get(form), half_peak(device)
    if not measured or not peak or not device.fact("num_units"):
        return 1.0
    count, hz = _units_and_clock(device, kin)
    return float(2.0 ** round(math.log2(peak / count / hz / measured)))


def _last_cache(device: Device) -> float:
    levels = (device.level(name) for name in _CACHES)
    return float(next((m.capacity_bytes for m in levels if m and m.capacity_bytes), 0))


def _vector_peak(device: Device) -> float:
    roof = resolve(device, "vector", "fp32")
    return roof.flop_per_s if roof else 0.0


def _power(device: Device, clock_hz: float) -> float:
    roof = device.ceiling("matrix", "bf16") or device.ceiling("matrix", "fp16")
    if roof is None or not device.tdp_w:
        return 0.0
    return roof.flop_per_s * clock_hz**2 / device.tdp_w / _REFERENCE_POWER


def half_peak(device: Device) -> float:
    """FLOP/s of the matrix engine in 16-bit formats; 0 without one."""
    roofs = (device.ceiling("matrix", dtype) for dtype in ("bf16", "fp16"))
    return next((roof.flop_per_s for roof in roofs if roof), 0.0)
