"""Kernels of a trace with the ops that launched them, column by column."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from gambrel.analysis.samples import Known, Sample, times_traffic, times_work
from gambrel.traces.kineto.activity import is_communication
from gambrel.traces.kineto.columns import NONE, Floats, Ints, RecordedOp, TraceColumns
from gambrel.traces.kineto.spans import covered
from gambrel.traces.kineto.tree import Nest, climb
from gambrel.traces.kineto.work import op_work

_US: Final = 1e-6
_TF32: Final = re.compile(r"tf32|s1688gemm_(?!fp16|f16|bf16)", re.IGNORECASE)
_MOST_SHAPES: Final = 120
#: Launches that are kept one by one; more of them are added up while reading.
MOST_SINGLE: Final = 200_000


#: Rows of launches: what makes them alike, all by number (name, further kernels, op call, whether
#: its work is known, launch shape, device), then start and time.
Table = npt.NDArray[np.float64]


def gpu_samples(columns: TraceColumns) -> tuple[list[Sample], list[str]]:
    """One sample an op call with all its kernels, and one a kernel that no op is known for.

    Returns:
        Samples in the order of time, and notes on how they were made.
    """
    rows, owners = _owners(columns)
    table = np.concatenate((_grouped(columns, rows, owners), _copies(columns)))
    kinds, counts, times, notes = _alike(table)
    make = _Maker(columns)
    listed = zip(kinds.astype(np.int64).tolist(), counts.tolist(), times.tolist(), strict=True)
    return [make(kind, count, time) for kind, count, time in listed], notes


def _alike(table: Table) -> tuple[Table, Ints, Floats, list[str]]:
    """Rows in the order of time; where there are very many, those that are alike added up."""
    table = table[np.argsort(table[:, -2], kind="stable")]
    kinds, times = table[:, :-2], table[:, -1]
    if len(table) <= MOST_SINGLE:
        return kinds, np.ones(len(table), dtype=np.int64), times, []
    alike, first, inverse, counts = np.unique(
        kinds, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    sums = np.bincount(inverse.ravel(), weights=times).astype(np.float64)
    order = np.argsort(first)
    note = f"{len(table):,} launches; those of one kernel, op and shape are added up while reading"
    return alike[order], counts[order].astype(np.int64), sums[order], [note]


def _owners(columns: TraceColumns) -> tuple[Ints, Ints]:
    """The op of each kernel, and the innermost op around it whose work its shapes tell."""
    kernels, ops = columns.kernels, columns.ops
    nest = Nest(ops.keys, ops.starts, ops.ends)
    rows = _by_id(columns)
    _by_correlation(columns, rows, nest)
    calls = columns.calls.values()
    known = np.array([op_work(call) is not None for call in calls], dtype=bool)
    of_ops = known[np.array(ops.names, dtype=np.int64)]
    owners = climb(rows, of_ops, nest)
    comm = np.array([is_communication(n) for n in columns.names.values()], dtype=bool)
    owners[comm[np.array(kernels.names, dtype=np.int64)]] = NONE
    return rows, owners


def _by_id(columns: TraceColumns) -> Ints:
    ids = np.array(columns.ops.ids, dtype=np.int64)
    wanted = np.array(columns.kernels.ids, dtype=np.int64)
    rows = np.full(len(wanted), NONE, dtype=np.int64)
    if len(ids) and len(wanted):
        order = np.argsort(ids, kind="stable")
        at = np.searchsorted(ids, wanted, side="right", sorter=order) - 1
        found = order[np.maximum(at, 0)]
        good = (at >= 0) & (ids[found] == wanted) & (wanted > 0)
        rows[good] = found[good]
    return rows


def _by_correlation(columns: TraceColumns, rows: Ints, nest: Nest) -> None:
    """Kernels without the id of an op: the op that was running when they were launched."""
    kernels, launches = columns.kernels, columns.launches
    numbers = np.array(kernels.correlations, dtype=np.int64)
    missing = np.flatnonzero((rows == NONE) & (numbers != NONE))
    known = np.array(launches.correlations, dtype=np.int64)
    if not len(missing) or not len(known) or not len(columns.ops):
        return
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known, numbers[missing], side="right", sorter=order) - 1
    found = order[np.maximum(at, 0)]
    good = (at >= 0) & (known[found] == numbers[missing])
    calls = found[good]
    threads = np.array(launches.keys, dtype=np.int64)[calls]
    rows[missing[good]] = nest.around(threads, launches.starts[calls])


def _grouped(columns: TraceColumns, rows: Ints, owners: Ints) -> Table:
    """Kernels of one op as one row: its time is the union of theirs."""
    k = columns.kernels
    of_ops = np.append(np.array(columns.ops.names, dtype=np.int64), NONE)
    owned = owners != NONE
    table = _stack(
        np.array(k.names),
        np.zeros(len(k)),
        np.where(owned, of_ops[owners], of_ops[rows]),
        owned,
        np.array(k.shapes),
        np.array(k.keys),
        np.append(_ranges(columns), NONE)[rows],
        k.starts,
        k.lengths,
    )
    order = np.argsort(owners, kind="stable")
    cuts = np.flatnonzero(np.diff(owners[order], prepend=-2, append=-2))
    several = (np.diff(cuts) > 1) & owned[order[cuts[:-1]]]
    keep = np.ones(len(k), dtype=bool)
    starts, ends = k.starts, k.ends
    for i in np.flatnonzero(several).tolist():
        group = order[cuts[i] : cuts[i + 1]]
        main = group[np.argmax(table[group, -1])]
        span = starts[group].min(), covered(starts[group], ends[group])
        keep[group] = False
        keep[main] = True
        table[main, 1] = len(group) - 1
        table[main, -2:] = span
    return table[keep]


def _ranges(columns: TraceColumns) -> Ints:
    """The name of the innermost range around each op; `NONE` where there is none."""
    ops, ranges = columns.ops, columns.ranges
    if not ranges:
        return np.full(len(ops), NONE, dtype=np.int64)
    nest = Nest(ranges.keys, ranges.starts, ranges.ends)
    names = np.append(np.array(ranges.names, dtype=np.int64), NONE)
    return np.asarray(names[nest.around(ops.keys, ops.starts)], dtype=np.int64)


def _copies(columns: TraceColumns) -> Table:
    c = columns.copies
    none = np.full(len(c), NONE)
    return _stack(
        np.array(c.names),
        np.zeros(len(c)),
        none,
        np.full(len(c), 2),
        none,
        np.array(c.keys),
        none,
        c.starts,
        c.lengths,
    )


def _stack(*columns: npt.NDArray[Any]) -> Table:
    return np.column_stack([column.astype(np.float64) for column in columns])


class _Maker:
    """Samples from numbers."""

    def __init__(self, columns: TraceColumns) -> None:
        self._names, self._calls = columns.names.values(), columns.calls.values()
        self._shapes, self._devices = columns.shapes.values(), columns.devices.values()

    def __call__(self, kind: list[int], count: int, time_us: float) -> Sample:
        name, more, call, counted, shape, device, inside = kind
        text, origin = self._names[name], ""
        range_ = "" if inside == NONE else self._names[inside].removeprefix("nn.Module: ")
        if len(self._devices) > 1:
            origin = f"device {self._devices[device]}"
        found = self._calls[call] if call != NONE else None
        if counted == 2:
            return _copy(text, count, time_us, origin)
        launch = self._shapes[shape]
        worked = op_work(found, tf32=_is_tf32(text)) if found and counted else None
        sample = Sample(
            name=text,
            count=count,
            time_s=time_us * _US,
            group=found[0] if found else "",
            origin=origin,
            recorded={} if launch.occupancy is None else {"occupancy": launch.occupancy},
            range=range_,
        )
        if found is None or worked is None:
            lacking = {"state": Known.MISSING, "why": _why(text, found)}
            return replace(sample, grid=launch.grid, block=launch.block, **lacking)
        return replace(
            sample,
            name=f"{text} (+{more} kernels)" if more else text,
            work=times_work(worked[0], count),
            traffic=times_traffic(worked[1], count),
            grid=_compact(found[1]),
        )


def _why(name: str, call: RecordedOp | None) -> str:
    if is_communication(name):
        return "communication"
    if call is None:
        return "no op in the trace launched this kernel (a CUDA graph, or ops were not recorded)"
    if call[1] == b"null":
        return "the trace has no shapes; record with record_shapes=True"
    return f"no formula for {call[0]} with what the trace records"


def _copy(name: str, count: int, time_us: float, origin: str) -> Sample:
    return Sample(
        name=name,
        count=count,
        time_s=time_us * _US,
        state=Known.COUNTED,
        group="copies",
        origin=origin,
        notes=("copies do no work; their bytes go over the link or within the memory",),
    )


@lru_cache(maxsize=65536)
def _is_tf32(name: str) -> bool:
    return _TF32.search(name) is not None


@lru_cache(maxsize=65536)
def _compact(dims: bytes) -> str:
    text = dims.decode("utf-8", "replace")
    return "" if text == "null" else re.sub(r"\s+", "", text)[:_MOST_SHAPES]


def worked_kernels(columns: TraceColumns) -> tuple[Ints, Ints, Floats, Floats]:
    """Kernels whose op has known work; those of one op are one.

    Returns:
        Number of the op's call, number of the device, begin and length in microseconds.
    """
    table = _grouped(columns, *_owners(columns))
    table = table[table[:, 3] == 1]
    calls, keys = (table[:, i].astype(np.int64) for i in (2, 5))
    return calls, keys, table[:, -2], table[:, -1]


def outermost(columns: TraceColumns) -> Ints:
    """Ops whose work is known, without those inside of one of these."""
    ops = columns.ops
    known = np.array([op_work(call) is not None for call in columns.calls.values()], dtype=bool)
    rows = np.flatnonzero(known[np.array(ops.names, dtype=np.int64)])
    keys, starts, ends = np.array(ops.keys, dtype=np.int64)[rows], ops.starts[rows], ops.ends[rows]
    order = np.lexsort((-ends, starts, keys))
    kept = []
    for key in np.unique(keys).tolist():
        mine = order[keys[order] == key]
        before = np.maximum.accumulate(np.append(-np.inf, ends[mine][:-1]))
        kept.append(rows[mine[starts[mine] >= before]])
    return np.concatenate(kept) if kept else rows


def cpu_samples(columns: TraceColumns) -> tuple[list[Sample], list[str]]:
    """The outermost ops whose work is known, and what is left between them.

    Returns:
        Samples in the order of time, and notes on how they were made.
    """
    ops = columns.ops
    nest = Nest(ops.keys, ops.starts, ops.ends)
    calls = columns.calls.values()
    known = [op_work(call) is not None for call in calls]
    parents = nest.parents.tolist()
    inner = [False] * len(ops)  # within an op that stands for it
    leaf = [True] * len(ops)
    for row in nest.order.tolist():
        up = parents[row]
        if up != NONE:
            leaf[up] = False
            inner[row] = inner[up] or known[ops.names[up]]
    chosen = [
        (ops.names[row], ops.names[parents[row]] if parents[row] != NONE else NONE, row)
        for row in range(len(ops))
        if not inner[row] and (known[ops.names[row]] or leaf[row])
    ]
    table = np.array(
        [(call, up, ops.start[row], ops.length[row]) for call, up, row in chosen], dtype=np.float64
    ).reshape(-1, 4)
    kinds, counts, times, notes = _alike(table)
    listed = zip(kinds.astype(np.int64).tolist(), counts.tolist(), times.tolist(), strict=True)
    return [
        _cpu_sample(calls[call], calls[up] if up != NONE else None, count, time)
        for (call, up), count, time in listed
    ], notes


def _cpu_sample(call: RecordedOp, parent: RecordedOp | None, count: int, time_us: float) -> Sample:
    worked = op_work(call)
    work, traffic = worked or ((), ())
    return Sample(
        name=call[0],
        count=count,
        time_s=time_us * _US,
        state=Known.COUNTED if worked else Known.MISSING,
        why="" if worked else "no formula for it with what the trace records",
        work=times_work(work, count),
        traffic=times_traffic(traffic, count),
        group=parent[0] if parent else "",
        grid=_compact(call[1]),
    )
