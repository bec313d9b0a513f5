"""Whose roofs samples are held against."""

from __future__ import annotations

import re
from typing import Final

from gambrel.analysis.samples import Samples
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.errors import UnknownNameError
from gambrel.traces.collect import compute_capability
from gambrel.units import format_si

_GFX: Final = re.compile(r"\bgfx[0-9a-f]+")


def roofs_for(
    samples: Samples, chosen: Device | str | None = None
) -> tuple[Device | None, tuple[str, ...]]:
    """Finds the roofs: the user's choice, else those in the files, else the catalog's by name.

    Args:
        samples: As read.
        chosen: A device, or a name for the catalog; None to take what the files say.

    Returns:
        The device, None when nothing tells; and sentences about it.

    Raises:
        UnknownNameError: The chosen name is unknown.
    """
    if isinstance(chosen, Device):
        return chosen, ()
    if chosen is not None:
        found = find(chosen)
        return found.device, (found.note,) if found.note else ()
    own = samples.device
    if own and own.level("DRAM") and _serves(own, samples):
        return own, ()
    if not samples.device_name:
        return _implied(samples, "")
    try:
        found = find(samples.device_name)
        device, about = found.device, found.note
    except UnknownNameError:
        return _implied(samples, f"{samples.device_name} is not in the catalog")
    note = f"roofs of {device.id}, by the device's name in the files; dense, at boost clock"
    return device, tuple(filter(None, (note, about, _slower(samples))))


#: A clock while profiling below this share of the highest is worth a sentence.
_SLOWER: Final = 0.95


def _slower(samples: Samples) -> str:
    """How far the clock while profiling was below that of the roofs."""
    found = samples.implied
    facts = [found.fact(name) for name in ("profiling_clock", "boost_clock")] if found else []
    if len(facts) < 2 or facts[0] is None or facts[1] is None:
        return ""
    clock, boost = facts[0].value, facts[1].value
    if clock >= _SLOWER * boost:
        return ""
    return (
        f"the clock while profiling was {format_si(clock, 'Hz')} of {format_si(boost, 'Hz')}: "
        f"compute roofs were {clock / boost:.0%} of those shown"
    )


#: What to do where nothing tells the roofs.
_GIVE: Final = (
    "give --peak and --bandwidth, or --hardware with a device file; an export with --page raw "
    "holds attributes of the device (device__attribute_multiprocessor_count, clock_rate, "
    "memory_clock_rate, global_memory_bus_width) that roofs are derived from"
)


def _implied(samples: Samples, why: str) -> tuple[Device | None, tuple[str, ...]]:
    """Roofs from the report and the attributes of the device in it."""
    own, found = samples.device, samples.implied
    if found is not None and found != own:
        how = f"roofs derived from the attributes of the device in the report: {found.name}"
        return found, ("; ".join(filter(None, (why, how))),)
    if not why:
        return own, ()
    return own, (f"{why}; {'the roofs are those of the report' if own else _GIVE}",)


def _serves(own: Device, samples: Samples) -> bool:
    """Whether a report has a peak for every engine that its kernels worked on."""
    used = {w.work_class for s in samples.launches for w in s.work if w.flops and not w.suspect}
    return bool(own.ceilings) and used <= {c.engine for c in own.ceilings}


def catalog_device(samples: Samples) -> Device | None:
    """The device of the catalog that the files name; None where they name none or another."""
    if not samples.device_name:
        return None
    try:
        return find(samples.device_name).device
    except UnknownNameError:
        return None


def chip_of(chosen: Device | str | None) -> str:
    """The compute capability or gfx target of a chosen device; empty where it has neither.

    Raises:
        UnknownNameError: The chosen name is unknown.
    """
    device = find(chosen).device if isinstance(chosen, str) else chosen
    if device is None:
        return ""
    target = _GFX.search(device.architecture)
    if target is not None:
        return target[0]
    return compute_capability(device) if "sm_" in device.architecture else ""
