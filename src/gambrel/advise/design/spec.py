"""A device as expressions over named parameters, read from a TOML file.

See docs/design.md for the format. Figures per unit of area, power and energy are the file's own,
each with its source; what is not stated is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from gambrel.advise.design.drams import dram_kind, dram_kinds
from gambrel.advise.design.expressions import Expression
from gambrel.advise.design.systolic import DATAFLOWS
from gambrel.analysis.energy_constants import nodes
from gambrel.dtypes import BITS
from gambrel.errors import FileFormatError, InputError, UnknownNameError, shown
from gambrel.fileio import read_toml
from gambrel.units import parse_quantity

#: Value of a parameter: a number in its base unit, or a name.
Value: TypeAlias = "float | str"

_LARGEST: Final = 1_000_000
#: Formulas of ``[device]``; those without a default are needed, None is unknown or none.
_DEVICE: Final[dict[str, str | None]] = {
    "rows": "",
    "cols": "",
    "clock": "",
    "sram": "",
    "arrays": "1",
    "peak": None,
    "vector": None,
    "buffering": "2",
    "sram_bandwidth": None,
    "dram_units": "1",
    "dram_bandwidth": None,
    "link": None,
}
#: Names of ``[device]``, with what they may be.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "precision": tuple(BITS),
    "accumulate": tuple(BITS),
    "dataflow": DATAFLOWS,
    "preload": ("hidden", "exposed"),
}
_ENERGY: Final = ("mac_pj", "sram_pj_per_byte", "dram_pj_per_byte", "vector_pj", "static_w")
_TABLES: Final = ("name", "about", "parameters", "device", "energy", "area", "power")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPart:
    """What a part of the chip takes, of area or power.

    Attributes:
        name: Of the part.
        amount: Formula, mm² or W.
        source: Where its figure per unit is from.
    """

    name: str
    amount: Expression
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Area or power: the parts, and what they may take together.

    Attributes:
        parts: What is stated; without any the sum is unknown.
        limit: mm² or W; None for no limit.
    """

    parts: tuple[BudgetPart, ...] = ()
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSpec:
    """A device with parameters.

    Attributes:
        name: Of the design.
        about: One sentence.
        parameters: Name → value where nothing is swept.
        formulas: Field of ``[device]`` → formula; absent where unknown.
        names: ``precision``, ``accumulate``, ``preload``; ``dataflow`` and ``dram``, which may be
            the name of a parameter.
        energy: Figure → formula; absent where unknown.
        energy_sources: Where the figures are from.
        node: Process node for the energy of arithmetic; empty where none is stated.
        area: In mm².
        power: In W.
    """

    name: str
    about: str
    parameters: Mapping[str, Value]
    formulas: Mapping[str, Expression]
    names: Mapping[str, str]
    energy: Mapping[str, Expression]
    energy_sources: tuple[str, ...]
    node: str
    area: Budget
    power: Budget


def spec_path(name: str) -> Path:
    """The file of a specification: an example by its name, else a path.

    Raises:
        UnknownNameError: Neither an example nor a file.
    """
    path = Path(name)
    if path.suffix or path.exists():
        return path
    examples = {one.stem: one for one in sorted(Path(__file__).with_name("examples").iterdir())}
    if name not in examples:
        raise UnknownNameError("design", name, tuple(examples), "Or give a .toml file.")
    return examples[name]


def read_spec(path: str | Path) -> DesignSpec:
    """Reads a specification.

    Raises:
        FileFormatError: It is no TOML file, or lacks a part.
        InputError: A formula or a value that cannot be used.
    """
    found = read_toml(Path(path), _LARGEST, "a specification of a device")
    try:
        return spec_of(found, Path(path).stem)
    except UnknownNameError:
        raise
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def spec_of(found: Mapping[str, Any], name: str = "design") -> DesignSpec:
    """A specification from the tables of a file.

    Raises:
        InputError: As `read_spec`.
    """
    _only(found, _TABLES, "the file")
    parameters = {
        key: parameter_value(value, f"parameters.{key}")
        for key, value in _table(found, "parameters").items()
    }
    for key in parameters:
        if not key.isidentifier():
            raise InputError(f"parameters: {shown(key)} is no name; use letters, digits and _.")
    device, energy = _table(found, "device"), _table(found, "energy")
    return DesignSpec(
        name=str(found.get("name", name)),
        about=str(found.get("about", "")),
        parameters=parameters,
        formulas=_formulas(device, parameters),
        names=_names(device, parameters),
        energy={
            key: _expression(energy[key], parameters, f"energy.{key}")
            for key in _ENERGY
            if key in energy
        },
        energy_sources=_sources(energy),
        node=_node(energy),
        area=_budget(_table(found, "area"), "area", "mm2", parameters),
        power=_budget(_table(found, "power"), "power", "w", parameters),
    )


def parameter_value(value: Any, label: str) -> Value:
    """A number, a text with a unit (``"28MiB"``, ``"700MHz"``) or a name.

    Raises:
        InputError: None of these.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{label}: {shown(value)} is neither a number nor a text.")
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if text.lower() in dram_kinds() or text in DATAFLOWS:
        return text.lower()
    for quantity in ("size", "throughput", "bandwidth", "rate", "power"):
        with contextlib.suppress(InputError):
            return parse_quantity(text, quantity)
    known = ", ".join((*dram_kinds(), *DATAFLOWS))
    raise InputError(
        f"{label}: {shown(value)} is no number such as 256, 28MiB or 700MHz, and no name: {known}."
    )


def _formulas(device: Mapping[str, Any], known: Mapping[str, Value]) -> dict[str, Expression]:
    _only(device, (*_DEVICE, *_NAMES, "dram"), "[device]")
    missing = [key for key, default in _DEVICE.items() if default == "" and key not in device]
    if missing:
        raise InputError(f"[device] lacks {', '.join(missing)}.")
    if "dram" not in device and "dram_bandwidth" not in device:
        raise InputError(f"[device] lacks dram: one of {', '.join(dram_kinds())}.")
    given = {**_DEVICE, **device}
    return {
        key: _expression(given[key], known, f"device.{key}")
        for key in _DEVICE
        if given[key] is not None
    }


def _names(device: Mapping[str, Any], known: Mapping[str, Value]) -> dict[str, str]:
    if "precision" not in device:
        raise InputError('[device] lacks precision, e.g. "int8".')
    chosen = str(device["precision"])
    sums = "int32" if chosen.startswith(("int", "uint")) else "fp32"
    given = {"accumulate": sums, "dataflow": "weight", "preload": "hidden", **device}
    for key, choices in _NAMES.items():
        name = str(given[key])
        if name not in choices and not (key == "dataflow" and isinstance(known.get(name), str)):
            raise UnknownNameError(f"device.{key}", name, choices)
    names = {key: str(given[key]) for key in _NAMES}
    if "dram" in device:
        names["dram"] = str(device["dram"])
        if not isinstance(known.get(names["dram"]), str):
            dram_kind(names["dram"])
    return names


def _node(energy: Mapping[str, Any]) -> str:
    _only(energy, (*_ENERGY, "node", "source", "sources"), "[energy]")
    node = str(energy.get("node", ""))
    if node and node not in nodes():
        raise UnknownNameError("energy.node", node, nodes())
    if any(key in energy for key in _ENERGY) and not _sources(energy):
        raise InputError("[energy] lacks sources: where its figures are from.")
    return node


def _sources(table: Mapping[str, Any]) -> tuple[str, ...]:
    found = table.get("sources", table.get("source", ()))
    return (found,) if isinstance(found, str) else tuple(map(str, found))


def _budget(table: Mapping[str, Any], label: str, unit: str, known: Mapping[str, Value]) -> Budget:
    _only(table, ("budget", "parts"), f"[{label}]")
    parts = []
    for part in table.get("parts", ()):
        if not isinstance(part, dict) or not {"name", unit, "source"} <= part.keys():
            raise InputError(f"[{label}] parts: each has name, {unit} and source.")
        amount = _expression(part[unit], known, f"{label} of {part['name']}")
        parts.append(BudgetPart(name=str(part["name"]), amount=amount, source=str(part["source"])))
    limit = table.get("budget")
    if limit is not None and (isinstance(limit, (bool, str)) or not limit > 0):
        raise InputError(f"[{label}] budget: {shown(limit)} is no positive number of {unit}.")
    return Budget(parts=tuple(parts), limit=None if limit is None else float(limit))


def _expression(value: Any, known: Mapping[str, Value], label: str) -> Expression:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InputError(f"{label}: {shown(value)} is neither a number nor a formula.")
    with contextlib.suppress(InputError):
        number = parameter_value(value, label)
        return Expression(repr(number) if isinstance(number, float) else str(value), known, label)
    return Expression(str(value), known, label)


def _table(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = found.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name} is no table; write [{name}].")
    return table


def _only(table: Mapping[str, Any], known: tuple[str, ...], label: str) -> None:
    for key in table:
        if key not in known:
            raise UnknownNameError(f"entry of {label}", key, known)
