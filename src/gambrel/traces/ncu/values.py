"""Metrics of one launch as numbers in base units, with the ways to get a sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from gambrel.traces.ncu.launch import Launch
from gambrel.traces.ncu.metric_units import scale

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
_CLOCKS: Final = tuple(f"{unit}__cycles_elapsed.avg.per_second" for unit in ("sm", "smsp", "gpc"))


class MetricSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A sum, and how it was found.

    Attributes:
        value: In base units.
        how: Empty for a recorded sum.
        error: Relative error of the way.
    """

    value: float
    how: str = ""
    error: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class MetricSchema:
    """What follows from the names of a launch's metrics, worked out once for all that have them.

    Attributes:
        names: As recorded.
        bases: Names without suffix, so that an absent counter is found absent at once.
        sums: Name of the recorded sum by base; an ``smsp__`` counter stands for its ``sm__`` twin.
        time: Name of the duration; empty where it is not recorded.
        clocks: Names of the clock of the multiprocessors, best first.
    """

    names: tuple[str, ...]
    bases: frozenset[str]
    sums: dict[str, str]
    time: str
    clocks: tuple[str, ...]


@lru_cache(maxsize=4096)
def shape_of(names: tuple[str, ...]) -> MetricSchema:
    """The shape of launches with these metrics."""
    bases = {name.partition(".")[0] for name in names}
    sums = {name[:-4]: name for name in names if name.endswith(".sum")}
    for base, name in list(sums.items()):
        if base.startswith("smsp__"):
            sums.setdefault(f"sm__{base[6:]}", name)
    return MetricSchema(
        names=names,
        bases=frozenset(bases | {f"sm__{n[6:]}" for n in bases if n.startswith("smsp__")}),
        sums=sums,
        time=next((n for n in _TIMES if n in names), ""),
        clocks=tuple(n for n in _CLOCKS if n in names),
    )


@dataclass(slots=True, eq=False)
class Metrics:
    """Values of one launch.

    Attributes:
        values: In base units (percent as percent), by metric name.
        shape: Of their names.
        launch: As written.
    """

    values: dict[str, float]
    shape: MetricSchema
    launch: Launch

    @property
    def bases(self) -> frozenset[str]:
        """Names without suffix."""
        return self.shape.bases

    def get(self, name: str) -> float | None:
        """A metric as recorded; an ``sm__`` name stands for its ``smsp__`` twin as well."""
        found = self.values.get(name)
        if found is None and name[:4] == "sm__":
            return self.values.get(f"smsp__{name[4:]}")
        return found

    @property
    def time_s(self) -> float | None:
        """Duration; from cycles and clock where it is not recorded."""
        if self.shape.time:
            return self.values[self.shape.time]
        cycles, clock = self.cycles, self.clock_hz
        return cycles / clock if cycles and clock else None

    @property
    def clock_hz(self) -> float | None:
        """Mean clock of the multiprocessors while the kernel ran."""
        for name in self.shape.clocks:
            found = self.values.get(name)
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
        for name in _CLOCKS:
            if self.values.get(name):
                return self._step(name) / self.values[name]
        return 1.0

    def total(self, base: str) -> MetricSum | None:
        """The sum of a counter over the launch, by the most exact way that the file allows.

        Args:
            base: Metric without suffix, e.g. ``"dram__bytes"``.
        """
        recorded = self.shape.sums.get(base)
        if recorded is not None:
            return MetricSum(value=self.values[recorded])
        if base not in self.shape.bases:
            return None
        for suffix in (".sum.per_cycle_elapsed", ".sum.per_second"):
            rate = self.get(base + suffix)
            by = self._span(suffix)
            if rate is not None and by is not None:
                error = RATE_ERROR + self._rounding(base + suffix, rate) + self._span_error(suffix)
                way = "cycles" if suffix.endswith("elapsed") else "time"
                return MetricSum(value=rate * by, how=f"rate x {way}", error=error)
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
        if name not in self.values:
            name = f"smsp__{name[4:]}"
        return self._step(name) / abs(value) if value else 0.0

    def _step(self, name: str) -> float:
        """Half a unit of the last printed digit; 0 where it is a whole or is not printed."""
        at = self.launch.columns.index.get(name)
        if at is None:
            return 0.0
        return _half(self.launch.cells[at].strip()) * scale(self.launch.columns.units[at])


def _half(text: str) -> float:
    """Half a unit of the last printed digit; 0 for whole numbers."""
    mark = max(text.rfind("."), text.rfind(","))
    return 0.5 * 10.0 ** -(len(text) - mark - 1) if mark >= 0 and "e" not in text else 0.0
