"""Expected times of one cost table on many devices: the run alone, without its items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gambrel.analysis.costs import CostTable
from gambrel.analysis.estimate.engine import EngineEstimator
from gambrel.analysis.estimate.estimator import Estimator, Predictor
from gambrel.analysis.estimate.shares import OpsEstimator
from gambrel.analysis.evaluation import Evaluation
from gambrel.analysis.expected import (
    LIMITERS,
    Expected,
    Forecaster,
    Waits,
    at_the_roofline,
    does_nothing,
    expected_times,
    fitting,
    host_on,
    limiter_of_run,
    most_of,
    waited,
    with_host,
)
from gambrel.analysis.item_times import item_times_on, ops_times_on
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.device.model import Device
from gambrel.runtimes import Runtime

if TYPE_CHECKING:
    from gambrel.analysis.estimate.estimates import Estimates, Floats

#: Where nothing is known of the run.
_UNKNOWN: Final = Expected(items=(), total=None, limited_by=None)


def expected_times_on(
    table: CostTable,
    evaluations: Sequence[Evaluation],
    estimators: Sequence[Forecaster | None],
    runtimes: Sequence[Runtime],
    devices: Sequence[Device],
) -> list[Expected]:
    """As `expected_times`, on many devices at once.

    Args:
        table: Of the workload; made for many devices, it is predicted on those alike together.
        evaluations: Of the table on each device.
        estimators: Of each.
        runtimes: That runs it on each.
        devices: The machines.
    """
    chosen = [fitting(table, estimator) for estimator in estimators]
    together = _Together(table, evaluations, runtimes, devices)
    found = dict(together.found(chosen)) if table.bulk else {}
    rows = zip(evaluations, chosen, runtimes, devices, strict=True)
    return [found[d] if d in found else expected_times(table, *row) for d, row in enumerate(rows)]


class _Together:
    """Devices whose estimators do the same arithmetic."""

    def __init__(
        self,
        table: CostTable,
        evaluations: Sequence[Evaluation],
        runtimes: Sequence[Runtime],
        devices: Sequence[Device],
    ) -> None:
        self._table, self._evaluations = table, evaluations
        self._runtimes, self._devices = runtimes, devices

    def found(self, estimators: Sequence[Forecaster | None]) -> Iterator[tuple[int, Expected]]:
        """Places of devices, with what is expected there."""
        kernels: dict[int, Estimator] = {}
        ops: dict[int, OpsEstimator] = {}
        engines: dict[int, dict[int, EngineEstimator]] = defaultdict(dict)
        for d, one in enumerate(estimators):
            if isinstance(one, Estimator):
                kernels |= {d: one} if one.batched else {}
            elif isinstance(one, OpsEstimator):
                ops[d] = one
            elif isinstance(one, EngineEstimator):
                engines[id(one.constants)][d] = one
        yield from self._kernels(kernels)
        yield from self._ops(ops)
        for group in engines.values():
            yield from self._engines(group)

    def _kernels(self, estimators: dict[int, Estimator]) -> Iterator[tuple[int, Expected]]:
        if estimators:
            items = item_times_on(self._table, self._of(estimators), list(estimators.values()))
            waits = self._waits(items, estimators)
            for row, (d, one) in enumerate(estimators.items()):
                yield d, self._of_row(items, row, d, one, waits.get(d))

    def _ops(self, estimators: dict[int, OpsEstimator]) -> Iterator[tuple[int, Expected]]:
        if estimators:
            items = ops_times_on(self._table, self._of(estimators), list(estimators.values()))
            idle = [does_nothing(item.cost) for item in self._table.items]
            waits = self._waits(items, estimators)
            for row, (d, one) in enumerate(estimators.items()):
                whole = (items.known[row] | idle).all()
                yield d, self._of_ops(items, row, d, one, waits.get(d)) if whole else _UNKNOWN

    def _engines(self, estimators: dict[int, EngineEstimator]) -> Iterator[tuple[int, Expected]]:
        runs = EngineEstimator.runs(list(estimators.values()), self._table)
        for d, (total, most) in zip(estimators, runs, strict=True):
            expected = Expected(items=(), total=total, limited_by=most)
            yield d, at_the_roofline(expected, self._table, self._evaluations[d])

    def _of(self, places: Iterable[int]) -> list[Evaluation]:
        return [self._evaluations[d] for d in places]

    def _of_row(
        self, items: Estimates, row: int, d: int, estimator: Estimator, waits: Waits | None
    ) -> Expected:
        """The run, from kernels."""
        whole = items.total(row, self._table.columns.counts)
        if whole is None:
            return _UNKNOWN
        whole = self._hosted(whole, waits, d, estimator)
        spent = items.without_launches(row)
        most = _limiter_on(self._table, self._evaluations[d], spent, whole)
        return Expected(items=(), total=whole, limited_by=most)

    def _of_ops(
        self, items: Estimates, row: int, d: int, estimator: OpsEstimator, waits: Waits | None
    ) -> Expected:
        """The run, from ops one after another."""
        table = self._table
        whole = items.total(row, table.columns.counts)
        if whole is None:
            return _UNKNOWN
        whole = self._hosted(estimator.of_run(whole), waits, d, estimator)
        spent, limiter = items.without_launches(row), estimator.limiter
        if limiter is None:
            most = _limiter_on(table, self._evaluations[d], spent, whole)
            return Expected(items=(), total=whole, limited_by=most)
        limiters = [limiter(item.view, item.cost) for item in table.items]
        known = [None if s != s else s for s in spent.tolist()]
        return Expected(items=(), total=whole, limited_by=most_of(limiters, known, table, whole))

    def _hosted(
        self, whole: Estimate, waits: Waits | None, d: int, estimator: Predictor
    ) -> Estimate:
        """With the time that the device waits for the host."""
        runtime, device = self._runtimes[d], self._devices[d]
        host = None if waits is None else host_on(runtime, device, estimator)
        return with_host(whole, waits, runtime, device, host)

    def _waits(self, items: Estimates, estimators: Mapping[int, Predictor]) -> dict[int, Waits]:
        """How long the devices wait that have a host, all at once: a row for each of them."""
        import numpy as np

        hosts = {
            row: (d, host)
            for row, (d, one) in enumerate(estimators.items())
            if (host := host_on(self._runtimes[d], self._devices[d], one)) is not None
        }
        if not hosts:
            return {}
        rows = list(hosts)
        known = items.known[rows].T
        bounds = np.nan_to_num(items.bounds[rows].T)
        latencies = list(np.where(known, items.idle_start_s[rows].T, 0.0))
        ends = []
        for numbers, name in (
            (items.value, "per_launch_s"),
            (items.low, "low_s"),
            (items.high, "high_s"),
        ):
            seconds = list(np.where(known, numbers[rows].T, bounds))
            per_launch_s = np.array([getattr(host, name) for _, host in hosts.values()])
            spent = waited(self._table, seconds, latencies, per_launch_s)
            ends.append(np.broadcast_to(np.asarray(spent), len(rows)).tolist())
        return {
            d: each for (d, _), each in zip(hosts.values(), zip(*ends, strict=True), strict=True)
        }


def _limiter_on(
    table: CostTable, evaluation: Evaluation, spent: Floats, whole: Estimate
) -> Limiter | None:
    """As `limiter_of_run`, of a row of arrays; ``spent``: not a number where it is not known."""
    import numpy as np

    from gambrel.analysis.item_rows import LimitsRow, seconds_of

    limits = evaluation.limits
    if not isinstance(limits, LimitsRow):
        known = [None if s != s else s for s in spent.tolist()]
        return limiter_of_run(table, evaluation, known, whole)
    kinds = [LIMITERS[bound] for _, bound in limits.resources]
    places = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
    codes = np.array([places[kind] for kind in kinds])[limits.codes]
    times = seconds_of(evaluation.times)
    own = np.where(np.isnan(spent), times, spent) * table.columns.counts
    limited = limits.codes >= 0
    sums = np.bincount(codes[limited], own[limited], len(places)).tolist()
    shares = {Limiter.HOST: whole.host_s, Limiter.LAUNCHES: whole.launches_s}
    named = list(places)
    # Of equals the first one counts, as of items one by one.
    shares |= {named[code]: sums[code] for code in dict.fromkeys(codes[limited].tolist())}
    return max(shares, key=lambda name: shares[name]) if any(shares.values()) else None
