"""The metrics of a launch by position: names, units, and which of them any recipe reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gambrel.traces.ncu.metric_units import is_time, scale

_LABELLED: Final = re.compile(r".*\((\w+__[\w.]+)\)")
#: Metrics of raw pages that no recipe reads, a third of all columns: launch settings, samples of
#: the program counter, reasons of stalls, links.
_UNREAD: Final = (
    *("launch__", "smsp__pcsamp_", "smsp__average_warp", "group:", "breakdown:", "sass__inst"),
    *("profiler__", "nvlink", "pcie__", "pcsamp__", "numa__"),
)
#: Units of events: their sums are whole numbers.
_EVENTS: Final = frozenset(
    {"inst", "byte", "sector", "request", "cycle", "block", "thread", "warp", "ns", "nsecond"}
)
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
_DERIVED: Final = "derived__"
#: Names that scripts give the duration, in any spelling; the unit must be one of time.
_DURATIONS: Final = frozenset(
    {"time", "duration", "durationns", "kerneltime", "kernelduration", "elapsedtime", "gputime"}
)


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A metric that is read.

    Attributes:
        at: Position of its cell.
        name: Of the metric.
        factor: From the unit as written to the base unit.
        whole: Whether values must be whole numbers: a sum of events in base units.
        derived: Whether Nsight Compute derived it from counters: those are written as in the C
            locale, whatever the shell's is.
    """

    at: int
    name: str
    factor: float
    whole: bool
    derived: bool


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumns:
    """The metrics of a launch, in the order of their cells.

    Attributes:
        index: Position of the first cell of each metric.
        read: Those that a recipe may read, each once.
        repeats: Positions of a cell and of the first cell of the same metric.
        units: Units by position.
    """

    index: dict[str, int]
    read: tuple[MetricColumn, ...]
    repeats: tuple[tuple[int, int], ...]
    units: tuple[str, ...]

    def count_repeats(self, cells: Sequence[str], skip: Callable[[str], None]) -> None:
        """Tells of cells that say something else of a metric than its first cell does."""
        for again, first in self.repeats:
            text = cells[again].strip()
            same = text == cells[first].strip() and self.units[again] == self.units[first]
            if text and not same:
                skip("second values of one metric of one launch")


@lru_cache(maxsize=4096)
def columns_of(
    names: tuple[str, ...], units: tuple[str, ...], *, raw: bool = False
) -> MetricColumns:
    """The metrics behind the headings of a table, or behind the rows of a launch.

    Args:
        names: As written.
        units: As written.
        raw: Whether it is a page of all metrics: those that no recipe reads are left out. Of a few
            metrics all are read, since their numbers show the locale.
    """
    units = tuple(unit.strip() for unit in units)
    index: dict[str, int] = {}
    repeats = []
    for at, (name, unit) in enumerate(zip(names, units, strict=True)):
        first = index.setdefault(metric_name(name, unit), at)
        if first != at:
            repeats.append((at, first))
    read = tuple(
        MetricColumn(at, name, scale(units[at]), _whole(name, units[at]), name.startswith(_DERIVED))
        for name, at in index.items()
        if not (raw and name.startswith(_UNREAD))
    )
    return MetricColumns(index, read, tuple(repeats), units)


def metric_name(name: str, unit: str) -> str:
    """The metric behind a name: itself, the part in parentheses, or that of a known label."""
    name = name.strip()
    if "__" not in name:
        plain = name.lower().replace("_", "").replace(" ", "")
        if plain in _DURATIONS and is_time(unit):
            return "gpu__time_duration.sum"
        return _LABELS.get((name, unit == "%"), name)
    found = _LABELLED.fullmatch(name)
    if found:
        name = found[1]
    return name


def _whole(name: str, unit: str) -> bool:
    return unit in _EVENTS and name.endswith((".sum", "_size"))
