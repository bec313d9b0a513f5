"""A plain table of points, CSV or JSON: name, FLOP, bytes per level, time. Units in the heading.

The way in for everything that has no reader of its own. A table of roofs (``peak_flops``,
``peak_bandwidth``) beside it gives the device.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.device.lookup import from_peaks
from gambrel.dtypes import parse_dtype
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces.launches import LaunchList
from gambrel.traces.ncu.cut import delimiter_of
from gambrel.traces.ncu.numbers import Locale, LocaleEvidence, looks_numeric
from gambrel.traces.source import TextFile, decode, read_bytes, read_head
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
class PointColumn:
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
    source = _json_rows(path) if _is_json(path) else _CsvRows(TextFile(path))
    heading, rows = source.heading, source
    return _roofs(heading, rows, str(path)) if _is_roofs(heading) else _points(heading, rows, path)


def _is_json(path: Path) -> bool:
    return decode(read_head(path)).lstrip().startswith(("[", "{"))


def columns(heading: Sequence[str]) -> list[PointColumn]:
    """Finds the columns that are understood, with the factors of their units.

    Args:
        heading: Texts such as ``"time (ms)"``, ``"mean_ms"``, ``"bytes [GB]"``, ``"l2_bytes"``.
    """
    best: dict[str, tuple[int, PointColumn]] = {}
    for index, text in enumerate(heading):
        found = _column(text.strip(), index)
        if found and (found[1].what not in best or found[0] < best[found[1].what][0]):
            best[found[1].what] = found
    return [column for _, column in best.values()]


def _column(text: str, index: int) -> tuple[int, PointColumn] | None:
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
            return rank, PointColumn(what=what, index=index, factor=_factor(unit, quantity))
        except GambrelError:
            return None
    return rank, PointColumn(what=what, index=index)


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
                return next(csv.reader([line], delimiter=delimiter_of(line)))
            except csv.Error:
                return None
    return None


class _Rows(Protocol):
    """The rows of a table, each with its line (0 where it has none), as often as asked for."""

    @property
    def heading(self) -> list[str]:
        """Headings of the columns."""
        ...

    @property
    def where(self) -> str:
        """The file, with the line of the heading where it has one."""
        ...

    def __iter__(self) -> Iterator[tuple[int, list[str]]]: ...


class _CsvRows:
    """Rows of a CSV file, read line by line.

    Attributes:
        heading: Of the columns.
        where: The file, with the line of the heading.
    """

    def __init__(self, lines: TextFile) -> None:
        self._lines = lines
        self._number = 0
        self._delimiter = delimiter_of(next(self._used(), ""))
        line, self.heading = next(self._all(), (1, []))
        self.where = f"{lines.path}, line {line}"

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        """Gives the rows after the heading.

        Raises:
            FileFormatError: A quote or a cell without end.
        """
        rows = self._all()
        next(rows, None)
        return rows

    def _all(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(self._used(), delimiter=self._delimiter)
        try:
            for row in reader:
                yield self._number, row
        except csv.Error as error:
            where = f"{self._lines.path}, near line {self._number}"
            raise FileFormatError(f"{where}: {error}.") from None

    def _used(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            if line.strip() and not line.startswith("#"):
                self._number = number
                yield line


@dataclass(frozen=True, slots=True)
class _JsonRows:
    """Rows of a JSON file."""

    heading: list[str]
    where: str
    objects: list[dict[str, Any]]

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        return ((0, [_text(row.get(key)) for key in self.heading]) for row in self.objects)


def _json_rows(path: Path) -> _JsonRows:
    try:
        data = msgspec.json.decode(decode(read_bytes(path)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: no valid JSON ({error}).") from None
    rows = data.get("points") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FileFormatError(
            f'{path}: write a list of objects, or {{"points": [...]}}, each with name, flops, '
            "bytes, time."
        )
    heading = list(dict.fromkeys(key for row in rows for key in row))
    return _JsonRows(heading, str(path), rows)


def _text(value: Any) -> str:
    if value is None or isinstance(value, (list, dict, bool)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _points(heading: Sequence[str], rows: _Rows, path: Path) -> Samples:
    known = {c.what: c for c in columns(heading)}
    if not any(_quantity(c.what) for c in known.values()):
        raise FileFormatError(f"{rows.where}: no column of flops, bytes or time in the heading.")
    seen = _look_over(heading, rows, known, path)
    reading = _Reading(where=str(path), locale=seen.locale)
    collected = LaunchList()
    for i, (_, row) in enumerate(rows, 1):
        name = _name(row, known, i)
        if seen.extra:
            more = (f"{heading[i]}={row[i]}" for i in seen.extra if i < len(row))
            name = f"{name} [{', '.join(more)}]"
        sample = _sample(name, row, known, reading)
        if sample is not None:
            collected.extend((sample,))
    if not collected.launches:
        raise FileFormatError(f"{rows.where}: no row after it has a name and figures.")
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(collected.launches),
        notes=collected.notes(),
        skipped=reading.skipped,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rows as a whole tell.

    Attributes:
        locale: Of the figures.
        extra: Columns that tell points of one name apart; none where names do not repeat.
    """

    locale: Locale
    extra: tuple[int, ...]


def _look_over(
    heading: Sequence[str], rows: _Rows, known: Mapping[str, PointColumn], path: Path
) -> _Seen:
    """Goes through all rows once, before they are turned into points."""
    evidence = LocaleEvidence(str(path))
    figures = [c.index for c in known.values() if _quantity(c.what)]
    used = {c.index for c in known.values()}
    others = {i: _Texts() for i in range(len(heading)) if i not in used}
    names: set[int] = set()
    count = 0
    for count, (line, row) in enumerate(rows, 1):
        names.add(hash(_name(row, known, count)))
        for i in figures:
            text = row[i].strip() if i < len(row) else ""
            if not text.isdecimal() and looks_numeric(text):
                evidence.note(text, False, line)
        for i, texts in others.items():
            texts.add(row[i] if i < len(row) else None)
        if count > _MOST:
            raise FileFormatError(f"{path}, line {line}: at most {_MOST:,} rows are read.")
    repeat = len(names) < count
    extra = tuple(i for i, texts in others.items() if repeat and texts.identify)
    return _Seen(evidence.locale(), extra)


@dataclass(slots=True)
class _Texts:
    """Whether the texts of a column tell points apart: names or whole numbers, not all alike."""

    first: str | None = None
    differ: bool = False
    plain: bool = True

    def add(self, text: str | None) -> None:
        if text is None or not self.plain:
            return
        self.plain = not text or _IDENTITY.fullmatch(text) is not None
        if self.first is None:
            self.first = text
        self.differ = self.differ or text != self.first

    @property
    def identify(self) -> bool:
        return self.plain and self.differ


def _name(row: Sequence[str], known: Mapping[str, PointColumn], number: int) -> str:
    at = known.get("name")
    return row[at.index].strip() if at and at.index < len(row) else f"point {number}"


def _sample(
    name: str, row: Sequence[str], known: Mapping[str, PointColumn], reading: _Reading
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
    flops: float | None, row: Sequence[str], known: Mapping[str, PointColumn]
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


def _cell(row: Sequence[str], column: PointColumn | None) -> str:
    return row[column.index].strip() if column and column.index < len(row) else ""


def _value(row: Sequence[str], column: PointColumn, locale: Locale) -> float | None:
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


def _roofs(heading: Sequence[str], rows: _Rows, where: str) -> Samples:
    at = {h.strip().lower(): i for i, h in enumerate(heading)}
    found = []
    for _, row in rows:
        try:
            peaks = float(row[at["peak_flops"]]), float(row[at["peak_bandwidth"]])
        except (ValueError, IndexError):
            continue
        name = row[at["label"]] if "label" in at else Path(where).stem
        found.append(from_peaks(*peaks, name=name or "roofs"))
    if not found:
        raise FileFormatError(
            f"{rows.where}: no row after it has a peak_flops and a peak_bandwidth."
        )
    others = ", ".join(d.name for d in found[1:])
    note = f"roofs from {where}: {found[0].name}" + (f"; not used: {others}" if others else "")
    return Samples(
        format="table of roofs", sources=(where,), launches=(), device=found[0], notes=(note,)
    )
