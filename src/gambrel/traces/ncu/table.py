"""Launches in any layout of the export: long, wide with a units row, ragged, with noise around.

The file is read line by line and a launch is given as soon as it is whole.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Protocol

from gambrel.errors import FileFormatError
from gambrel.traces.ncu.columns import MetricColumns, columns_of
from gambrel.traces.ncu.cut import Cut, Table, delimiter_of
from gambrel.traces.ncu.launch import Heading, Launch, of_launch, picker

#: What tells launches apart; without an ID, kernels by their launch shape.
_WITH_ID: Final = frozenset({"ID", "Process ID", "Host Name", "Device"})
_LAUNCH_KEYS: Final = (*sorted(_WITH_ID), "Kernel Name", "Block Size", "Grid Size", "Context")
#: Of the number of a launch.
_DIGITS: Final = 18


class OutOfOrderError(Exception):
    """Rows of one launch do not follow each other; the file must be read in full first."""


def launches(lines: Iterable[str], table: Table, *, gather: bool = False) -> Iterator[Launch]:
    """Finds the launches, in the order of their first rows.

    Args:
        lines: Of the file.
        table: Is told what else is in it.
        gather: Keep the launches of a table until its end, for files whose rows are not in the
            order of the launches.

    Raises:
        FileFormatError: No table in it; a quote that never ends; a cell without end.
        OutOfOrderError: Rows of a launch come apart; not with `gather`.
    """
    cut = Cut(lines, table)
    some = False
    while cut.find():
        found = _parse_block(cut, table, gather)
        for launch in found:
            some = True
            yield launch
            yield from found
    if not table.heading:
        raise FileFormatError(f"{table.where}: {_no_table(table)}")
    if not some:
        raise FileFormatError(
            f"{table.where}, line {table.heading}: the table has a heading but no kernel. "
            f"{_no_table(table)}"
        )


def _no_table(table: Table) -> str:
    if table.errors:
        return f"the profiler failed: {table.errors[0]}"
    return (
        'no table of Nsight Compute in it (a line that starts with "ID"). Export with: '
        "ncu --import report.ncu-rep --csv --page raw --print-units base > report.csv"
    )


def _parse_block(cut: Cut, table: Table, gather: bool) -> Iterator[Launch]:
    reader = csv.reader(cut.rows(), delimiter=delimiter_of(cut.heading))
    try:
        header = [name.strip() for name in next(reader)]
        if "Metric Name" in header:
            yield from _Long(header, cut, table).read(reader, gather)
        elif "Kernel Name" in header:
            yield from _parse_wide(header, reader, cut, table)
        else:
            raise FileFormatError(
                f"{table.where}, line {cut.start}: the heading has no column 'Kernel Name'."
            )
    except csv.Error as error:
        raise FileFormatError(f"{table.where}, near line {cut.number}: {error}.") from None


class _Reader(Protocol):
    """What `csv.reader` gives."""

    def __iter__(self) -> Iterator[list[str]]: ...


@dataclass(slots=True, eq=False)
class _Open:
    """A launch of the long layout, whose rows are being read."""

    line: int
    row: Sequence[str]
    names: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)


class _Long:
    """The long layout: one row a metric."""

    def __init__(self, header: Sequence[str], cut: Cut, table: Table) -> None:
        at = {name: i for i, name in enumerate(header)}
        self._cut, self._table = cut, table
        self._name_at = at["Metric Name"]
        # A summary by kernel (--print-summary) has no launches but averages of many invocations.
        self._value_at = at.get("Metric Value", at.get("Average", len(header)))
        self._unit_at, self._id_at = at.get("Metric Unit", len(header)), at.get("ID")
        self._heading = Heading([n if n != "Section Name" else "" for n in header])
        self._needed = max([self._value_at, *self._heading.at.values()])
        keys = [at[n] for n in _LAUNCH_KEYS if n in at and (n in _WITH_ID or self._id_at is None)]
        self._key_of = itemgetter(*keys) if keys else lambda _: ""

    def read(self, reader: _Reader, gather: bool) -> Iterator[Launch]:
        """Gives launches when the next one begins; at the end where that does not tell."""
        known: dict[object, _Open] = {}
        last: dict[object, int] = {}
        streams = self._id_at is not None and not gather
        key: object = None
        launch: _Open | None = None
        key_of, name_at, unit_at, value_at = (
            self._key_of,
            self._name_at,
            self._unit_at,
            self._value_at,
        )
        for row in reader:
            if not self._usable(row):
                continue
            found = key_of(row)
            if launch is None or found != key:
                if streams:
                    self._check_order(row, last)
                    if launch is not None:
                        yield self._whole(launch)
                    launch = _Open(self._cut.number, row)
                else:
                    launch = known.get(found)
                    if launch is None:
                        launch = known[found] = _Open(self._cut.number, row)
                key = found
            launch.names.append(row[name_at])
            launch.units.append(row[unit_at] if unit_at < len(row) else "")
            launch.cells.append(row[value_at])
        if streams and launch is not None:
            yield self._whole(launch)
        yield from map(self._whole, known.values())

    def _usable(self, row: Sequence[str]) -> bool:
        if len(row) <= self._name_at or not row[self._name_at]:
            return False  # a rule of the details page, or a launch without metrics
        if len(row) <= self._needed:
            self._table.skip("rows that end before the value")
            return False
        if self._id_at is not None and not _is_number(row[self._id_at]):
            self._table.skip("rows without a number of the launch")
            return False
        return True

    def _check_order(self, row: Sequence[str], last: dict[object, int]) -> None:
        """Numbers of launches rise within a process; a smaller one may belong to an earlier one."""
        owner, number = tuple(self._heading.owner(row)), int(row[self._id_at or 0])
        if number <= last.get(owner, -1):
            raise OutOfOrderError
        last[owner] = number

    def _whole(self, launch: _Open) -> Launch:
        columns = columns_of(tuple(launch.names), tuple(launch.units))
        if columns.repeats:
            columns.count_repeats(launch.cells, self._table.skip)
        return Launch(launch.line, launch.row, self._heading, columns, launch.cells)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS


def _parse_wide(
    header: Sequence[str], reader: Iterator[list[str]], cut: Cut, table: Table
) -> Iterator[Launch]:
    metrics = [i for i, n in enumerate(header) if n and not of_launch(n)]
    heading = Heading(header)
    columns: MetricColumns | None = None
    names, units = tuple(header[i] for i in metrics), ("",) * len(metrics)
    width = len(header)
    pick = picker(metrics)
    for offset, row in enumerate(reader):
        if not row:
            continue
        if len(row) < width:
            if not (offset == 0 and not row[0].strip()):
                table.skip("rows that end early")
            row += [""] * (width - len(row))
        if offset == 0 and not row[0].strip():
            units = tuple(pick(row))
            continue
        columns = columns or columns_of(names, units, raw=True)
        cells = pick(row)
        if columns.repeats:
            columns.count_repeats(cells, table.skip)
        yield Launch(cut.number, row, heading, columns, cells)
