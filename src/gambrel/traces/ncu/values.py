"""Metrics of one launch as numbers in base units, with the ways to get a sum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gambrel.traces.ncu.metric_units import scale
from gambrel.traces.ncu.numbers import Locale, infer, looks_numeric, shapes
from gambrel.traces.ncu.table import Table

#: Larger values are damage: a GPU would need a billion years to count so far.
_LARGEST: Final = 1e30
_INSTANCED: Final = re.compile(r"([^()]*)\(([^()]*;[^()]*)\)")
_EMPTY: Final = frozenset({"", "no data", "n/a", "nan", "-nan", "inf", "-inf", "N/A", "(!) n/a"})
#: Mean cycles of a launch, which rates a cycle refer to; and, longer by what the slowest
#: multiprocessor took, those of the slowest.
_MEAN_CYCLES: Final = ("sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg")
_MOST_CYCLES: Final = (
    "sm__cycles_elapsed.max",
    "smsp__cycles_elapsed.max",
    "gpc__cycles_elapsed.max",
    "gpc__cycles_elapsed.avg",
)
_TIMES: Final = (
    "gpu__time_duration.sum",
    "gpu__time_duration.avg",
    "gpu__time_duration.max",
    "gpu__time_active.sum",
)
#: A clock printed with fewer digits is worse than the cycles of the slowest multiprocessor.
_EXACT_CLOCK: Final = 1e-4
#: Counter and cycles come from different replay passes: accepted error of a rate times cycles.
RATE_ERROR: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A sum, and how it was found.

    Attributes:
        value: In base units.
        how: Empty for a recorded sum.
        error: Relative error of the way.
    """

    value: float
    how: str = ""
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """Values of one launch.

    Attributes:
        values: In base units (percent as percent), by metric name.
        steps: Half a unit of the last printed digit, by metric name, where it is not a whole.
        bases: Names without suffix, so that an absent counter is found absent at once.
    """

    values: dict[str, float]
    steps: dict[str, float]
    bases: frozenset[str]

    def get(self, name: str) -> float | None:
        """A metric as recorded; an ``sm__`` name stands for its ``smsp__`` twin as well."""
        found = self.values.get(name)
        if found is None and name[:4] == "sm__":
            return self.values.get(f"smsp__{name[4:]}")
        return found

    @property
    def time_s(self) -> float | None:
        """Duration; from cycles and clock where it is not recorded."""
        for name in _TIMES:
            if name in self.values:
                return self.values[name]
        cycles, clock = self.cycles, self.clock_hz
        return cycles / clock if cycles and clock else None

    @property
    def clock_hz(self) -> float | None:
        """Mean clock of the multiprocessors while the kernel ran."""
        for unit in ("sm", "smsp", "gpc"):
            found = self.values.get(f"{unit}__cycles_elapsed.avg.per_second")
            if found:
                return found
        return None

    @property
    def cycles(self) -> float | None:
        """Elapsed cycles of the multiprocessors, the mean where the file tells it."""
        mean = next((self.values[n] for n in _MEAN_CYCLES if n in self.values), None)
        if mean is not None:
            return mean
        clock, time = self.clock_hz, self.values.get("gpu__time_duration.sum")
        product = clock * time if clock and time and time > 0 else None
        if product is not None and self._clock_error() < _EXACT_CLOCK:
            return product
        most = next((self.values[n] for n in _MOST_CYCLES if n in self.values), None)
        return product if most is None else most

    def _clock_error(self) -> float:
        for unit in ("sm", "smsp", "gpc"):
            name = f"{unit}__cycles_elapsed.avg.per_second"
            if self.values.get(name):
                return self.steps.get(name, 0.0) / self.values[name]
        return 1.0

    def total(self, base: str) -> Found | None:
        """The sum of a counter over the launch, by the most exact way that the file allows.

        Args:
            base: Metric without suffix, e.g. ``"dram__bytes"``.
        """
        if base not in self.bases:
            return None
        found = self.get(f"{base}.sum")
        if found is not None:
            return Found(value=found)
        for suffix in (".sum.per_cycle_elapsed", ".sum.per_second"):
            rate = self.get(base + suffix)
            by = self._span(suffix)
            if rate is not None and by is not None:
                error = RATE_ERROR + self._rounding(base + suffix, rate) + self._span_error(suffix)
                way = "cycles" if suffix.endswith("elapsed") else "time"
                return Found(value=rate * by, how=f"rate x {way}", error=error)
        return None

    def rate(self, base: str) -> float | None:
        """The recorded rate per second of a counter; None where there is none."""
        return self.get(f"{base}.sum.per_second") if base in self.bases else None

    def _span(self, suffix: str) -> float | None:
        if suffix == ".sum.per_second":
            return self.time_s
        return self.cycles

    def _span_error(self, suffix: str) -> float:
        """Rounding of the time or the cycles that a rate is multiplied with."""
        names = _TIMES if suffix == ".sum.per_second" else (*_MEAN_CYCLES, *_MOST_CYCLES)
        name = next((n for n in names if n in self.values), "")
        return self._rounding(name, self.values[name]) if name else 0.0

    def _rounding(self, name: str, value: float) -> float:
        step = self.steps.get(name, self.steps.get(f"smsp__{name[4:]}", 0.0))
        return step / abs(value) if value else 0.0


def to_metrics(table: Table, where: str) -> tuple[list[Metrics], Locale]:
    """Turns the cells of all launches into numbers.

    Args:
        table: As parsed.
        where: File, for errors.

    Returns:
        The values launch by launch, and the locale of the file.

    Raises:
        FileFormatError: Numbers of two locales.
    """
    kinds: dict[tuple[str, str], bool] = {}
    locale = infer((c for c in shapes(_texts(table, kinds)) if looks_numeric(c[0])), where)
    scales = {unit: scale(unit) for _, unit in kinds}
    return [_of_launch(launch.metrics, locale, scales) for launch in table.launches], locale


def _texts(table: Table, kinds: dict[tuple[str, str], bool]) -> Iterator[tuple[str, bool]]:
    """Cells with a separator in them, and whether each must be a whole number."""
    for launch in table.launches:
        for name, (text, unit) in launch.metrics.items():
            whole = kinds.get((name, unit))
            if whole is None:
                whole = kinds[name, unit] = _whole(name, unit)
            if not text.isdecimal() and text not in _EMPTY:
                yield text, whole


def _of_launch(
    cells: dict[str, tuple[str, str]], locale: Locale, scales: dict[str, float]
) -> Metrics:
    values = {}
    comma = locale.decimal == ","
    for name, (text, unit) in cells.items():
        try:
            # A plain number, or one that is plain without its group separators; anything else
            # goes the long way.
            if text.isdecimal():
                value: float | None = float(text)
            elif comma:
                value = float(text.replace(".", "").replace(",", "."))
            else:
                value = float(text.replace(",", ""))
            value *= scales[unit]  # type: ignore[operator]
        except ValueError:
            value = None
        if value is None or not 0 <= value <= _LARGEST:
            value = None if text in _EMPTY else _sane(_value((text, name, unit), locale), name)
        if value is not None:
            values[name] = value
    names = tuple(values)
    steps = {}
    for name in _rates(names):
        text, unit = cells[name]
        steps[name] = _step(text) * scale(unit)
    return Metrics(values, steps, _bases(names))


@lru_cache(maxsize=4096)
def _rates(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        name for name in names if ".per_" in name or "_elapsed." in name or "gpu__time" in name
    )


@lru_cache(maxsize=4096)
def _bases(names: tuple[str, ...]) -> frozenset[str]:
    found = {name.partition(".")[0] for name in names}
    return frozenset(found | {f"sm__{n[6:]}" for n in found if n.startswith("smsp__")})


def _whole(name: str, unit: str) -> bool:
    """Whether a value must be a whole number: a sum of events in base units."""
    events = unit in {"inst", "byte", "sector", "request", "cycle", "block", "thread", "warp", "ns"}
    return (events or unit == "nsecond") and name.endswith((".sum", "_size"))


def _value(cell: tuple[str, str, str], locale: Locale) -> float | None:
    text, name, unit = cell
    try:
        instanced = _INSTANCED.fullmatch(text) if "(" in text else None
        if instanced is None:
            return locale.parse(text) * scale(unit)
        if instanced[1].strip():
            return locale.parse(instanced[1].strip()) * scale(unit)
        parts = [locale.parse(part.strip()) for part in instanced[2].split(";")]
        return _combine(name, parts) * scale(unit)
    except (ValueError, OverflowError):
        return None  # a text, such as the name of the device


def _sane(value: float | None, name: str) -> float | None:
    """Counters are finite and never negative; what is not is unknown. A time keeps its sign."""
    if value is None or not abs(value) <= _LARGEST:
        return None
    return value if value >= 0 or name.startswith("gpu__time") else None


def _combine(name: str, parts: list[float]) -> float:
    """Instances of one metric as one value, by the roll-up that its name asks for."""
    rollups = name.split(".")[1:2]
    if rollups == ["max"]:
        return max(parts)
    if rollups == ["min"]:
        return min(parts)
    return sum(parts) / (len(parts) if rollups == ["avg"] else 1)


def _step(text: str) -> float:
    """Half a unit of the last printed digit; 0 for whole numbers."""
    mark = max(text.rfind("."), text.rfind(","))
    return 0.5 * 10.0 ** -(len(text) - mark - 1) if mark >= 0 and "e" not in text else 0.0
