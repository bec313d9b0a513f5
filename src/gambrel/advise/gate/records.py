"""What a gate holds: metrics with their samples, baselines, and the comparison of two of them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

import msgspec

from gambrel.views import Viewed

#: Of a baseline file.
TYPE: Final = "gambrel/baseline"
SCHEMA_VERSION: Final = 1
#: Ends of names of which more is better; of everything else less is.
_MORE: Final = ("_per_s", "score", "efficiency", "mfu", "utilization", "throughput", "coverage")


class GateMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, once for each run.

    Attributes:
        name: Unique; its last part says what it is, e.g. ``resnet50 a100 b8 expected_time_s``.
        samples: SI base units; one where a run has no chance in it.
        unit: Of the samples.
        measured: Whether it belongs to the machine that it was measured on.
        source: Where it comes from.
        machine: What it was measured on, where its source says so.
    """

    name: str
    samples: tuple[float, ...]
    unit: str = ""
    measured: bool = False
    source: str = ""
    machine: str = ""

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is an improvement."""
        return self.name.endswith(_MORE) or self.unit.endswith("/s")

    @property
    def finite(self) -> bool:
        """Whether it has samples and all of them are numbers."""
        return bool(self.samples) and all(map(math.isfinite, self.samples))


class GateBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of one time and machine.

    Attributes:
        metrics: By name, each once.
        machine: Where those come from whose sources do not say; empty without any.
        gambrel_version: That recorded it.
        recorded: When, ISO 8601.
        note: Commit or whatever the user says.
    """

    metrics: tuple[GateMetric, ...]
    machine: str = ""
    gambrel_version: str = ""
    recorded: str = ""
    note: str = ""
    type: str = TYPE
    schema_version: int = SCHEMA_VERSION


class GateState(StrEnum):
    """What became of a metric."""

    REGRESSION = "regression"
    VANISHED = "vanished"
    INVALID = "invalid"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    NEW = "new"

    @property
    def fails(self) -> bool:
        """Whether the gate stays shut."""
        return self in (GateState.REGRESSION, GateState.VANISHED, GateState.INVALID)


class GateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric against its baseline.

    Attributes:
        metric: Its name.
        unit: Of both values.
        state: What became of it.
        baseline: Median of the baseline; None where it is new.
        value: Median now; None where it vanished.
        worse_share: By which share it got worse (negative: better); None where unknown.
        low_share: Lower end of the 95 % interval of that share.
        high_share: Upper end.
        tolerance_share: Change for the worse that is allowed.
        detectable_share: Smallest change that so many runs of such spread would show, with 80 %
            power at 5 %; 0 for figures without chance, None where there are too few runs.
        about: Why, in a sentence.
    """

    metric: str
    unit: str
    state: GateState
    baseline: float | None
    value: float | None
    worse_share: float | None = None
    low_share: float | None = None
    high_share: float | None = None
    tolerance_share: float | None = None
    detectable_share: float | None = None
    about: str = ""


class GateReport(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """All metrics against a baseline.

    Attributes:
        baseline_file: Its path.
        rows: The worst first.
        notes: About machines, load and tolerances.
    """

    baseline_file: str
    rows: tuple[GateRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing got worse."""
        return not any(row.state.fails for row in self.rows)


class GateRecorded(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A baseline that was written.

    Attributes:
        path: Where.
        baseline: What is in it.
    """

    path: str
    baseline: GateBaseline


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One metric at one time.

    Attributes:
        recorded: When, ISO 8601.
        note: Commit or whatever the user says.
        metric: Name.
        unit: Of the value.
        sample: Median.
    """

    recorded: str
    note: str
    metric: str
    unit: str
    sample: float


class Trend(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A history of metrics.

    Attributes:
        file: Where it is kept.
        points: In the order of recording.
    """

    file: str
    points: tuple[TrendPoint, ...]
