"""Reads a device from a TOML file: the catalog's and a user's have the same format.

A file holds the fields of `gambrel.device.model.Device`. Sources are written once, in a table
``[sources.<key>]``, and referred to by key. Numbers may be texts with a unit ("989T", "80GiB").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.device.model import (
    SCHEMA_VERSION,
    Ceiling,
    CeilingKind,
    Cores,
    Device,
    Fact,
    Link,
    MemoryLevel,
    PowerMode,
    Source,
)
from gambrel.dtypes import BITS
from gambrel.errors import FileFormatError, InputError, told
from gambrel.fileio import read_record, read_toml
from gambrel.units import parse_quantity

#: Engines that a ceiling may name. ``any`` is a single roof for all work, as ``--peak`` gives.
ENGINES: Final = ("matrix", "vector", "dla", "npu", "module", "any")
LEVELS: Final = ("DRAM", "LLC", "L2", "L1", "registers", "TMEM", "SRAM")
DIRECTIONS: Final = ("per direction", "bidirectional total", "unknown")
CONFIDENCES: Final = ("primary", "primary-quoted", "secondary", "derived", "measured", "user")

#: A device file is a few kilobytes; a larger one is something else.
MAX_BYTES: Final = 1_000_000
_HINT: Final = "Give a device file, or a name from 'gambrel hardware list'."

_QUANTITIES: Final[dict[str, str]] = {
    "flop_per_s": "rate",
    "sparse_flop_per_s": "rate",
    "byte_per_s": "bandwidth",
    "capacity_bytes": "size",
    "instance_bytes": "size",
    "tdp_w": "power",
    "typical_power_w": "power",
    "idle_power_w": "power",
}
#: Figures of the device itself, each with the field of its source.
_POWERS: Final[dict[str, str]] = {
    "tdp_w": "tdp_source",
    "typical_power_w": "typical_power_source",
    "idle_power_w": "idle_power_source",
}
_RECORDS: Final[dict[str, type[msgspec.Struct]]] = {
    "ceilings": Ceiling,
    "demonstrated": Ceiling,
    "memory": MemoryLevel,
    "links": Link,
    "facts": Fact,
    "cores": Cores,
    "modes": PowerMode,
}
_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "ceilings": ("engine", "dtype", "flop_per_s"),
    "demonstrated": ("engine", "dtype", "flop_per_s"),
    "memory": ("name",),
    "links": ("name", "byte_per_s"),
    "facts": ("name", "value", "unit"),
    "cores": ("name", "count", "flop_per_clock", "base_clock_hz", "boost_clock_hz"),
    "modes": ("name", "tdp_w", "boost_clock_hz"),
}
_CLOCKS: Final = ("base_clock_hz", "boost_clock_hz", "dla_clock_hz")
#: Fields that hold a source, by table, and the numbers that each belongs to.
_SOURCE_FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "ceilings": {"source": ("flop_per_s",), "sparse_source": ("sparse_flop_per_s",)},
    "demonstrated": {"source": ("flop_per_s",), "sparse_source": ("sparse_flop_per_s",)},
    "memory": {
        "capacity_source": ("capacity_bytes", "instance_bytes"),
        "bandwidth_source": ("byte_per_s", "byte_per_clock"),
    },
    "links": {"source": ("byte_per_s",)},
    "facts": {"source": ("value",)},
    "cores": {"source": ("count",)},
    "modes": {"source": ("tdp_w",)},
}
_CEILING: Final[dict[str, tuple[str, ...]]] = {
    "engine": ENGINES,
    "dtype": (*BITS, "any"),
    "accumulate": ("", *BITS),
    "kind": tuple(kind for kind in CeilingKind if kind is not CeilingKind.DEMONSTRATED),
}
#: Values that a field may take, by table.
_CHOICES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "ceilings": _CEILING,
    "demonstrated": _CEILING | {"kind": (CeilingKind.DEMONSTRATED,)},
    "memory": {"name": LEVELS, "kind": _CEILING["kind"]},
    "links": {"direction": DIRECTIONS},
}
#: What makes two rows of a table the same figure.
_IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "ceilings": ("engine", "dtype", "accumulate"),
    "demonstrated": ("engine", "dtype", "accumulate"),
    "memory": ("name",),
    "links": ("name",),
    "facts": ("name",),
    "cores": ("name",),
    "modes": ("name",),
}
_KIND_OF: Final[dict[str, CeilingKind]] = {
    "derived": CeilingKind.DERIVED,
    "measured": CeilingKind.MEASURED,
    "user": CeilingKind.USER,
}

Table = dict[str, Any]


def load_file(path: str | Path) -> Device:
    """Reads a device from a TOML file.

    Args:
        path: The file; docs/hardware.md describes the format.

    Raises:
        FileFormatError: The file is missing, too large, not TOML, or says something impossible;
            the message names the file and the entry.
    """
    path = Path(path)
    try:
        return device_from_table(
            read_toml(path, MAX_BYTES, "a device file", _HINT), origin=path.name
        )
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def device_from_table(table: Table, *, origin: str) -> Device:
    """Turns the content of a device file into a checked `Device`.

    Args:
        table: As parsed; it is not changed.
        origin: Named as the source of numbers that have none.

    Raises:
        InputError: Something is missing, unknown, doubled or not a positive number.
    """
    table = dict(table)
    _require(table, ("id", "name"), "the file")
    sources = _sources(table.pop("sources", {}))
    default = Source(title=f"given in {origin}", confidence="user")
    for name, record in _RECORDS.items():
        rows = table.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{name} must be a list of tables: write [[{name}]].")
        table[name] = [
            _row(dict(row), name, f"{name}[{position}]", record, sources, default)
            for position, row in enumerate(rows)
        ]
        _reject_doubles(table[name], name)
    _quantities(table, "the file")
    for power, field in _POWERS.items():
        if power in table:
            table[field] = _source(table.get(field), sources, default, field)
    if table.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise InputError(
            f"schema_version {table['schema_version']!r}; this gambrel reads {SCHEMA_VERSION}."
        )
    return read_record(Device, table, "the file")


def _sources(table: Any) -> dict[str, Source]:
    if not isinstance(table, dict):
        raise InputError("sources must be a table: write [sources.<key>].")
    found = {}
    for key, entry in table.items():
        where = f"sources.{key}"
        if not isinstance(entry, dict):
            raise InputError(f"{where} must be a table with a title.")
        _require(entry, ("title",), where)
        source = read_record(Source, entry, where)
        _choice(source.confidence, CONFIDENCES, f"{where}: confidence")
        found[key] = source
    return found


def _row(
    row: Table,
    table: str,
    where: str,
    record: type[msgspec.Struct],
    sources: Mapping[str, Source],
    default: Source,
) -> Table:
    _require(row, _REQUIRED[table], where)
    _known_keys(row, record, where)
    for field, allowed in _CHOICES.get(table, {}).items():
        if field in row:
            _choice(row[field], allowed, f"{where}: {field}")
    _quantities(row, where)
    if "per_unit" in row:
        _require(row, ("instance_bytes",), where)
    for field, numbers in _SOURCE_FIELDS[table].items():
        if any(number in row for number in numbers):
            row[field] = _source(row.get(field), sources, default, f"{where}: {field}")
        elif field in row:
            raise InputError(f"{where}: {field} without {' or '.join(numbers)}.")
    if table == "demonstrated":
        row["kind"] = CeilingKind.DEMONSTRATED
    elif table in {"ceilings", "memory"} and "kind" not in row:
        row["kind"] = _kind(row)
    if table == "links":
        row.setdefault("direction", "unknown")
    return row


def _kind(row: Table) -> CeilingKind:
    source = row.get("source") or row.get("bandwidth_source")
    return (
        _KIND_OF.get(source.confidence, CeilingKind.DATASHEET) if source else CeilingKind.DATASHEET
    )


def _source(key: Any, sources: Mapping[str, Source], default: Source, where: str) -> Source:
    if key is None:
        return default
    if not isinstance(key, str) or key not in sources:
        raise InputError(f"{where}: no table [sources.{key}].")
    return sources[key]


def _quantities(row: Table, where: str) -> None:
    for field, quantity in _QUANTITIES.items():
        if field in row:
            row[field] = _number(row[field], quantity, f"{where}: {field}")
    for field in ("capacity_bytes", "instance_bytes"):
        if field in row:
            row[field] = round(row[field])
    for field in ("per_unit", "byte_per_clock", "num_units", "count"):
        if field in row:
            row[field] = _count(row[field], f"{where}: {field}")
    for field in ("value", "flop_per_clock", *_CLOCKS):
        if field in row:
            row[field] = _number(row[field], "", f"{where}: {field}")


def _number(value: Any, quantity: str, where: str) -> float:
    if isinstance(value, str) and quantity:
        try:
            return parse_quantity(value, quantity)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {value!r} is not a number.")
    if not math.isfinite(value) or value <= 0:
        raise InputError(f"{where}: {value!r} is not a positive, finite number.")
    return float(value)


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where}: {value!r} is not a whole number of at least 1.")
    return value


def _require(row: Table, fields: tuple[str, ...], where: str) -> None:
    for field in fields:
        if row.get(field) in (None, ""):
            raise InputError(f"{where} lacks {field!r}.")


def _known_keys(row: Table, record: type[msgspec.Struct], where: str) -> None:
    for key in row:
        if key not in record.__struct_fields__:
            known = ", ".join(record.__struct_fields__)
            raise InputError(f"{where}: unknown field {told(key)}; it takes {known}.")


def _choice(value: Any, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise InputError(
            f"{where}: unknown {value!r}; use one of {', '.join(filter(None, allowed))}."
        )


def _reject_doubles(rows: list[Table], table: str) -> None:
    seen = set()
    for position, row in enumerate(rows):
        identity = tuple(str(row.get(field, "")) for field in _IDENTITY[table])
        if identity in seen:
            label = "/".join(filter(None, identity))
            raise InputError(f"{table}[{position}]: a second entry for {label}.")
        seen.add(identity)
