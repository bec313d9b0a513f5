"""Launches in any layout of the export: long, wide with a units row, ragged, with noise around."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Final

from gambrel.errors import FileFormatError

#: A value and its unit, both as written.
Cell = tuple[str, str]

_DATA_ROW: Final = re.compile(r'^"?\d+"?[,;\t]')
_UNITS_ROW: Final = re.compile(r'^(?:"")?[,;\t]')
_HEADER: Final = re.compile(
    r'^"?ID"?[,;\t]"?[A-Za-z]|^.{0,200}"?Kernel Name"?[,;\t].*"?Metric Name"?'
)
_LABELLED: Final = re.compile(r".*\((\w+__[\w.]+)\)")
#: Columns that describe a launch; every other column of the wide layout is a metric.
_LAUNCH: Final = frozenset(
    {"ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context"}
    | {"Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Device Name"}
    | {"Invocations"}
)
#: Metrics of raw pages that no recipe reads, a third of all columns: launch settings, samples of
#: the program counter, reasons of stalls, links.
_UNREAD: Final = (
    *("launch__", "smsp__pcsamp_", "smsp__average_warp", "group:", "breakdown:", "sass__inst"),
    *("profiler__", "nvlink", "pcie__", "pcsamp__", "numa__"),
)
#: Columns of NVTX ranges (--nvtx) are named by their fields: ``Id:Domain:Push/Pop_Range:...``.
_RANGES: Final = ("Push/Pop_Range", "Start/Stop_Range", "Push_Pop_Range", "NVTX")
#: What tells launches apart; without an ID, kernels by their launch shape.
_WITH_ID: Final = frozenset({"ID", "Process ID", "Host Name", "Device"})
_LAUNCH_KEYS: Final = (*sorted(_WITH_ID), "Kernel Name", "Block Size", "Grid Size", "Context")
#: Headings of the details page, which shows labels instead of names, as metrics, with the unit
#: that tells two metrics of one label apart.
_LABELS: Final[dict[tuple[str, bool], str]] = {
    ("Duration", False): "gpu__time_duration.sum",
    ("Elapsed Cycles", False): "sm__cycles_elapsed.max",
    ("SM Frequency", False): "sm__cycles_elapsed.avg.per_second",
    ("DRAM Frequency", False): "dram__cycles_elapsed.avg.per_second",
    ("Memory Throughput", False): "dram__bytes.sum.per_second",
    ("DRAM Throughput", True): "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ("SOL DRAM", True): "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ("Compute (SM) Throughput", True): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("SOL SM", True): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("SM [%]", True): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("L2 Cache Throughput", True): "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    ("L1/TEX Cache Throughput", True): "l1tex__throughput.avg.pct_of_peak_sustained_active",
    ("Achieved Occupancy", True): "sm__warps_active.avg.pct_of_peak_sustained_active",
}


@dataclass(slots=True)
class Launch:
    """One kernel launch as exported.

    Attributes:
        info: Cells of the launch's own columns.
        metrics: Value and unit by metric name.
        line: Where it starts, 1-based.
        ranges: The columns of NVTX ranges among them.
    """

    info: dict[str, str]
    line: int
    metrics: dict[str, Cell] = field(default_factory=dict)
    ranges: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.info.get("Kernel Name", "") or "(no name)"

    @property
    def group(self) -> str:
        """The innermost NVTX range that the export names; empty without one."""
        for column in self.ranges:
            text = self.info.get(column, "")
            name = _range_name(column, text) if text else ""
            if name not in {"", "none", "<default domain>"}:
                return name
        return ""


def _range_name(column: str, text: str) -> str:
    """The range in a cell whose fields the heading names: ``Id:Domain:Push/Pop_Range:...``.

    The thread before the domain, which the heading runs together with it, may be there or not.
    """
    fields = text.replace('"', "").split(":")
    if len(fields) <= 2:
        return fields[0].strip()
    names = column.split(":")
    at = next((i for i, name in enumerate(names) if any(mark in name for mark in _RANGES)), 0)
    if fields[0].strip().isdigit() and names[0].strip() != "Id":
        at += 1
    return fields[min(at, len(fields) - 1)].strip()


@dataclass(slots=True)
class Table:
    """What a file holds.

    Attributes:
        launches: In order.
        errors: What the profiler said went wrong (``==ERROR==`` lines).
        skipped: Rows that could not be used, by reason.
    """

    launches: list[Launch] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Counts a row that is not used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def is_ncu(head: str) -> bool:
    """Whether text begins like an export of Nsight Compute."""
    for line in head.splitlines():
        if "Kernel Name" in line and _HEADER.match(line):
            return True
    return "==PROF==" in head or "==ERROR==" in head


def parse(text: str, where: str) -> Table:
    """Finds the launches.

    Args:
        text: The file.
        where: Its name, for errors.

    Raises:
        FileFormatError: No table in it; a quote that never ends; a cell without end.
    """
    table = Table()
    blocks = _blocks(text, table)
    if not blocks:
        raise FileFormatError(f"{where}: {_no_table(table)}")
    for start, lines in blocks:
        _parse_block(start, lines, table, where)
    if not table.launches:
        raise FileFormatError(f"{where}: the table has a heading but no kernel. {_no_table(table)}")
    return table


def _no_table(table: Table) -> str:
    if table.errors:
        return f"the profiler failed: {table.errors[0]}"
    return (
        'no table of Nsight Compute in it (a line that starts with "ID"). Export with: '
        "ncu --import report.ncu-rep --csv --page raw --print-units base > report.csv"
    )


def _blocks(text: str, table: Table) -> list[tuple[int, list[str]]]:
    """Cuts the file at headings; each block is its heading and its rows, noise left out.

    A row may go on over several lines inside quotes (texts of rules do), so quotes are counted.
    """
    blocks: list[tuple[int, list[str]]] = []
    rows: list[str] | None = None
    open_quote = False
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if rows is not None and not open_quote and _DATA_ROW.match(line):
            rows.append(line)  # nearly every line
            open_quote = line.count('"') % 2 == 1
        elif rows is not None and open_quote:
            rows.append(line)
            open_quote ^= line.count('"') % 2 == 1
        elif "Name" in line and _HEADER.match(line.lstrip("\ufeff")):
            rows = [line.lstrip("\ufeff")]
            blocks.append((number, rows))
            open_quote = False
        elif line.startswith("==ERROR=="):
            table.errors.append(line.removeprefix("==ERROR==").strip())
        elif rows is not None and _is_row(line, rows):
            rows.append(line)
            open_quote = line.count('"') % 2 == 1
        elif line.strip() and blocks and not line.startswith("=="):
            table.skip("lines that are no row of the table")
    return blocks


def _is_row(line: str, block: Sequence[str]) -> bool:
    """Whether a line goes on with the table: it starts with a number, or has all its columns."""
    if _DATA_ROW.match(line) or (len(block) == 1 and _UNITS_ROW.match(line)):
        return True
    delimiter = _delimiter(block[0])
    whole = line.count(delimiter) >= block[0].count(delimiter)
    return whole and not block[0].lstrip('"').startswith("ID")


def _delimiter(heading: str) -> str:
    return max(",;\t", key=heading.count)


def _parse_block(start: int, lines: Sequence[str], table: Table, where: str) -> None:
    reader = csv.reader(lines, delimiter=_delimiter(lines[0]))
    try:
        header = [name.strip() for name in next(reader)]
        if "Metric Name" in header:
            _parse_long(header, reader, start, table)
        elif "Kernel Name" in header:
            _parse_wide(header, reader, start, table)
        else:
            raise FileFormatError(
                f"{where}, line {start}: the heading has no column 'Kernel Name'."
            )
    except csv.Error as error:
        line = start + reader.line_num
        raise FileFormatError(f"{where}, near line {line}: {error}.") from None


def _parse_long(
    header: Sequence[str], reader: Iterable[list[str]], start: int, table: Table
) -> None:
    at = {name: i for i, name in enumerate(header)}
    # A summary by kernel (--print-summary) has no launches but averages of so many invocations.
    name_at, value_at = at["Metric Name"], at.get("Metric Value", at.get("Average", len(header)))
    unit_at, id_at = at.get("Metric Unit", len(header)), at.get("ID")
    known: dict[object, Launch] = {}
    info_at = [(n, i) for n, i in at.items() if _of_launch(n) and n != "Section Name"]
    ranges = tuple(n for n, _ in info_at if _is_range(n))
    needed = max([value_at, *(i for _, i in info_at)])
    keys = [at[n] for n in _LAUNCH_KEYS if n in at and (n in _WITH_ID or id_at is None)]
    key_of = itemgetter(*keys) if keys else lambda _: ""
    for offset, row in enumerate(reader, 1):
        if len(row) <= name_at or not row[name_at]:
            continue  # a rule of the details page, or a launch without metrics
        if len(row) <= needed:
            table.skip("rows that end before the value")
            continue
        if id_at is not None and not row[id_at].isdigit():
            table.skip("rows without a number of the launch")
            continue
        key = key_of(row)
        launch = known.get(key)
        if launch is None:
            found = {n: row[i] for n, i in info_at}
            launch = known[key] = Launch(found, start + offset, ranges=ranges)
            table.launches.append(launch)
        unit = row[unit_at] if unit_at < len(row) else ""
        _add(launch, row[name_at], row[value_at], unit, table)


def _parse_wide(
    header: Sequence[str], reader: Iterator[list[str]], start: int, table: Table
) -> None:
    metrics = [
        (i, n)
        for i, n in enumerate(header)
        if n and not _of_launch(n) and not n.startswith(_UNREAD)
    ]
    info = [(i, n) for i, n in enumerate(header) if _of_launch(n)]
    ranges = tuple(n for _, n in info if _is_range(n))
    units: Sequence[str] = ()
    plain: list[tuple[int, str, str]] = []
    for offset, row in enumerate(reader, 1):
        if offset == 1 and not row[0].strip():
            units = row
            continue
        if len(row) < len(header):
            table.skip("rows that end early")
        found = {n: row[i] for i, n in info if i < len(row)}
        launch = Launch(found, start + offset, ranges=ranges)
        plain = plain or _plain(metrics, units)
        if plain and len(row) >= len(header):
            launch.metrics = {name: (row[i].strip(), unit) for i, name, unit in plain}
        else:
            for i, name in metrics:
                if i < len(row):
                    _add(launch, name, row[i], units[i] if i < len(units) else "", table)
        table.launches.append(launch)


def _plain(metrics: Sequence[tuple[int, str]], units: Sequence[str]) -> list[tuple[int, str, str]]:
    """Columns with names and units; none where two columns are one metric."""
    found = []
    for i, name in metrics:
        unit = units[i].strip() if i < len(units) else ""
        found.append((i, metric_name(name, unit), unit))
    return found if len({name for _, name, _ in found}) == len(found) else []


def _of_launch(column: str) -> bool:
    """Whether a column describes the launch; every other one is a metric."""
    return column in _LAUNCH or _is_range(column)


def _is_range(column: str) -> bool:
    return any(mark in column for mark in _RANGES)


def _add(launch: Launch, name: str, value: str, unit: str, table: Table) -> None:
    unit = unit.strip()
    cell = (value.strip(), unit)
    name = metric_name(name, unit)
    if launch.metrics.setdefault(name, cell) != cell:
        table.skip("second values of one metric of one launch")


@lru_cache(maxsize=65536)
def metric_name(name: str, unit: str) -> str:
    """The metric behind a name: itself, the part in parentheses, or that of a known label."""
    name = name.strip()
    if "__" not in name:
        return _LABELS.get((name, unit == "%"), name)
    found = _LABELLED.fullmatch(name)
    if found:
        name = found[1]
    return name
