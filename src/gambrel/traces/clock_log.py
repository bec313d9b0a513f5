"""Logs of ``nvidia-smi --query-gpu=... --format=csv -l`` and ``dcgmi dmon``: clocks and power.

They hold no kernels; they stand beside a trace of the same run and tell whether the GPU was slowed
down. Names of nvidia-smi's fields are those of ``nvidia-smi --help-query-gpu``, old and new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.samples import Samples
from gambrel.analysis.samples.clock_log import REASONS, ClockLog, ClockReading
from gambrel.errors import FileFormatError
from gambrel.traces.source import TextFile, csv_rows

_FIELDS: Final[dict[str, str]] = {
    **dict.fromkeys(("index", "gpu_index", "pci.bus_id", "gpu_bus_id", "uuid"), "device"),
    **dict.fromkeys(("clocks.sm", "clocks.current.sm"), "clock_hz"),
    **dict.fromkeys(("clocks.gr", "clocks.current.graphics"), "graphics_hz"),
    **dict.fromkeys(("clocks.max.sm", "clocks.max.graphics", "clocks.max.gr"), "max_clock_hz"),
    **dict.fromkeys(("power.draw", "power.draw.instant", "power.draw.average"), "power_w"),
    **dict.fromkeys(("power.limit", "enforced.power.limit"), "power_limit_w"),
    "temperature.gpu": "celsius",
    "utilization.gpu": "busy",
    "clocks_throttle_reasons.active": "reasons",
    "clocks_event_reasons.active": "reasons",
    # of dcgmi dmon: fields 100, 155, 160, 150, 203, 112
    "SMCLK": "clock_hz",
    "POWER": "power_w",
    "PMLMT": "power_limit_w",
    "TMPTR": "celsius",
    "GPUTL": "busy",
    "DVCCTR": "reasons",
}
#: Fields that are one reason each, ``Active`` or ``Not Active``.
_FLAG: Final = re.compile(r"clocks_(?:throttle|event)_reasons\.(\w+)")
_FLAGS: Final = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "applications_clocks_setting": 0x2,
}
#: Units by field, the one that is meant where none is written first.
_UNITS: Final[dict[str, dict[str, float]]] = {
    "hz": {"MHz": 1e6, "GHz": 1e9, "kHz": 1e3, "Hz": 1.0},
    "w": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "celsius": {"C": 1.0, "°C": 1.0},
    "busy": {"%": 0.01},
}
_HEADING: Final = re.compile(r"([\w.]+)\s*(?:\[([^\]]*)\])?")
_CELL: Final = re.compile(r"([+-]?[\d.,]+(?:[eE][+-]?\d+)?)\s*(\S*)")
_STAMP: Final = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+\s*[,;]")
_ENTITY: Final = re.compile(r"#\s*Entity\b")
_ROW: Final = re.compile(r"GPU\S*\s+(\d+)\s+(.*)")


def is_clock_log(text: str) -> bool:
    """Whether text begins like a log of clocks or power, with or without its heading."""
    line = next((x for x in text.splitlines() if x.strip()), "").lstrip("\ufeff ")
    if _ENTITY.match(line) or _STAMP.match(line):
        return True
    names = [_name(cell)[0] for cell in re.split(r"[,;\t]", line)]
    return any("." in name and (name in _FIELDS or _FLAG.fullmatch(name)) for name in names)


def read(path: Path) -> Samples:
    """Reads the clocks, power and reasons of every reading.

    Raises:
        FileFormatError: Not readable, without a heading, in unknown units, or without a clock and
            a power.
    """
    lines = TextFile(path)
    first = next((line for line in lines if line.strip()), "")
    readings = list(_dmon(lines, path) if _ENTITY.match(first.strip()) else _smi(lines, path))
    if not any(r.clock_hz or r.power_w for r in readings):
        raise FileFormatError(f"{path}: no reading of a clock or of power; {_ASK}.")
    log = ClockLog(source=path.name, readings=tuple(readings))
    return Samples(format="clock log", sources=(str(path),), launches=(), clocks=log)


_ASK: Final = (
    "record with: nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.max.sm,power.draw,"
    "power.limit,utilization.gpu,clocks_throttle_reasons.active --format=csv -lms 200 -f clocks.csv"
)


def _name(heading: str) -> tuple[str, str]:
    """Name and unit of a column."""
    match = _HEADING.match(heading.strip().strip('"'))
    return (match[1], match[2] or "") if match else ("", "")


def _smi(lines: Iterable[str], path: Path) -> Iterable[ClockReading]:
    head = next((line for line in lines if line.strip()), "")
    if _STAMP.match(head.lstrip("\ufeff ")):
        raise FileFormatError(f"{path}, line 1: readings without a heading; leave noheader out.")
    delimiter = max(",;\t", key=head.count)
    columns: list[tuple[str, str]] = []
    for number, row in csv_rows(lines, path, delimiter):
        cells = [cell.strip() for cell in row]
        if not columns or _name(cells[0]) == columns[0]:
            columns = [_name(cell) for cell in cells]
        elif len(cells) == len(columns):
            named = dict(zip(columns, cells, strict=True))
            yield _reading(named, f"{path}, line {number}", comma=delimiter != ",")


def _dmon(lines: Iterable[str], path: Path) -> Iterable[ClockReading]:
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if _ENTITY.match(text):
            names = _ENTITY.sub("", text).split()
        elif match := _ROW.match(text):
            cells = match[2].split()
            if len(cells) == len(names):
                named = {(n, ""): c for n, c in zip(names, cells, strict=True)}
                named["index", ""] = match[1]
                yield _reading(named, f"{path}, line {number}", comma=False)


def _reading(cells: Mapping[tuple[str, str], str], where: str, *, comma: bool) -> ClockReading:
    """One row of a log."""
    found: dict[str, Any] = {}
    flags: list[int] | None = None
    for (name, unit), cell in cells.items():
        flag = _FLAG.fullmatch(name)
        field = _FIELDS.get(name)
        if field == "device":
            found.setdefault("device", cell)
        elif field == "reasons":
            mask = _mask(cell)
            flags = flags if mask is None else [*(flags or ()), *(b for b in REASONS if b & mask)]
        elif flag and flag[1] in _FLAGS and cell in ("Active", "Not Active"):
            flags = [*(flags or ()), *([_FLAGS[flag[1]]] if cell == "Active" else ())]
        elif field:
            found.setdefault(field, _value(cell, unit, field, f"{where}: {name}", comma=comma))
    graphics = found.pop("graphics_hz", None)
    if found.get("clock_hz") is None:
        found["clock_hz"] = graphics
    if flags is not None:
        found["reasons"] = tuple(dict.fromkeys(REASONS[bit] for bit in flags))
    return ClockReading(**found)


def _mask(cell: str) -> int | None:
    """Bits of reasons, ``0x0000000000000004`` or 4."""
    try:
        return int(cell, 0)
    except ValueError:
        return None


def _value(cell: str, unit: str, field: str, where: str, *, comma: bool) -> float | None:
    """A figure in its base unit; None for ``[N/A]`` and the like.

    Raises:
        FileFormatError: It has a unit that the field cannot have.
    """
    match = _CELL.fullmatch(cell.strip('"'))
    if match is None:
        return None
    units = _UNITS[field.rpartition("_")[2]]
    written = match[2] or unit or next(iter(units))
    if written not in units:
        known = ", ".join(units)
        raise FileFormatError(f"{where} is in {written!r}; known are {known}.")
    try:
        return float(match[1].replace(",", ".") if comma else match[1]) * units[written]
    except ValueError:
        raise FileFormatError(f"{where} is {cell!r}, which is no number.") from None
