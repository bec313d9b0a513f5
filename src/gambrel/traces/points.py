"""A plain table of points, CSV or JSON: name, FLOP, bytes per level, time. Units in the heading.

The way in for everything that has no reader of its own. A table of roofs (``peak_flops``,
``peak_bandwidth``) beside it gives the device.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.device.lookup import from_peaks
from gambrel.dtypes import parse_dtype
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces.ncu.numbers import Locale, infer, looks_numeric
from gambrel.traces.source import decode, read_bytes
from gambrel.units import parse_quantity

FORMAT: Final = "table of points"

#: Column → headings, best first; what is in a heading beyond them is its unit.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "name": ("name", "kernel", "kernel_name", "label", "op", "point", "layer"),
    "flops": ("flops", "flop", "work"),
    "time": ("time", "duration", "measured_time", "median", "mean", "latency", "runtime"),
    "count": ("count", "calls", "launches"),
    "group": ("group", "module"),
    "dtype": ("dtype", "precision", "format"),
    "engine": ("engine", "work_class"),
    "DRAM": ("bytes", "dram_bytes", "traffic_bytes", "traffic", "hbm_bytes", "theoretical_bytes"),
    "LLC": ("llc_bytes", "l3_bytes"),
    "L2": ("l2_bytes",),
    "L1": ("l1_bytes",),
    "shared": ("shared_bytes",),
}
_BY_HEADING: Final = {h: (column, i) for column, hs in _NAMES.items() for i, h in enumerate(hs)}
_LEVELS: Final = ("DRAM", "LLC", "L2", "L1", "shared")
_BRACKETED: Final = re.compile(r"(.*?)[\s_]*[(\[]\s*([^)\]]+?)\s*[)\]]\s*")
_SUFFIXED: Final = re.compile(r"(.*)_((?:[kmgt]i?)?b(?:ytes)?|[kmgtp]flops?|[mun]?s|sec)")
_IDENTITY: Final = re.compile(r"[-+]?\d{1,15}|[A-Za-z]\w{0,30}")
_MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that is understood.

    Attributes:
        what: A key of `_NAMES`.
        index: Position.
        factor: Of its unit.
    """

    what: str
    index: int
    factor: float = 1.0


@dataclass(slots=True)
class _Reading:
    where: str
    locale: Locale
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + 1


def is_points(text: str) -> bool:
    """Whether text begins like a table of points or of roofs."""
    start = text.lstrip()
    if start.startswith(("[", "{")):
        return '"points"' in start or (start.startswith("[") and '"flops"' in start)
    heading = _heading(start)
    if heading is None:
        return False
    found = {c.what for c in columns(heading)}
    return len(found & {"flops", "time", *_LEVELS}) >= 2 or _is_roofs(heading)


def read(path: Path) -> Samples:
    """Reads a table of points or of roofs.

    Raises:
        FileFormatError: Not readable, or no usable column or row.
    """
    text = decode(read_bytes(path))
    if text.lstrip().startswith(("[", "{")):
        heading, rows = _json_rows(text, str(path))
    else:
        heading, rows = _csv_rows(text, str(path))
    return _roofs(heading, rows, str(path)) if _is_roofs(heading) else _points(heading, rows, path)


def columns(heading: Sequence[str]) -> list[Column]:
    """Finds the columns that are understood, with the factors of their units.

    Args:
        heading: Texts such as ``"time (ms)"``, ``"mean_ms"``, ``"bytes [GB]"``, ``"l2_bytes"``.
    """
    best: dict[str, tuple[int, Column]] = {}
    for index, text in enumerate(heading):
        found = _column(text.strip(), index)
        if found and (found[1].what not in best or found[0] < best[found[1].what][0]):
            best[found[1].what] = found
    return [column for _, column in best.values()]


def _column(text: str, index: int) -> tuple[int, Column] | None:
    name = re.sub(r"\s+", "_", text.lower())
    unit = ""
    if name not in _BY_HEADING:
        match = _BRACKETED.fullmatch(text) or _SUFFIXED.fullmatch(name)
        if match is None:
            return None
        name, unit = re.sub(r"\s+", "_", match[1].lower()), match[2]
    if name not in _BY_HEADING:
        # "dram_gb" is "dram_bytes" in GB.
        name = f"{name}_bytes"
        if name not in _BY_HEADING:
            return None
    what, rank = _BY_HEADING[name]
    quantity = _quantity(what)
    if unit and quantity:
        try:
            return rank, Column(what=what, index=index, factor=_factor(unit, quantity))
        except GambrelError:
            return None
    return rank, Column(what=what, index=index)


def _quantity(what: str) -> str:
    if what == "time":
        return "time"
    return "size" if what in _LEVELS else {"flops": "rate"}.get(what, "")


def _factor(unit: str, quantity: str) -> float:
    if quantity == "rate":
        # A count: "GFLOP" and "G" are 1e9.
        unit = re.sub(r"(?i)flops?$", "", unit)
    if len(unit) == 2 and unit[0] in "kmgt" and quantity == "size":
        unit = unit.upper()  # "_gb"
    return parse_quantity(f"1{unit.upper() if quantity == 'rate' else unit}", quantity)


def _heading(text: str) -> list[str] | None:
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            try:
                return next(csv.reader([line], delimiter=_delimiter(line)))
            except csv.Error:
                return None
    return None


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _csv_rows(text: str, where: str) -> tuple[list[str], list[list[str]]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    reader = csv.reader(lines, delimiter=_delimiter(lines[0]))
    try:
        heading = next(reader)
        return heading, list(reader)
    except csv.Error as error:
        raise FileFormatError(f"{where}, near line {reader.line_num}: {error}.") from None


def _json_rows(text: str, where: str) -> tuple[list[str], list[list[str]]]:
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(f"{where}: no valid JSON ({error}).") from None
    rows = data.get("points") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileFormatError(
            f'{where}: write a list of objects, or {{"points": [...]}}, each with name, flops, '
            "bytes, time."
        )
    heading = list(dict.fromkeys(key for row in rows for key in row))
    return heading, [[_text(row.get(key)) for key in heading] for row in rows]


def _text(value: Any) -> str:
    if value is None or isinstance(value, (list, dict, bool)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _points(heading: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Samples:
    known = {c.what: c for c in columns(heading)}
    figures = [c for c in known.values() if _quantity(c.what)]
    if not figures:
        raise FileFormatError(f"{path}: no column of flops, bytes or time in the heading.")
    if len(rows) > _MOST:
        raise FileFormatError(f"{path}: {len(rows):,} rows; at most {_MOST:,} are read.")
    cells = ((row[c.index], False) for row in rows for c in figures if c.index < len(row))
    locale = infer(((t.strip(), w) for t, w in cells if looks_numeric(t.strip())), str(path))
    reading = _Reading(where=str(path), locale=locale)
    names = _names(heading, rows, known)
    launches = tuple(
        sample
        for name, row in zip(names, rows, strict=True)
        if (sample := _sample(name, row, known, reading)) is not None
    )
    if not launches:
        raise FileFormatError(f"{path}: no row with a name and figures.")
    return Samples(format=FORMAT, sources=(str(path),), launches=launches, skipped=reading.skipped)


def _names(
    heading: Sequence[str], rows: Sequence[Sequence[str]], known: Mapping[str, Column]
) -> list[str]:
    """Names of the points; where they repeat, with the columns in which the points differ."""
    at = known.get("name")
    names = [
        row[at.index].strip() if at and at.index < len(row) else f"point {i + 1}"
        for i, row in enumerate(rows)
    ]
    if len(set(names)) == len(names):
        return names
    used = {c.index for c in known.values()}
    extra = [i for i in range(len(heading)) if i not in used and _identifies(rows, i)]
    return [
        f"{name} [{', '.join(f'{heading[i]}={row[i]}' for i in extra if i < len(row))}]"
        if extra
        else name
        for name, row in zip(names, rows, strict=True)
    ]


def _identifies(rows: Sequence[Sequence[str]], index: int) -> bool:
    texts = {row[index] for row in rows if index < len(row)}
    return len(texts) > 1 and all(_IDENTITY.fullmatch(t) for t in texts if t)


def _sample(
    name: str, row: Sequence[str], known: Mapping[str, Column], reading: _Reading
) -> Sample | None:
    values: dict[str, float | None] = {}
    for what, column in known.items():
        if not _quantity(what) and what != "count":
            continue
        try:
            values[what] = _value(row, column, reading.locale)
        except ValueError:
            reading.skip("rows with a figure that is no number, negative or not finite")
            return None
    if not name or all(values.get(w) is None for w in ("flops", "time", *_LEVELS)):
        reading.skip("rows without a name or figures")
        return None
    return Sample(
        name=name,
        count=int(values.get("count") or 1),
        time_s=values.get("time") or None,
        state=Known.COUNTED if values.get("flops") is not None else Known.MISSING,
        why="" if values.get("flops") is not None else "the table has no FLOP for this point",
        work=_work(values.get("flops"), row, known),
        traffic=tuple(
            MeasuredTraffic(level=level, traffic_bytes=round(size), how="given")
            for level in _LEVELS
            if (size := values.get(level)) is not None
        ),
        group=_cell(row, known.get("group")),
    )


def _work(
    flops: float | None, row: Sequence[str], known: Mapping[str, Column]
) -> tuple[MeasuredWork, ...]:
    if flops is None:
        return ()
    engine = _cell(row, known.get("engine")).lower()
    try:
        dtype = parse_dtype(_cell(row, known.get("dtype")))
    except GambrelError:
        dtype = "any"
    work_class = engine if engine in {"matrix", "vector"} else "vector"
    if dtype != "any" and not engine:
        work_class = "matrix"  # a format without an engine: no run beats its highest roof
    return (MeasuredWork(work_class=work_class, dtype=dtype, flops=round(flops), how="given"),)


def _cell(row: Sequence[str], column: Column | None) -> str:
    return row[column.index].strip() if column and column.index < len(row) else ""


def _value(row: Sequence[str], column: Column, locale: Locale) -> float | None:
    text = _cell(row, column)
    if text.lower() in {"", "nan", "none", "null", "n/a", "-"}:
        return None
    try:
        value = locale.parse(text) * column.factor
    except ValueError:
        try:
            value = parse_quantity(text, _quantity(column.what) or "size")  # "3.2 ms"
        except GambrelError:
            raise ValueError(text) from None
    if not math.isfinite(value) or value < 0 or value > 1e30:
        raise ValueError(text)
    return value


def _is_roofs(heading: Sequence[str]) -> bool:
    return {"peak_flops", "peak_bandwidth"} <= {h.strip().lower() for h in heading}


def _roofs(heading: Sequence[str], rows: Sequence[Sequence[str]], where: str) -> Samples:
    at = {h.strip().lower(): i for i, h in enumerate(heading)}
    found = []
    for row in rows:
        try:
            peaks = float(row[at["peak_flops"]]), float(row[at["peak_bandwidth"]])
        except (ValueError, IndexError):
            continue
        name = row[at["label"]] if "label" in at else Path(where).stem
        found.append(from_peaks(*peaks, name=name or "roofs"))
    if not found:
        raise FileFormatError(f"{where}: no row with a peak_flops and a peak_bandwidth.")
    others = ", ".join(d.name for d in found[1:])
    note = f"roofs from {where}: {found[0].name}" + (f"; not used: {others}" if others else "")
    return Samples(
        format="table of roofs", sources=(where,), launches=(), device=found[0], notes=(note,)
    )
