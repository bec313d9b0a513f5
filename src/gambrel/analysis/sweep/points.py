"""The figures of many points of one model on one device: array arithmetic where the formulas allow.

Where a runtime fuses ops, spans of a size are looked for in which the kernels are the same; what is
left is evaluated one combination of sizes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.analysis.costs import CostTable
from gambrel.analysis.energy import energy, energy_of_points
from gambrel.analysis.estimate.stream import StreamEstimator
from gambrel.analysis.evaluation import Busy, Evaluation, hides_a_roof
from gambrel.analysis.expected import expected_seconds
from gambrel.analysis.footprint import peak_memory
from gambrel.analysis.measures import Bound
from gambrel.analysis.scopes import one_flop, totals
from gambrel.analysis.settings import Resolved, Settings, resolved
from gambrel.analysis.sweep.record import unknown_numbers
from gambrel.analysis.workbench import (
    Machine,
    MachineTimes,
    Workbench,
    answered,
    evaluated,
    may_multiply_less,
)
from gambrel.engine.tables import PointTable, Words, joined, repeated, take
from gambrel.ops import Conventions, Cost
from gambrel.ops.base import Engine, MixedError
from gambrel.runtimes import Kernels, Runtime
from gambrel.workload import Workload

if TYPE_CHECKING:
    from gambrel.analysis.fusion.grouping import Formed
    from gambrel.analysis.fusion.spans import FormedAt, Span

Floats: TypeAlias = NDArray[np.float64]
#: Names of bounds in the order of their codes.
BOUNDS: Final = ("", *(bound.value for bound in Bound))


class SizedPoints:
    """A workload at some combinations of sizes.

    Args:
        workload: The model.
        sizes: Symbol → its value at each point, or one value for all of them.
        count: Points.
        conventions: How to count where the field disagrees.
        spans: Number format → kernels at all points, where they were formed together.
    """

    def __init__(
        self,
        workload: Workload,
        sizes: Mapping[str, Any],
        count: int,
        conventions: Conventions,
        spans: Mapping[str, Span] | None = None,
    ) -> None:
        self._spans = spans
        self._spanned: dict[tuple[str, Kernels], list[Spanned]] = {}
        self.workload = workload
        self.count = count
        self.sizes = sizes
        self._conventions = conventions
        self._memory: dict[str, Any] = {}
        self.groups: tuple[SizedPoints, SizedPoints] | None = None
        self._whole: SizedPoints | None = None
        self.order: NDArray[np.int64] = np.arange(count)

    def on(self, machine: Machine) -> SizedPoints:
        """The points for a machine; see `gambrel.analysis.workbench.Workbench.on`."""
        whole = machine.form_of(self.workload)
        if whole is self.workload:
            return self
        if self._whole is None:
            self._whole = SizedPoints(whole, self.sizes, self.count, self._conventions, self._spans)
        return self._whole

    @cached_property
    def arrays(self) -> Workbench:
        """All points at once."""
        return Workbench(self.workload, self.sizes, self._conventions, spans=self._spans)

    @cached_property
    def each(self) -> list[Workbench]:
        """Every point by itself."""
        columns = {name: np.broadcast_to(v, self.count).tolist() for name, v in self.sizes.items()}
        points = [
            {name: int(values[i]) for name, values in columns.items()} for i in range(self.count)
        ]
        return [Workbench(self.workload, point, self._conventions) for point in points]

    def divide(self, mask: NDArray[np.bool_]) -> None:
        """Takes the points where a mask holds apart from the others, for all machines."""
        self.groups = self.some(mask), self.some(~mask)
        self.order = np.argsort(np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)]))

    def some(self, where: Any, spans: Mapping[str, Span] | None = None) -> SizedPoints:
        """The points where a mask holds, or at some places."""
        sizes = {name: v[where] if np.ndim(v) else v for name, v in self.sizes.items()}
        count = len(np.arange(self.count)[where])
        return SizedPoints(self.workload, sizes, count, self._conventions, spans or self._spans)

    def spanned(self, precision: str, how: Kernels) -> list[Spanned]:
        """The points by spans of the one size that varies; those of no span come last."""
        key = precision, Kernels.EPILOGUE if how is Kernels.TILED else how
        if key not in self._spanned:
            self._spanned[key] = list(self._divided(*key))
        return self._spanned[key]

    def _divided(self, precision: str, how: Kernels) -> Iterator[Spanned]:
        from gambrel.analysis.fusion.spans import spans_of

        varies = [name for name, v in self.sizes.items() if np.ndim(v)]
        left = np.ones(self.count, dtype=bool)
        if len(varies) == 1:
            column = np.asarray(self.sizes[varies[0]])
            values = np.unique(column)
            for span in spans_of(
                varies[0], [int(v) for v in values], self._formed_at(varies[0], precision, how)
            ):
                mask = (column >= values[span.first]) & (column <= values[span.last])
                left &= ~mask
                yield Spanned(np.flatnonzero(mask), self.some(mask, {precision: span}), True)
        if left.any():
            yield Spanned(np.flatnonzero(left), self.some(left), False)

    def _formed_at(self, size: str, precision: str, how: Kernels) -> FormedAt:
        fixed = {name: int(v) for name, v in self.sizes.items() if name != size}

        @cache
        def formed(value: int) -> Formed:
            sizes = {**fixed, size: value}
            bench = Workbench(self.workload, sizes, self._conventions)
            return bench.sized(precision).grouping.formed(how)

        return formed

    @property
    def items(self) -> Any:
        """Items at once."""
        return self.sizes.get("batch", 1)

    def memory(self, chosen: Resolved, machine: Machine) -> Any:
        """Bytes that a run needs at once."""
        if chosen.runtime.runtime.workspace_on(machine.device) is not None:
            found = [bench.footprint(chosen, machine).total_bytes for bench in self.each]
            return np.array(found, dtype=float)
        if chosen.precision not in self._memory:
            evaluator = self.arrays.evaluator(chosen.precision)
            self._memory[chosen.precision] = peak_memory(
                self.arrays.form(chosen.precision), evaluator
            )
        return self._memory[chosen.precision]


class Spanned(NamedTuple):
    """Some of the points, where they stand, and whether their kernels are the same."""

    places: NDArray[np.int64]
    points: SizedPoints
    alike: bool


def figures(
    points: SizedPoints, machine: Machine, settings: Settings, *, times_only: bool = False
) -> PointTable:
    """The figures of all points on a machine.

    Args:
        points: The workload at sizes.
        machine: The device under the settings.
        settings: Precision and runtime.
        times_only: Leave out memory and energy, which a planner of steps does not ask for.

    Raises:
        UnknownNameError: No such precision or runtime.
        InputError: The device or the runtime lacks what was asked for.
    """
    chosen = resolved(points.workload, machine.device, settings)
    runtime, points = chosen.runtime.runtime, points.on(machine)
    if is_at_once(machine, runtime):
        found = _apart(points, machine, chosen, settings)
    elif has_spans(machine, runtime):
        found = _by_spans(points, machine, chosen, settings)
    else:
        found = _one_by_one(points, machine, settings)
    unknown = unknown_numbers(points.count)
    memory = unknown if times_only else points.memory(chosen, machine)
    found |= _per_item(points, machine, found["expected_time_s"], found.pop("energy_j"), memory)
    if machine.roofs.flash_bytes is not None and not times_only:
        fits = [bench.footprint(chosen, machine).fits for bench in points.each]
        found["fits"] = np.array([-1 if fit is None else fit for fit in fits], np.int8)
    return {
        "precision": repeated(chosen.precision, points.count),
        "runtime": repeated(runtime.id, points.count),
        **found,
        "refused": repeated("", points.count),
    }


def refused(count: int, settings: Settings, reason: str) -> PointTable:
    """Rows of a combination that a device or a runtime does not take."""
    unknown = unknown_numbers(count)
    numbers = dict.fromkeys(
        ("flops", "traffic_bytes", "sol_time_s", "roofline_time_s", "expected_time_s"), unknown
    )
    return {
        "precision": repeated(settings.precision or "", count),
        "runtime": repeated(settings.runtime or "", count),
        **numbers,
        "bound": Words(np.zeros(count, np.int32), BOUNDS),
        "items_per_s": unknown,
        "memory_bytes": unknown,
        "fits": np.full(count, -1, np.int8),
        "energy_per_item_j": unknown,
        "refused": repeated(reason, count),
    }


def _by_spans(
    points: SizedPoints, machine: Machine, chosen: Resolved, settings: Settings
) -> PointTable:
    """Points whose kernels are the same together, the others one by one."""
    spanned = points.spanned(chosen.precision, chosen.runtime.runtime.kernels)
    tables = [
        _apart(one.points, machine, chosen, settings)
        if one.alike
        else _one_by_one(one.points, machine, settings)
        for one in spanned
    ]
    return take(joined(tables), np.argsort(np.concatenate([one.places for one in spanned])))


def _apart(
    points: SizedPoints, machine: Machine, chosen: Resolved, settings: Settings
) -> PointTable:
    """All points at once, or in groups for which the formulas take the same forms."""
    if points.groups is None:
        try:
            return _at_once(points, machine, chosen, settings)
        except MixedError as mixed:
            points.divide(np.broadcast_to(mixed.mask, points.count))
    assert points.groups is not None  # divided now, or for an earlier machine
    both = joined([_apart(one, machine, chosen, settings) for one in points.groups])
    return take(both, points.order)


def _at_once(
    points: SizedPoints, machine: Machine, chosen: Resolved, settings: Settings
) -> PointTable:
    n, runtime = points.count, chosen.runtime.runtime
    table = points.arrays.table(chosen.precision, machine.plan(runtime))
    held, sol = evaluated(table, machine, runtime)
    language = points.arrays.language
    estimator = None if table.on_host else machine.estimator(runtime, language=language)
    run = expected_seconds(table, held, estimator, runtime, machine.device)
    expected, waits = (None, 0.0) if run is None else run
    if expected is not None and sol is not None and machine.limits.proves(table.sol_parts):
        if may_multiply_less(chosen) and np.any(expected < sol):
            return _one_by_one(points, machine, settings)  # by another algorithm: at each point
        expected = roofline.no_less(expected, sol)
    time_s = held.time_s if expected is None else expected
    joules = None if time_s is None else _energy(table, held, machine, time_s, waits)
    return {
        "flops": _full(_main_flops(table), n),
        "traffic_bytes": _full(_traffic(table), n),
        "sol_time_s": _full(sol, n),
        "roofline_time_s": _full(held.time_s, n),
        "bound": _bounds(held.total_busy, n, known=not hides_a_roof(table, machine.roofs)),
        "expected_time_s": _full(expected, n),
        "energy_j": _full(joules, n),
    }


def _one_by_one(points: SizedPoints, machine: Machine, settings: Settings) -> PointTable:
    rows = [_row(answered(bench, machine, settings), machine) for bench in points.each]
    flops, traffic, sol, roof, bound, expected, joules = map(list, zip(*rows, strict=True))
    return {
        "flops": np.array(flops, dtype=float),
        "traffic_bytes": np.array(traffic, dtype=float),
        "sol_time_s": np.array(sol, dtype=float),
        "roofline_time_s": np.array(roof, dtype=float),
        "bound": Words(np.array(bound, dtype=np.int32), BOUNDS),
        "expected_time_s": np.array(expected, dtype=float),
        "energy_j": np.array(joules, dtype=float),
    }


def _row(
    found: MachineTimes, machine: Machine
) -> tuple[float, float, float, float, int, float, float]:
    table, total = found.table, found.expected.total
    bound = _bounds(found.held.total_busy, 1, known=not hides_a_roof(table, machine.roofs))
    whole = totals(table, found.held, found.expected, machine.roofs)
    used = energy(whole, machine.device, 1)
    return (
        float(_main_flops(table)),
        float(_traffic(table)),
        _number(found.sol_time_s),
        _number(found.held.time_s),
        int(bound.codes[0]),
        _number(None if total is None else total.value),
        _number(used.energy_j),
    )


def _per_item(
    points: SizedPoints, machine: Machine, expected: Any, joules: Any, memory: Any
) -> PointTable:
    n, items = points.count, np.asarray(points.items, dtype=float)
    capacity = machine.roofs.capacity_bytes
    needed = _full(memory, n)
    fits = np.full(n, -1, np.int8)
    if capacity is not None:
        fits = np.where(np.isnan(needed), -1, needed <= capacity).astype(np.int8)
    with np.errstate(divide="ignore"):  # what takes no time has no end of a rate
        per_s = items * (1 / np.asarray(expected, dtype=float))
    return {
        "items_per_s": _full(per_s, n),
        "memory_bytes": needed,
        "fits": fits,
        "energy_per_item_j": _full(joules * (1 / items), n),
    }


def _energy(table: CostTable, held: Evaluation, machine: Machine, time_s: Any, waits_s: Any) -> Any:
    work: dict[tuple[str, str, bool], Any] = {}
    for item in table.items:
        for (engine, dtype), flops in item.cost.work.items():
            key = engine.value, dtype, item.cost.prunable
            work[key] = work.get(key, 0) + flops * item.count
    pairs = [(one_flop(*key, machine.roofs), flops) for key, flops in work.items() if np.any(flops)]
    memory = [t for (_, bound), t in held.total_busy.items() if bound is Bound.MEMORY]
    slowest: Any = memory[0] if memory else None
    for seconds in memory[1:]:
        slowest = roofline.maximum(slowest, seconds)
    return energy_of_points(pairs, _traffic(table), slowest, machine.device, time_s, waits_s)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _full(value: Any, n: int) -> Floats:
    return np.broadcast_to(np.asarray(_number(value) if value is None else value, float), (n,))


def _traffic(table: CostTable) -> Any:
    return sum(_moved(item.cost) * item.count for item in table.items)


def _moved(cost: Cost) -> Any:
    return cost.read_bytes + cost.write_bytes


def _main_flops(table: CostTable) -> Any:
    """Matrix work where there is any, else vector work."""
    sums: dict[Engine, Any] = {Engine.MATRIX: 0, Engine.VECTOR: 0}
    for item in table.items:
        for (engine, _), flops in item.cost.work.items():
            if engine in sums:
                sums[engine] = sums[engine] + flops * item.count
    return np.where(np.asarray(sums[Engine.MATRIX]) > 0, sums[Engine.MATRIX], sums[Engine.VECTOR])


def _bounds(busy: Busy, n: int, *, known: bool) -> Words:
    """The resource with the largest busy time at each point; compute wins a tie."""
    if not busy or not known:
        return Words(np.zeros(n, np.int32), BOUNDS)
    resources = sorted(busy, key=lambda key: key[1] is not Bound.COMPUTE)
    times = np.stack([np.broadcast_to(np.asarray(busy[r], float), (n,)) for r in resources])
    codes = np.array([BOUNDS.index(bound.value) for _, bound in resources], dtype=np.int32)
    return Words(codes[np.argmax(times, axis=0)], BOUNDS)


def is_at_once(machine: Machine, runtime: Runtime) -> bool:
    """Whether points under a runtime on a machine are array arithmetic."""
    if runtime.kernels is not Kernels.OP or machine.roofs.off_chip_only:
        return False
    estimator = machine.estimator(runtime)
    return estimator is None or getattr(estimator, "over_arrays", False)


def has_spans(machine: Machine, runtime: Runtime) -> bool:
    """Whether points under a runtime that fuses are array arithmetic where kernels are the same."""
    if machine.roofs.off_chip_only or isinstance(machine.estimator(runtime), StreamEstimator):
        return False
    estimator = machine.estimator(runtime)
    return getattr(estimator, "over_arrays", True)
