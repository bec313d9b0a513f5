"""The expected time of every item of a cost table, one execution, on one device or on many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from gambrel.analysis.costs import CostTable, Item
from gambrel.analysis.estimate.batches import Batch
from gambrel.analysis.estimate.estimator import Estimator, Predictor
from gambrel.analysis.estimate.shares import OpsEstimator
from gambrel.analysis.evaluation import Evaluation
from gambrel.analysis.measures import Estimate
from gambrel.ops.base import MixedError

if TYPE_CHECKING:
    from gambrel.analysis.estimate.estimates import Estimates

#: Of each item; None where nothing is known of it.
ItemTimes: TypeAlias = tuple[Estimate | None, ...]


def item_times(table: CostTable, evaluation: Evaluation, estimator: Predictor) -> ItemTimes:
    """On one device.

    Args:
        table: Of the workload under the runtime.
        evaluation: Of the table on the device.
        estimator: Of the device.
    """
    found: list[Estimate | None] = [None] * len(table.items)
    done: set[int] = set()
    for batch in table.batches if estimator.batched else ():
        for part, estimates in _batch(table, batch, evaluation, estimator):
            for i, one in zip(part.members, estimates, strict=True):
                found[i] = _launched(table.items[i], evaluation.times[i], one, estimator)
            done.update(part.members)
    for i, item in enumerate(table.items):
        if i not in done:
            alone = estimator.estimate(item.view, item.cost, evaluation.times[i])
            found[i] = _launched(item, evaluation.times[i], alone, estimator)
    return tuple(found)


def item_times_on(
    table: CostTable, evaluations: Sequence[Evaluation], estimators: Sequence[Estimator]
) -> Estimates:
    """On devices of which none was measured itself: each formula once for those alike.

    Args:
        table: Of the workload, made for many devices.
        evaluations: Of the table on each device.
        estimators: Of each device.
    """
    import numpy as np

    from gambrel.analysis.estimate.together import Together
    from gambrel.analysis.item_rows import seconds_of

    columns = table.columns
    times = np.array([seconds_of(evaluation.times) for evaluation in evaluations])
    alone = columns.moved_bytes.copy()
    alone[columns.link_bytes + columns.network_bytes > 0] = float("nan")
    launches = [item.launches for item in table.items]
    return Together(estimators, times, table.batches, alone, launches).found


def ops_times_on(
    table: CostTable, evaluations: Sequence[Evaluation], estimators: Sequence[OpsEstimator]
) -> Estimates:
    """On devices whose ops follow one another.

    Args:
        table: Of the workload, made for many devices.
        evaluations: Of the table on each device.
        estimators: Of each device.
    """
    import numpy as np

    from gambrel.analysis.estimate.ops_together import OpsTogether
    from gambrel.analysis.item_rows import seconds_of

    times = np.array([seconds_of(one.times) for one in evaluations])
    launches = [item.launches for item in table.items]
    return OpsTogether(estimators, times, table.batches, table.columns.work, launches).found


def _batch(
    table: CostTable, batch: Batch, evaluation: Evaluation, estimator: Predictor
) -> Iterator[tuple[Batch, list[Estimate | None]]]:
    """The estimates of ops that differ in numbers only; taken apart where formulas differ."""
    times = [t for i in batch.members if (t := evaluation.times[i]) is not None]
    if len(times) < len(batch.members):
        return
    try:
        yield batch, estimator.estimate_batch(batch, times)
    except MixedError as mixed:
        for half in table.batches.divide(batch, mixed.mask):
            yield from _batch(table, half, evaluation, estimator)


def _launched(
    item: Item, time_s: float | None, alone: Estimate | None, estimator: Predictor
) -> Estimate | None:
    """The estimate of an op that is one launch, with those that it pays in its kernel."""
    if alone is None or item.launches == 1 or estimator.in_sequence(item.view):
        return alone
    floor = time_s or 0.0
    change = alone.launches_s * (item.launches - 1)
    low = high = change
    if isinstance(estimator, OpsEstimator) and alone.value:  # its range is of all, launches too
        low, high = (change * end / alone.value for end in (alone.low, alone.high))
    return replace(
        alone,
        value=max(floor, alone.value + change),
        low=max(min(floor, alone.low), alone.low + low),
        high=max(floor, alone.high + high),
        launches_s=alone.launches_s * item.launches,
    )
