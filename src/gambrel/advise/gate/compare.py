"""Metrics against a baseline: medians, a bootstrap over runs, and what it could have shown."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gambrel.advise.gate.records import GateBaseline, GateMetric, GateRow, GateState
from gambrel.units import format_percent

#: Change for the worse that is allowed where nothing else is said: 5 % of measured figures; what is
#: computed has no chance in it, and 0.1 % leaves room for rounding.
MEASURED: Final = 0.05
COMPUTED: Final = 0.001
#: Samples of a bootstrap, and runs that it needs at least.
_RESAMPLES: Final = 400
LEAST_RUNS: Final = 5
#: Normal quantiles of 95 % two-sided and of 80 % power: a change of so many standard errors of the
#: difference is found in four of five cases.
_DETECTABLE: Final = 1.96 + 0.84
#: By which the tolerance of measured figures grows on a machine that is busy with something else.
BUSY: Final = 2.0


def compare_to(
    baseline: GateBaseline,
    metrics: Sequence[GateMetric],
    tolerances: Mapping[str, float],
    *,
    busy: bool = False,
) -> tuple[GateRow, ...]:
    """Every metric of either side, the worst first.

    Args:
        baseline: What was recorded.
        metrics: What is now.
        tolerances: Pattern of a name (``resnet50*``) → share; the longest pattern that fits counts.
        busy: Whether something else kept the machine busy.
    """
    now = {metric.name: metric for metric in metrics}
    known = {metric.name for metric in baseline.metrics}
    rng = np.random.default_rng(0)
    rows = [
        _row(old, now.get(old.name), _tolerance(old, tolerances, busy), rng)
        for old in baseline.metrics
    ]
    rows += [_new(metric) for metric in metrics if metric.name not in known]
    order = {state: i for i, state in enumerate(GateState)}
    return tuple(sorted(rows, key=lambda r: (order[r.state], -(r.worse_share or 0.0))))


def _tolerance(metric: GateMetric, tolerances: Mapping[str, float], busy: bool) -> float:
    fitting = [p for p in tolerances if p != "default" and fnmatch.fnmatch(metric.name, p)]
    usual = tolerances.get("default", MEASURED if metric.measured else COMPUTED)
    share = tolerances[max(fitting, key=len)] if fitting else usual
    return share * BUSY if busy and metric.measured else share


def _row(
    old: GateMetric, new: GateMetric | None, tolerance: float, rng: np.random.Generator
) -> GateRow:
    base = float(np.median(old.samples))
    if new is None:
        about = "in the baseline, and not reported now"
        return GateRow(
            metric=old.name, unit=old.unit, state=GateState.VANISHED, baseline=base, value=None,
            about=about,
        )  # fmt: skip
    if not new.finite:
        about = f"{len(new.samples)} samples, not all of them numbers"
        return GateRow(
            metric=old.name, unit=old.unit, state=GateState.INVALID, baseline=base, value=None,
            about=about,
        )  # fmt: skip
    value = float(np.median(new.samples))
    sign = -1.0 if old.more_is_better else 1.0
    worse = _share(value - base, base) * sign
    low, high, detectable = _interval(old, new, worse, sign, rng)
    state, about = _state(worse, low, high, tolerance)
    if detectable is not None and detectable > tolerance > 0:
        about += f"; so few or so scattered runs show only changes above {detectable:.1%}"
    return GateRow(
        metric=old.name,
        unit=old.unit,
        state=state,
        baseline=base,
        value=value,
        worse_share=worse,
        low_share=low,
        high_share=high,
        tolerance_share=tolerance,
        detectable_share=detectable,
        about=about,
    )


def _state(worse: float, low: float, high: float, tolerance: float) -> tuple[GateState, str]:
    """Worse than allowed by the median, and surely worse at all; the same for better."""
    if worse > tolerance and low > 0:
        return (
            GateState.REGRESSION,
            f"{format_percent(worse)} worse, {format_percent(tolerance)} allowed",
        )
    if worse > tolerance:
        return GateState.UNCHANGED, "the median is worse, chance may explain it"
    if worse < -tolerance and high < 0:
        return GateState.IMPROVED, f"{format_percent(-worse)} better"
    return GateState.UNCHANGED, "within the tolerance"


def _interval(
    old: GateMetric, new: GateMetric, worse: float, sign: float, rng: np.random.Generator
) -> tuple[float, float, float | None]:
    """Ends of the 95 % interval of the change, and the smallest change that would be seen.

    What is computed has no chance in it; of a few runs nothing is known.
    """
    if min(len(old.samples), len(new.samples)) < LEAST_RUNS:
        return worse, worse, None if old.measured else 0.0
    before, after = (_medians(metric.samples, rng) for metric in (old, new))
    changes = (after - before) / np.where(before == 0, 1.0, np.abs(before)) * sign
    low, high = np.quantile(changes, [0.025, 0.975])
    return float(low), float(high), float(_DETECTABLE * np.std(changes))


def _medians(samples: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Medians of resampled runs."""
    values = np.asarray(samples, dtype=float)
    count = len(values)
    picked = np.sort(values[rng.integers(0, count, (_RESAMPLES, count))], axis=1)
    return np.asarray((picked[:, (count - 1) // 2] + picked[:, count // 2]) / 2)


def _share(change: float, base: float) -> float:
    """Relative to the baseline; a baseline of zero makes any change one of 100 %."""
    if base:
        return change / abs(base)
    return 0.0 if not change else float(np.sign(change))


def _new(metric: GateMetric) -> GateRow:
    state = GateState.NEW if metric.finite else GateState.INVALID
    return GateRow(
        metric=metric.name,
        unit=metric.unit,
        state=state,
        baseline=None,
        value=float(np.median(metric.samples)) if metric.finite else None,
        about="not in the baseline; record again to gate it" if metric.finite else "no number",
    )
