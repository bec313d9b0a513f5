"""The constants of the energy estimate and their sources: ``energy_constants.toml``, built."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.device.model import Device, Source
from gambrel.device.roofs import main_memory

#: Made of the TOML file beside it by ``scripts/build_catalog.py --index``; quicker to read.
BUILT: Final = Path(__file__).with_suffix(".json")
#: Format of the sum that a matrix engine keeps: floating products add in fp32, integers in int32.
_ACCUMULATOR = {"int8": "int32", "uint8": "int32", "int32": "int32"}


class Sourced(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with where it comes from.

    Attributes:
        value: In J, J/FLOP, J/byte or W.
        sources: Every document that it rests on.
        note: What the reader must know of it.
    """

    value: float
    sources: tuple[Source, ...]
    note: str = ""


class PowerShares(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the design power, as whole runs were measured.

    Attributes:
        busy: Drawn while kernels run.
        memory: Added at full bandwidth.
        compute: Added at full arithmetic rate.
        low: 10th percentile of the measured runs of a task over the median, the lowest.
        high: 90th percentile over the median, the highest.
        rows: Number of measured medians.
        error: Mean absolute error on a device that was not fitted.
        source: Of the measurements.
        note: What the reader must know.
    """

    busy: float
    memory: float
    compute: float
    low: float
    high: float
    rows: int
    error: float
    source: Source
    note: str


def measured_shares(device: Device) -> PowerShares | None:
    """The shares for a class of device; None where no whole run of that class was measured."""
    row = _data()["measured"].get(device.category)
    return None if row is None else PowerShares(**{**row, "source": _sources(row)[0]})


def static_power(device: Device) -> Sourced | None:
    """Power that the device draws whatever it does, W; None where none is published."""
    if device.idle_power_w is None or device.idle_power_source is None:
        return None
    return Sourced(value=device.idle_power_w, sources=(device.idle_power_source,))


def memory_energy(device: Device) -> Sourced | None:
    """Energy of the main memory, J/byte; None without a figure for its technology."""
    memory = main_memory(device)
    return technology_energy(memory.technology) if memory else None


def technology_energy(technology: str) -> Sourced | None:
    """Energy of an access to a memory technology, J/byte; None without a figure."""
    found = _data()["memories"].get(technology)
    if found is None:
        return None
    return Sourced(
        value=found["pj_per_bit"] * 8e-12, sources=_sources(found), note=found.get("note", "")
    )


def work_energy(device: Device, work_class: str, dtype: str) -> Sourced | None:
    """Energy of arithmetic, J/FLOP, in the arithmetic unit alone; None without a figure.

    A matrix engine multiplies in ``dtype`` and adds in the accumulator's format, so a FLOP takes
    half of both. Element-wise work is taken as additions and multiplications in equal parts.

    Args:
        device: Its architecture decides the process node.
        work_class: ``matrix`` or ``vector``.
        dtype: Number format of the operands.
    """
    place = _architecture(device)
    found = node_energy(place["node"], work_class, dtype) if place else None
    if place is None or found is None:
        return None
    note = place.get("note", "")
    return Sourced(value=found.value, sources=(*_sources(place), *found.sources), note=note)


def node_energy(node: str, work_class: str, dtype: str) -> Sourced | None:
    """The same for a process node by name; None for others than the table has."""
    if node not in _data()["nodes"] or work_class not in ("matrix", "vector"):
        return None
    add, mul, sources = _node(node)
    summed = _ACCUMULATOR.get(dtype, "fp32") if work_class == "matrix" else dtype
    if dtype not in mul or summed not in add:
        return None
    return Sourced(value=(mul[dtype] + add[summed]) / 2 * 1e-12, sources=sources)


def nodes() -> tuple[str, ...]:
    """Names of the process nodes of which energies are known."""
    return tuple(_data()["nodes"])


def node_of(device: Device) -> str:
    """Process node of the device; empty where the table has none."""
    place = _architecture(device)
    return str(place["node"]) if place else ""


def _architecture(device: Device) -> dict[str, str] | None:
    places: dict[str, dict[str, str]] = _data()["architectures"]
    matches = [start for start in places if device.architecture.startswith(start)]
    return places[max(matches, key=len)] if matches else None


def _node(name: str) -> tuple[dict[str, float], dict[str, float], tuple[Source, ...]]:
    """Energies of additions and multiplications in a node, pJ, with the sources."""
    node = _data()["nodes"][name]
    if "of" not in node:
        return node["add"], node["mul"], _sources(node)
    add, mul, sources = _node(node["of"])
    times = node["times"]
    return (
        {k: v * times for k, v in add.items()},
        {k: v * times for k, v in mul.items()},
        (*sources, *_sources(node)),
    )


def _sources(entry: dict[str, Any]) -> tuple[Source, ...]:
    found = _data()["sources"][entry["source"]]
    return (
        Source(
            title=found["title"],
            url=found.get("url", ""),
            date=found.get("date", ""),
            confidence=found["confidence"],
        ),
    )


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(BUILT.read_bytes())
    return found
