"""Power modes: a device with the clocks, units and memory of a setting with a lower budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from gambrel import roofline
from gambrel.device.model import Ceiling, CeilingKind, Device, Fact, MemoryLevel, PowerMode, Source
from gambrel.errors import UnknownNameError
from gambrel.units import format_si

#: Between a device and its mode: ``jetson-orin-nano-8gb@7W``.
MARK: Final = "@"
#: Engines whose rate follows the clock of the units.
_CORE: Final = ("matrix", "vector", "any")


def in_mode(device: Device, name: str) -> Device:
    """The device in one of its power modes.

    Args:
        device: With `Device.modes`.
        name: Of the mode, in any case.

    Raises:
        UnknownNameError: It has no such mode.
    """
    for mode in device.modes:
        if mode.name.lower() == name.strip().lower():
            return _made(device, mode)
    raise UnknownNameError(f"power mode of {device.id}", name, [m.name for m in device.modes])


def with_modes(devices: Iterable[Device]) -> list[Device]:
    """The devices, each followed by its power modes."""
    return [one for d in devices for one in (d, *(_made(d, mode) for mode in d.modes))]


def _made(device: Device, mode: PowerMode) -> Device:
    core = _core_scale(device, mode)
    dla = _dla_scale(device, mode)
    return replace(
        device,
        id=f"{device.id}{MARK}{mode.name}",
        name=f"{device.name}, {mode.name} mode",
        ceilings=_ceilings(device.ceilings, core, dla),
        demonstrated=(),  # reached at full clocks
        memory=tuple(_level(level, mode) for level in device.memory),
        tdp_w=mode.tdp_w,
        tdp_source=mode.source,
        typical_power_w=None,
        typical_power_source=None,
        idle_power_w=None,
        idle_power_source=None,
        # Second readings of peaks are of full clocks, too.
        facts=tuple(_fact(f, mode) for f in device.facts if not f.name.startswith("peak_")),
        aliases=(),
        notes=(_note(device, mode), *device.notes),
        modes=(),
    )


def _core_scale(device: Device, mode: PowerMode) -> float:
    """Rate of the GPU in the mode, as a share of the rate that the ceilings give."""
    clock, units = device.fact("boost_clock"), device.fact("num_units")
    scale = mode.boost_clock_hz / clock.value if clock else 1.0
    return scale * (mode.num_units / units.value if mode.num_units and units else 1.0)


def _dla_scale(device: Device, mode: PowerMode) -> float:
    clock = device.fact("dla_clock")
    return mode.dla_clock_hz / clock.value if clock and mode.dla_clock_hz else 1.0


def _ceilings(ceilings: tuple[Ceiling, ...], core: float, dla: float) -> tuple[Ceiling, ...]:
    """Every ceiling at the clocks of the mode; a module is the sum of its engines."""
    own = {c.dtype: c for c in ceilings if c.engine == "matrix" and not c.accumulate}

    def scale(c: Ceiling) -> float:
        if c.engine == "module" and c.dtype in own:
            share = min(1.0, roofline.ratio(own[c.dtype].flop_per_s, c.flop_per_s))
            return share * core + (1 - share) * dla
        return core if c.engine in _CORE or c.engine == "module" else dla

    return tuple(_scaled(c, scale(c)) for c in ceilings)


def _scaled(ceiling: Ceiling, scale: float) -> Ceiling:
    sparse = ceiling.sparse_flop_per_s
    return replace(
        ceiling,
        flop_per_s=ceiling.flop_per_s * scale,
        sparse_flop_per_s=None if sparse is None else sparse * scale,
        kind=CeilingKind.DERIVED,
        note="the peak at full clocks times the clocks and units of the mode",
    )


def _level(level: MemoryLevel, mode: PowerMode) -> MemoryLevel:
    if level.name != "DRAM" or mode.byte_per_s is None:
        return level
    return replace(level, byte_per_s=mode.byte_per_s, bandwidth_source=mode.source)


def _fact(fact: Fact, mode: PowerMode) -> Fact:
    values: dict[str, float | None] = {
        "boost_clock": mode.boost_clock_hz,
        "num_units": mode.num_units,
        "dla_clock": mode.dla_clock_hz,
        "dram_bandwidth_alt": mode.byte_per_s,
    }
    value = values.get(fact.name)
    return fact if value is None else _fact_of(fact, value, mode.source)


def _fact_of(fact: Fact, value: float, source: Source) -> Fact:
    return replace(fact, value=float(value), source=source, note="")


def _note(device: Device, mode: PowerMode) -> str:
    units = device.fact("num_units")
    powered = ""
    if mode.num_units is not None and units is not None:
        powered = f"{mode.num_units} of {units.value:.0f} {units.unit} at "
    text = f"Mode {mode.name} of {device.id}: {powered}{format_si(mode.boost_clock_hz, 'Hz')}"
    return f"{text}; {mode.note}." if mode.note else f"{text}."
