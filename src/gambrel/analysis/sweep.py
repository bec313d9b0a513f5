"""Many points at once: sizes × devices × precisions of one workload, as array arithmetic.

A sweep is the same evaluation as an analysis, with an array of one number per point for every size;
where a runtime fuses ops, whose grouping depends on sizes, each combination of sizes is evaluated
by itself. A point costs a few array operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.analysis.costs import CostTable
from gambrel.analysis.evaluation import Busy, evaluate_table, hides_a_roof
from gambrel.analysis.expected import expected_seconds
from gambrel.analysis.measures import Bound
from gambrel.analysis.settings import Settings, resolved
from gambrel.analysis.sol import sol_time
from gambrel.analysis.workbench import Answer, Machine, Workbench, answered
from gambrel.device.model import Device
from gambrel.errors import InputError
from gambrel.ops import Cost
from gambrel.ops.base import Engine
from gambrel.runtimes import Kernels, Runtime
from gambrel.workload import Workload

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A table with one row per point; all columns have the same length.

    Attributes:
        model: Name of the workload.
        device: Id of the device of each point.
        precision: Number format of each point.
        runtime: Id of the runtime of each point.
        sizes: Symbol → its value at each point.
        flops: Work on the main class of engine, FLOP.
        traffic_bytes: Bytes that the runtime's kernels move.
        sol_time_s: Speed of light, s; NaN where no roof is known.
        roofline_time_s: Roofline time, s; NaN where no roof is known.
        bound: ``"compute"``, ``"memory"`` or ``"network"``; empty where unknown.
        expected_time_s: Expected time, s; NaN where unknown or not asked for.
    """

    model: str
    device: NDArray[np.str_]
    precision: NDArray[np.str_]
    runtime: NDArray[np.str_]
    sizes: dict[str, NDArray[np.int64]]
    flops: Floats
    traffic_bytes: Floats
    sol_time_s: Floats
    roofline_time_s: Floats
    bound: NDArray[np.str_]
    expected_time_s: Floats

    def __len__(self) -> int:
        return len(self.flops)

    def to_dict(self) -> dict[str, Any]:
        """Column name → values, for a data frame."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        head = {name: columns.pop(name) for name in ("device", "precision", "runtime")}
        return {**head, **self.sizes, **columns}


_COLUMNS = (
    "device",
    "precision",
    "runtime",
    "flops",
    "traffic_bytes",
    "sol_time_s",
    "roofline_time_s",
    "bound",
    "expected_time_s",
)


def sweep(
    workload: Workload,
    devices: Sequence[Device],
    precisions: Sequence[str | None],
    sizes: Mapping[str, Sequence[int]],
    settings: Settings | None = None,
    *,
    expected: bool = True,
) -> Sweep:
    """Analyzes every combination of device, precision and sizes.

    Args:
        workload: The model.
        devices: At least one.
        precisions: At least one number format; None takes each device's own.
        sizes: Symbol → values; combinations of several symbols are all taken. A symbol that is
            not named keeps its default.
        settings: Runtime, engine, conventions and the rest.
        expected: Whether to predict the expected time as well, which takes longer.

    Returns:
        ``len(devices) * len(precisions) * product(len(v) for v in sizes.values())`` points.

    Raises:
        InputError: Nothing to sweep over.
        WorkloadError: A size that the model does not take.
    """
    if not devices or not precisions:
        raise InputError("a sweep needs at least one device and one precision.")
    asked = settings or Settings()
    grid = _grid(workload, sizes)
    n = len(next(iter(grid.values()))) if grid else 1
    arrays = Workbench(workload, grid, asked.conventions)
    points = _Points(workload, grid, asked)
    blocks = []
    for device in devices:
        machine = Machine(device, asked)
        for precision in precisions:
            one = replace(asked, precision=precision, sizes=None)
            found = resolved(workload, device, one)
            runtime = found.runtime.runtime
            estimator = machine.estimator(runtime) if expected else None
            plain = runtime.kernels is Kernels.OP and not machine.roofs.off_chip_only
            if plain and (estimator is None or estimator.batched):
                table = arrays.table(found.precision, machine.plan(runtime))
                columns = _columns(table, machine, runtime, n, expected=expected)
            else:
                columns = points.columns(machine, one)
            blocks.append((device.id, found.precision, runtime.id, *columns))
    columns_of = list(zip(*blocks, strict=True))
    names = {k: np.repeat(np.array(v), n) for k, v in zip(_COLUMNS, columns_of[:3], strict=False)}
    values = {k: np.concatenate(v) for k, v in zip(_COLUMNS[3:], columns_of[3:], strict=True)}
    return Sweep(
        model=workload.name,
        sizes={k: np.tile(v.astype(np.int64), len(blocks)) for k, v in grid.items()},
        **names,
        **values,
    )


def joined(parts: Sequence[Sweep]) -> Sweep:
    """Sweeps of one model over the same symbols, one behind the other.

    Args:
        parts: At least one.
    """
    first = parts[0]
    return Sweep(
        model=first.model,
        sizes={k: np.concatenate([p.sizes[k] for p in parts]) for k in first.sizes},
        **{name: np.concatenate([getattr(p, name) for p in parts]) for name in _COLUMNS},
    )


#: FLOP, traffic, speed of light, roofline, bound, expected time: one array each.
_Columns: TypeAlias = tuple[Floats, Floats, Floats, Floats, NDArray[np.str_], Floats]


def _grid(workload: Workload, sizes: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    for name, values in sizes.items():
        for value in values:
            workload.resolve_symbols({name: value})
    axes = {s.name: list(sizes.get(s.name, [s.default])) for s in workload.symbols}
    if not axes:
        return {}
    mesh = np.meshgrid(*(np.asarray(a, dtype=float) for a in axes.values()), indexing="ij")
    return {name: m.ravel() for name, m in zip(axes, mesh, strict=True)}


def _columns(
    table: CostTable, machine: Machine, runtime: Runtime, n: int, *, expected: bool
) -> _Columns:
    held = evaluate_table(table, machine.roofs)
    estimator = machine.estimator(runtime) if expected else None
    times = expected_seconds(table, held, estimator, runtime, machine.device)
    sol = sol_time(table.sol_parts, machine.limits)
    if times is not None and sol is not None:
        times = roofline.maximum(times, sol)
    return (
        _full(_main_flops(table), n),
        _full(sum(_moved(i.cost) * i.count for i in table.items), n),
        _full(sol, n),
        _full(held.time_s, n),
        _names(held.total_busy, n, known=not hides_a_roof(table, machine.roofs)),
        _full(times, n),
    )


class _Points:
    """Points that are evaluated one by one, because the kernels depend on their sizes."""

    def __init__(self, workload: Workload, grid: Mapping[str, Floats], settings: Settings) -> None:
        rows = zip(*grid.values(), strict=True) if grid else [()]
        points = [dict(zip(grid, map(int, row), strict=True)) for row in rows]
        self._benches = [Workbench(workload, p, settings.conventions) for p in points]

    def columns(self, machine: Machine, settings: Settings) -> _Columns:
        """One array a column."""
        rows = [_row(answered(bench, machine, settings), machine) for bench in self._benches]
        flops, traffic, sol, roof, bound, expected = map(list, zip(*rows, strict=True))
        numbers = (np.array(v, dtype=float) for v in (flops, traffic, sol, roof))
        return (*numbers, np.array(bound), np.array(expected, dtype=float))  # type: ignore[return-value]


def _row(found: Answer, machine: Machine) -> tuple[float, float, float, float, str, float]:
    table, total = found.table, found.expected.total
    bound = _names(found.held.total_busy, 1, known=not hides_a_roof(table, machine.roofs))
    return (
        float(_main_flops(table)),
        float(sum(_moved(i.cost) * i.count for i in table.items)),
        _number(found.sol_time_s),
        _number(found.held.time_s),
        str(bound[0]),
        _number(None if total is None else total.value),
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _full(value: Any, n: int) -> Floats:
    return np.broadcast_to(np.asarray(_number(value) if value is None else value, float), (n,))


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


def _names(busy: Busy, n: int, *, known: bool) -> NDArray[np.str_]:
    """The resource with the largest busy time at each point; compute wins a tie."""
    if not busy or not known:
        return np.full(n, "")
    resources = sorted(busy, key=lambda key: key[1] is not Bound.COMPUTE)
    times = np.stack([np.broadcast_to(np.asarray(busy[r], float), (n,)) for r in resources])
    names: NDArray[np.str_] = np.array([bound.value for _, bound in resources])
    found: NDArray[np.str_] = names[np.argmax(times, axis=0)]
    return found
