"""A launch as exported: the cells that describe it, and those of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from gambrel.traces.ncu.columns import MetricColumns

#: Columns that describe a launch; every other column of the wide layout is a metric.
_LAUNCH: Final = frozenset(
    {"ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context"}
    | {"Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Device Name"}
    | {"Invocations"}
)
#: Columns of NVTX ranges (--nvtx) are named by their fields: ``Id:Domain:Push/Pop_Range:...``.
_RANGES: Final = ("Push/Pop_Range", "Start/Stop_Range", "Push_Pop_Range", "NVTX")
#: Where a launch ran.
_OWNERS: Final = ("Host Name", "Process ID", "Device")


class Heading:
    """The columns of a table that describe a launch.

    Attributes:
        at: Position by heading.
        ranges: Those of NVTX ranges.
        owner: Takes host, process and device of a row, as far as there are columns of them.
    """

    def __init__(self, header: Sequence[str]) -> None:
        """Finds the columns.

        Args:
            header: All headings of the table.
        """
        self.at = {n: i for i, n in enumerate(header) if of_launch(n)}
        self.ranges = tuple(n for n in self.at if _is_range(n))
        self._owners = [n for n in _OWNERS if n in self.at]
        self.owner = picker([self.at[n] for n in self._owners])

    def owned(self, owner: Sequence[str]) -> str:
        """What `owner` takes, for reading."""
        found = dict(zip(self._owners, owner, strict=True))
        host, process = found.get("Host Name", ""), found.get("Process ID", "")
        return f"process {process} on {host}, device {found.get('Device') or '?'}"


@dataclass(slots=True, eq=False)
class Launch:
    """One kernel launch as exported.

    Attributes:
        line: Where it starts, 1-based.
        row: Cells of its row, or of its first row.
        heading: The columns that describe it.
        columns: The metrics, by position in `cells`.
        cells: Values as written.
    """

    line: int
    row: Sequence[str]
    heading: Heading
    columns: MetricColumns
    cells: Sequence[str]

    def text(self, column: str) -> str:
        """A cell of the launch's own columns; empty without that column."""
        at = self.heading.at.get(column)
        return "" if at is None else self.row[at]

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.text("Kernel Name") or "(no name)"

    @property
    def group(self) -> str:
        """The innermost NVTX range that the export names; empty without one."""
        for column in self.heading.ranges:
            text = self.text(column)
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


def picker(positions: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """Takes the cells at these positions."""
    if not positions:
        return lambda _: ()
    if positions == list(range(positions[0], positions[-1] + 1)):
        return itemgetter(slice(positions[0], positions[-1] + 1))
    if len(positions) == 1:
        return lambda row: (row[positions[0]],)
    return itemgetter(*positions)


def of_launch(column: str) -> bool:
    """Whether a column describes the launch; every other one is a metric."""
    return column in _LAUNCH or _is_range(column)


def _is_range(column: str) -> bool:
    return any(mark in column for mark in _RANGES)
