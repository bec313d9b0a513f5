"""Models on devices in precisions and batches, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from gambrel.advise.figures import Facts, Figure, cautions, figure
from gambrel.advise.fleet import Fleet, Point
from gambrel.advise.limits import METRICS
from gambrel.advise.subjects import Subject, prepare, refuse_empty
from gambrel.analysis.measures import Bound
from gambrel.collector import without_collector
from gambrel.device.model import Device
from gambrel.errors import InputError, UnknownNameError
from gambrel.views import Viewed


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one device in one precision at one batch.

    Attributes:
        model: Name of the model.
        hardware: Id of the device.
        precision: Number format.
        precision_reason: Why that one.
        sizes: Symbol → value.
        runtime: Id of the runtime.
        runtime_reason: Why that one.
        bound: The roofline's verdict; None when unknown.
        sol_time_s: Speed of light of the batch; None when unknown.
        roofline_time_s: Roofline of the batch under the runtime; None when unknown.
        fits: Whether it fits into the device; None when unknown.
        pareto: Whether no other row is better in one of the metrics and as good in all others.
        figures: Metric → figure.
        cautions: What a reader must know of the kernels behind the expected time.
    """

    model: str
    hardware: str
    precision: str
    precision_reason: str
    sizes: dict[str, int]
    runtime: str
    runtime_reason: str
    bound: Bound | None
    sol_time_s: float | None
    roofline_time_s: float | None
    fits: bool | None
    pareto: bool
    figures: dict[str, Figure]
    cautions: tuple[str, ...] = ()


class Comparison(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Rows, best first.

    Attributes:
        metrics: What was compared, the first decides the order.
        rows: Best first; unknown figures after known ones, what does not fit last.
        notes: Choices made for the user.
    """

    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What to compare.

    Attributes:
        subjects: Models, each at a batch.
        devices: At least one.
        precisions: None stands for each device's own.
        prices: Device id → price.
    """

    subjects: Sequence[Subject]
    devices: Sequence[Device]
    precisions: Sequence[str | None] = (None,)
    prices: Mapping[str, float] = field(default_factory=dict)


@without_collector()
def compare(over: Grid, metrics: Sequence[str], notes: Sequence[str] = ()) -> Comparison:
    """Every model on every device, best first by the first metric.

    A row each for runtimes that were asked for; else one under the runtime that is the best there.

    Args:
        over: What to compare.
        metrics: Keys of `METRICS`.
        notes: To carry along.

    Raises:
        InputError: Nothing to compare.
        UnknownNameError: No such metric.
    """
    check_metrics(metrics)
    refuse_empty(over.subjects, over.devices)
    rows = []
    for subject in over.subjects:
        tried = [
            subject.contenders(device, precision, over.prices.get(device.id))
            for device in over.devices
            for precision in over.precisions
        ]
        prepare(chain.from_iterable(tried))
        for each in tried:
            found = [row_of(subject.fleet(), one.device, one.point()) for one in each]
            best = min(found, key=lambda row: rank(row, metrics[0]))
            rows += found if subject.runtimes else [best]
    ordered = sorted(mark_pareto(rows, metrics), key=lambda row: rank(row, metrics[0]))
    shown = (*notes, *all_cautions(ordered))
    return Comparison(metrics=tuple(metrics), rows=tuple(ordered), notes=shown)


def check_metrics(metrics: Sequence[str]) -> None:
    """Raises UnknownNameError for a metric that does not exist, InputError for none."""
    if not metrics:
        raise InputError(f"name at least one metric: {', '.join(METRICS)}.")
    for name in metrics:
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)


def row_of(fleet: Fleet, device: Device, point: Point) -> Row:
    """A point with all its figures."""
    return Row(
        model=fleet.name,
        hardware=device.id,
        runtime=point.runtime,
        runtime_reason=point.runtime_reason,
        precision=point.precision,
        precision_reason=point.precision_reason,
        sizes=fleet.sizes,
        bound=point.bound,
        sol_time_s=point.facts.sol_s,
        roofline_time_s=point.facts.roofline_s,
        fits=point.fits,
        pareto=False,
        figures=all_figures(point.facts),
        cautions=cautions(point.facts.expected),
    )


def all_cautions(rows: Iterable[Row]) -> tuple[str, ...]:
    """What a reader must know of the kernels behind rows, each once."""
    return tuple(dict.fromkeys(text for row in rows for text in row.cautions))


def all_figures(facts: Facts) -> dict[str, Figure]:
    """Every metric."""
    return {name: figure(facts, name) for name in METRICS}


def rank(row: Row, metric: str) -> tuple[bool, int, float, str, str, tuple[int, ...]]:
    """Sorts best first: what fits, what is known, what is only bounded, what is unknown."""
    known, value = standing(row.figures[metric])
    tail = (row.model, row.hardware, tuple(row.sizes.values()))
    return (row.fits is False, known, value, *tail)


def standing(found: Figure) -> tuple[int, float]:
    """How well a figure is known (0 expected, 1 a limit on it, 2 not), and a cost to sort by."""
    known, value = (0, found.counted) if found.value is not None else (1, found.worst)
    if value is None:
        return 2, 0.0
    return known, -value if METRICS[found.metric].more_is_better else value


def mark_pareto(rows: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """Marks the rows that no other row beats; a row with an unknown figure is never marked."""
    import numpy as np

    from gambrel.engine.pareto import nondominated

    costs = [_costs(row, metrics) for row in rows]
    known = [i for i, own in enumerate(costs) if own is not None]
    places = nondominated(np.array([costs[i] for i in known], dtype=float)) if known else ()
    front = {known[place] for place in places}
    return [
        msgspec.structs.replace(row, pareto=True) if i in front else row
        for i, row in enumerate(rows)
    ]


def _costs(row: Row, metrics: Sequence[str]) -> tuple[float, ...] | None:
    found = [standing(row.figures[m]) for m in metrics]
    if row.fits is False or any(known == 2 for known, _ in found):
        return None
    return tuple(cost for _, cost in found)
