"""Many points at once: sizes × devices × precisions of one workload, as array arithmetic.

Each distinct op is evaluated once over all sizes; a point then costs a few array operations. The
totals equal those of `analyze` at the same point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel import roofline
from gambrel.analysis.bounding import Roofs, roofs_of
from gambrel.analysis.estimate import Calibration, Estimator
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.measures import Bound
from gambrel.analysis.precision import casts_of
from gambrel.device.model import Device
from gambrel.device.roofs import NETWORK
from gambrel.dtypes import parse_dtype
from gambrel.errors import InputError
from gambrel.ops import Conventions, Cost, OpView, cost, is_free
from gambrel.workload import Op, Workload

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A table with one row per point; all columns have the same length.

    Attributes:
        model: Name of the workload.
        device: Id of the device of each point.
        precision: Number format of each point.
        sizes: Symbol → its value at each point.
        flops: Work on the main class of engine, FLOP.
        traffic_bytes: Eager traffic, byte.
        roofline_time_s: Bound, s; NaN where no roof is known.
        bound: ``"compute"``, ``"memory"`` or ``"network"``; empty where unknown.
        expected_time_s: Expected time, s; NaN where unknown or not asked for.
    """

    model: str
    device: NDArray[np.str_]
    precision: NDArray[np.str_]
    sizes: dict[str, NDArray[np.int64]]
    flops: Floats
    traffic_bytes: Floats
    roofline_time_s: Floats
    bound: NDArray[np.str_]
    expected_time_s: Floats

    def __len__(self) -> int:
        return len(self.flops)

    def to_dict(self) -> dict[str, Any]:
        """Column name → values, for a data frame."""
        return {
            "device": self.device,
            "precision": self.precision,
            **self.sizes,
            "flops": self.flops,
            "traffic_bytes": self.traffic_bytes,
            "roofline_time_s": self.roofline_time_s,
            "bound": self.bound,
            "expected_time_s": self.expected_time_s,
        }


def sweep(
    workload: Workload,
    devices: Sequence[Device],
    precisions: Sequence[str],
    sizes: Mapping[str, Sequence[int]],
    conventions: Conventions | None = None,
    expected: bool = True,
    calibration: Calibration | None = None,
    framework: str = "any",
) -> Sweep:
    """Analyzes every combination of device, precision and sizes.

    Args:
        workload: The model.
        devices: At least one.
        precisions: At least one number format.
        sizes: Symbol → values; combinations of several symbols are all taken. A symbol that is
            not named keeps its default.
        conventions: How to count.
        expected: Whether to predict the expected time as well, which takes longer than the bound.
        calibration: Constants of the expected time; None for those that come with gambrel.
        framework: Whose kernels the expected time describes.

    Returns:
        ``len(devices) * len(precisions) * product(len(v) for v in sizes.values())`` points.

    Raises:
        InputError: Nothing to sweep over.
        WorkloadError: A size that the model does not take.
    """
    if not devices or not precisions:
        raise InputError("a sweep needs at least one device and one precision.")
    grid = _grid(workload, sizes)
    n = len(next(iter(grid.values()))) if grid else 1
    blocks = []
    for precision in (p if p == workload.precisions else parse_dtype(p) for p in precisions):
        demand = _demand(workload, precision, grid, n, conventions or Conventions())
        for device in devices:
            roofs = roofs_of(device)
            if roofs.off_chip_only:
                raise InputError(
                    f"{device.id} lives off its host link; sweep devices with a memory roof, "
                    "or analyze it point by point."
                )
            estimator = Estimator(roofs, calibration, framework) if expected else None
            blocks.append((device.id, precision, *_bound(demand, roofs, n, estimator)))
    return Sweep(
        model=workload.name,
        device=np.repeat(np.array([b[0] for b in blocks]), n),
        precision=np.repeat(np.array([b[1] for b in blocks]), n),
        sizes={k: np.tile(v.astype(np.int64), len(blocks)) for k, v in grid.items()},
        flops=np.concatenate([b[2] for b in blocks]),
        traffic_bytes=np.concatenate([b[3] for b in blocks]),
        roofline_time_s=np.concatenate([b[4] for b in blocks]),
        bound=np.concatenate([b[5] for b in blocks]),
        expected_time_s=np.concatenate([b[6] for b in blocks]),
    )


def joined(parts: Sequence[Sweep]) -> Sweep:
    """Sweeps of one model over the same symbols, one behind the other.

    Args:
        parts: At least one.
    """
    first = parts[0]
    columns = ("device", "precision", "flops", "traffic_bytes", "roofline_time_s", "bound")
    return Sweep(
        model=first.model,
        sizes={k: np.concatenate([p.sizes[k] for p in parts]) for k in first.sizes},
        expected_time_s=np.concatenate([p.expected_time_s for p in parts]),
        **{name: np.concatenate([getattr(p, name) for p in parts]) for name in columns},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """What the distinct ops ask for over n points; arrays of shape (ops, n).

    Attributes:
        ops: The distinct ops with their costs.
        times: How often each distinct op occurs, shape (ops, 1).
        work: (class of work, number format) → FLOP.
        traffic: Bytes.
        link: Bytes over the link.
        network: Bytes over the network between nodes.
    """

    ops: list[tuple[OpView, Cost]]
    times: Floats
    work: dict[tuple[str, str], Floats]
    traffic: Floats
    link: Floats
    network: Floats


def _grid(workload: Workload, sizes: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    for name, values in sizes.items():
        for value in values:
            workload.resolve_symbols({name: value})
    axes = {s.name: list(sizes.get(s.name, [s.default])) for s in workload.symbols}
    if not axes:
        return {}
    mesh = np.meshgrid(*(np.asarray(a, dtype=float) for a in axes.values()), indexing="ij")
    return {name: m.ravel() for name, m in zip(axes, mesh, strict=True)}


def _demand(
    workload: Workload, precision: str, grid: dict[str, Floats], n: int, conventions: Conventions
) -> _Demand:
    evaluator = Evaluator(workload, grid, casts_of(workload, precision), conventions)
    representative: dict[tuple[object, ...], Op] = {}
    times: Counter[tuple[object, ...]] = Counter()
    for op in workload.ops:
        key = _signature(workload, op)
        representative.setdefault(key, op)
        times[key] += op.repeat
    found: list[tuple[int, Cost]] = []
    ops: list[tuple[OpView, Cost]] = []
    for key, op in representative.items():
        view = evaluator.op(op)
        priced = cost(view)
        if priced is not None and not is_free(op.kind):
            found.append((times[key], priced))
            ops.append((view, priced))
    keys = dict.fromkeys((k for _, c in found for k in c.work))
    return _Demand(
        ops=ops,
        times=np.array([[t] for t, _ in found], dtype=float).reshape(-1, 1),
        work={(e.value, d): _stack((c.work.get((e, d), 0) for _, c in found), n) for e, d in keys},
        traffic=_stack((c.read_bytes + c.write_bytes for _, c in found), n),
        link=_stack((c.link_bytes for _, c in found), n),
        network=_stack((c.network_bytes for _, c in found), n),
    )


def _stack(rows: Any, n: int) -> Floats:
    listed = [np.broadcast_to(np.asarray(row, dtype=float), (n,)) for row in rows]
    return np.stack(listed) if listed else np.zeros((0, n))


def _signature(workload: Workload, op: Op) -> tuple[object, ...]:
    """Equal for ops that cost the same at every point."""
    first: dict[int, int] = {}

    def tensor(index: int) -> tuple[object, ...]:
        t = workload.tensors[index]
        place = first.setdefault(t.storage, len(first))
        return (t.shape, t.dtype, t.elements, t.offset, place)

    return (
        op.kind,
        tuple(map(tensor, op.inputs)),
        tuple(map(tensor, op.outputs)),
        tuple(op.sizes.items()),
        tuple(op.attrs.items()),
    )


def _bound(
    demand: _Demand, roofs: Roofs, n: int, estimator: Estimator | None
) -> tuple[Floats, Floats, Floats, NDArray[np.str_], Floats]:
    weight = demand.times
    flops = _main_flops(demand, n)
    traffic = (weight * demand.traffic).sum(axis=0)
    busy = _busy(demand, roofs)
    if not busy:
        return flops, traffic, np.full(n, np.nan), np.full(n, ""), np.full(n, np.nan)
    resources = sorted(busy, key=lambda key: key[1] is not Bound.COMPUTE)  # a tie is compute
    times = np.stack([busy[key] for key in resources], axis=-1)  # (ops, n, resources)
    slowest = roofline.bound_time(times)  # (ops, n)
    total = (weight * slowest).sum(axis=0)
    whole = (weight[..., np.newaxis] * times).sum(axis=0)  # (n, resources)
    names = np.array([bound.value for _, bound in resources])
    expected = _expected(demand, estimator, slowest)
    return flops, traffic, total, names[roofline.binding_resource(whole)], expected


def _expected(demand: _Demand, estimator: Estimator | None, slowest: Floats) -> Floats:
    """The expected time of each point; an op without constants counts with its bound."""
    unknown = np.full(slowest.shape[-1], np.nan)
    if estimator is None:
        return unknown
    ops = zip(demand.ops, slowest, strict=True)
    found = [estimator.seconds(view, priced, bound) for (view, priced), bound in ops]
    if all(one is None for one in found):
        return unknown
    times = (b if one is None else one.seconds for one, b in zip(found, slowest, strict=True))
    return np.asarray(sum(w * t for w, t in zip(demand.times, times, strict=True)))


def _busy(demand: _Demand, roofs: Roofs) -> dict[tuple[str, Bound], Floats]:
    """Seconds that each distinct op keeps each resource busy, shape (ops, n)."""
    busy: dict[tuple[str, Bound], Floats] = {}
    for (work_class, dtype), flops in demand.work.items():
        roof = roofs.engine_roof(work_class, dtype)
        if roof is not None:
            key = (roof.engine, Bound.COMPUTE)
            busy[key] = busy.get(key, 0.0) + roofline.resource_times(flops, roof.flop_per_s)
    if roofs.memory_byte_per_s is not None:
        key = (roofs.memory, roofs.memory_bound)
        busy[key] = roofline.resource_times(demand.traffic, roofs.memory_byte_per_s)
    if roofs.link_byte_per_s is not None:
        key = (roofs.link, Bound.NETWORK)
        busy[key] = roofline.resource_times(demand.link, roofs.link_byte_per_s)
    if roofs.network_byte_per_s is not None:
        key = (NETWORK, Bound.NETWORK)
        busy[key] = roofline.resource_times(demand.network, roofs.network_byte_per_s)
    return busy


def _main_flops(demand: _Demand, n: int) -> Floats:
    sums = {"matrix": np.zeros(n), "vector": np.zeros(n)}
    for (work_class, _), flops in demand.work.items():
        if work_class in sums:
            sums[work_class] = sums[work_class] + (demand.times * flops).sum(axis=0)
    return np.where(sums["matrix"] > 0, sums["matrix"], sums["vector"])
