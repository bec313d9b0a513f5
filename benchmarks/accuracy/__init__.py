"""How far expected times are from measured ones, on models and devices that were not fitted.

    python -m benchmarks.accuracy FOLDER [NAME ...]

FOLDER holds the collected tables (``truth/`` and ``measured/``). Each module of this package scores
one class of runs: it has ``score(folder) -> Iterable[Score]``. Each run writes its table to
``results/`` and its lines to ``results/accuracy.json``, from which docs/accuracy.md is made: a
summary by `Score.family` and way of holding out, over all modules that ran, each with its date.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gambrel.analysis.result import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run beside what gambrel says of it, all in seconds.

    Attributes:
        name: Of the row.
        measured: Time as published.
        expected: Expected time by constants that saw neither this model nor this shape.
        low: Lower end of its range.
        high: Upper end.
        roofline: Roofline time; None where it was not asked.
        sol: Speed of light; None where it was not asked.
        proven: Whether the speed of light rests on published clocks and rates; otherwise it is
            the best rate known, which a run may pass.
    """

    name: str
    measured: float
    expected: float | None
    low: float | None = None
    high: float | None = None
    roofline: float | None = None
    sol: float | None = None
    proven: bool = True

    @classmethod
    def of(cls, name: str, measured: float, found: Analysis) -> Run:
        """A row beside the answer to its question, in constants as they are shipped."""
        expected = found.expected_time_s
        return cls(
            name=name,
            measured=measured,
            expected=expected and expected.value,
            low=expected and expected.low,
            high=expected and expected.high,
            roofline=found.roofline_time_s,
            sol=found.sol_time_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The errors of one class of runs.

    Attributes:
        what: Runtime, device and class of op or model.
        runs: The rows.
        held_out: How the constants were kept from the rows, e.g. ``leave one model out``.
        target: Aim, as text.
        family: Line of the summary that it belongs to; its own where empty.
    """

    what: str
    runs: Sequence[Run]
    held_out: str
    target: str = ""
    family: str = ""

    def errors(self, end: str = "expected") -> list[float]:
        """Absolute relative errors of one of the times."""
        pairs = ((getattr(r, end), r.measured) for r in self.runs)
        return [abs(t / m - 1) for t, m in pairs if t is not None]

    def mean(self, end: str = "expected") -> float | None:
        """Mean absolute error, 1."""
        errors = self.errors(end)
        return statistics.fmean(errors) if errors else None

    def median(self, end: str = "expected") -> float | None:
        """Median absolute error, 1."""
        errors = self.errors(end)
        return statistics.median(errors) if errors else None

    @property
    def inside(self) -> float | None:
        """Share of the rows inside their range."""
        found = [
            r.low <= r.measured <= r.high
            for r in self.runs
            if r.low is not None and r.high is not None
        ]
        return sum(found) / len(found) if found else None

    @property
    def below_sol(self) -> int:
        """Rows that are faster than a speed of light that proves something."""
        return sum(r.sol is not None and r.proven and r.measured < r.sol for r in self.runs)
