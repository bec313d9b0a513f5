"""A trace of PyTorch as intervals: ops with their own time, kernels, ranges, communication."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from gambrel.errors import FileFormatError
from gambrel.traces.kineto.events import Args, kind_of, parse_list, to_int
from gambrel.traces.kineto.spans import length as union_s
from gambrel.traces.kineto.stream import EventStream
from gambrel.traces.kineto.tree import NONE, Nest

_OPS: Final = "cpu_op"
_RANGES: Final = frozenset({"user_annotation"})
_KERNELS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver"})
#: Names of collectives, whoever runs them.
_COMMUNICATION: Final = ("c10d::", "gloo:", "nccl", "ncclDevKernel", "mpi:")
_MICRO: Final = 1e-6
#: Ops around an op that are named.
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """One interval.

    Attributes:
        name: As recorded.
        start_s: Begin.
        end_s: End.
        own_s: Time in none of its children.
        parents: Names of the ops around it, the nearest first.
        dims: Shapes of its inputs.
        types: Number formats of its inputs, as torch writes them.
        leaf: Whether it holds no other op.
        main: Whether it ran on the thread that runs most.
        busy_s: Time of the kernels that it and its children launched; its own length in a trace
            without kernels.
        blocks: Of a kernel, blocks for each multiprocessor; None where not recorded.
    """

    name: str
    start_s: float
    end_s: float
    own_s: float = 0.0
    parents: tuple[str, ...] = ()
    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    leaf: bool = True
    main: bool = True
    busy_s: float = 0.0
    blocks: float | None = None

    @property
    def time_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTimeline:
    """Everything that was recorded.

    Attributes:
        ops: In order of their begin.
        ranges: Annotated by the program or by torch.
        kernels: On the GPU.
        calls: Of the GPU's runtime.
        communication: Collectives on any thread or stream.
        loading: Waits for a ``DataLoader``; ops within are left out of `ops`.
        waits: Number of these waits.
    """

    ops: tuple[TraceSpan, ...]
    ranges: tuple[TraceSpan, ...]
    kernels: tuple[TraceSpan, ...]
    calls: tuple[TraceSpan, ...]
    communication: tuple[TraceSpan, ...]
    loading: tuple[TraceSpan, ...] = ()
    waits: int = 0

    @property
    def whole_s(self) -> float:
        """From the first begin to the last end."""
        spans = (*self.ops, *self.kernels, *self.communication, *self.ranges, *self.loading)
        return max(s.end_s for s in spans) - min(s.start_s for s in spans)

    @property
    def main_ops(self) -> tuple[TraceSpan, ...]:
        """Ops of the thread that runs most."""
        return tuple(op for op in self.ops if op.main)


def read_timeline(path: Path) -> TraceTimeline:
    """Reads a trace.

    Raises:
        FileFormatError: Not readable, or nothing in it has a duration.
    """
    rows: dict[str, list[_Row]] = {"ops": [], "ranges": [], "kernels": [], "calls": []}
    for events in EventStream(path).pieces():
        for event in events:
            kind = _kind(event.cat) if isinstance(event.cat, str) else ""
            if kind and event.ph == "X" and event.span is not None:
                rows[kind].append(_row(event))
    if not rows["ops"] and not rows["kernels"]:
        raise FileFormatError(f"{path}: the trace has neither ops nor kernels with a duration.")
    launched = _launched(rows["kernels"], rows["calls"]) if rows["kernels"] else None
    ops = _ops(rows["ops"], launched)
    plain = {key: tuple(map(_plain, rows[key])) for key in ("ranges", "kernels", "calls")}
    moved = [s for s in (*ops, *plain["kernels"]) if s.name.startswith(_COMMUNICATION)]
    loading = covered_s(s for s in (*plain["ranges"], *ops) if is_loading(s))
    kept = [op for op in ops if not (op.name.startswith(_COMMUNICATION) or is_loading(op))]
    return TraceTimeline(
        ops=tuple(op for op in kept if not (op.main and _within(op, loading))),
        ranges=plain["ranges"],
        kernels=tuple(k for k in plain["kernels"] if not k.name.startswith(_COMMUNICATION)),
        calls=plain["calls"],
        communication=(*moved, *(s for s in plain["ranges"] if s.name.startswith(_COMMUNICATION))),
        loading=tuple(TraceSpan(name="DataLoader", start_s=a, end_s=b) for a, b in loading),
        waits=sum(is_loading(s) for s in (*plain["ranges"], *ops)),
    )


def is_loading(span: TraceSpan) -> bool:
    """Whether a span is a wait for the next batch of a ``DataLoader``."""
    return "DataLoader" in span.name


def _within(op: TraceSpan, spans: Sequence[tuple[float, float]]) -> bool:
    """Whether an op lies in one of some intervals that are in order."""
    at = bisect_right(spans, (op.start_s, math.inf)) - 1
    return at >= 0 and op.end_s <= spans[at][1]


def _launched(kernels: Sequence[_Row], calls: Sequence[_Row]) -> dict[int, float]:
    """Seconds of the kernels of each op, by the op's id."""
    by_call = {row.correlation: row.number for row in calls if row.number is not None}
    found: dict[int, float] = {}
    for row in kernels:
        key = row.number or by_call.get(row.correlation)
        if key is not None:
            found[key] = found.get(key, 0.0) + row.end_s - row.start_s
    return found


@lru_cache(maxsize=256)
def _kind(category: str) -> str:
    kind = kind_of(category)
    if kind == _OPS:
        return "ops"
    for name, kinds in (("ranges", _RANGES), ("kernels", _KERNELS), ("calls", _RUNTIME)):
        if kind in kinds:
            return name
    return ""


class _Row(NamedTuple):
    """What is kept of an event; shapes that repeat are one object."""

    name: str
    start_s: float
    end_s: float
    thread: tuple[str, str]
    number: int | None
    correlation: int | None
    dims: tuple[Any, ...]
    types: tuple[str, ...]
    blocks: float | None


def _row(event: Any) -> _Row:
    args = event.args or _NO_ARGS
    start, end = event.span
    return _Row(
        name=sys.intern(str(event.name)),
        start_s=start * _MICRO,
        end_s=end * _MICRO,
        thread=_thread(str(event.pid), str(event.tid)),
        number=to_int(args.external_id),
        correlation=to_int(args.correlation),
        dims=_shapes(bytes(args.dims), bytes(args.grid)),
        types=_types(bytes(args.types)),
        blocks=float(args.blocks) if isinstance(args.blocks, int | float) else None,
    )


_NO_ARGS: Final = Args()


@lru_cache(maxsize=4096)
def _thread(process: str, thread: str) -> tuple[str, str]:
    return process, thread


@lru_cache(maxsize=65536)
def _shapes(dims: bytes, grid: bytes) -> tuple[Any, ...]:
    """Shapes of an op's inputs; of a kernel its grid, which tells its launches apart."""
    return tuple(map(_shape, parse_list(msgspec.Raw(dims)))) if grid == b"null" else (grid,)


@lru_cache(maxsize=4096)
def _types(types: bytes) -> tuple[str, ...]:
    return tuple(map(str, parse_list(msgspec.Raw(types))))


def _plain(row: _Row) -> TraceSpan:
    return TraceSpan(
        name=row.name, start_s=row.start_s, end_s=row.end_s, dims=row.dims, blocks=row.blocks
    )


def _ops(rows: Sequence[_Row], launched: dict[int, float] | None) -> list[TraceSpan]:
    """Ops with what each calls taken off its own time, and the time of their kernels."""
    if not rows:
        return []
    number = {thread: i for i, thread in enumerate(dict.fromkeys(row.thread for row in rows))}
    keys = np.array([number[row.thread] for row in rows])
    starts, ends = (np.array([row[i] for row in rows]) for i in (1, 2))
    nest = Nest(keys, starts, ends)
    parents = nest.parents
    length = ends - starts
    held = np.zeros(len(rows))
    inner = np.flatnonzero(parents != NONE)
    np.add.at(held, parents[inner], length[inner])
    busy = length if launched is None else _device_s(rows, launched, parents, nest.order)
    busiest = int(np.argmax(np.bincount(keys, weights=length - held)))
    own, main = np.maximum(length - held, 0.0).tolist(), (keys == busiest).tolist()
    around = _around(rows, parents, nest.order)
    times, inside = busy.tolist(), held.tolist()
    made = [
        TraceSpan(
            name=row.name,
            start_s=row.start_s,
            end_s=row.end_s,
            own_s=own[i],
            parents=around[i],
            dims=row.dims,
            types=row.types,
            leaf=not inside[i],
            main=main[i],
            busy_s=times[i],
        )
        for i, row in enumerate(rows)
    ]
    return sorted(made, key=lambda s: s.start_s)


def _device_s(rows: Sequence[_Row], launched: dict[int, float], parents: Any, order: Any) -> Any:
    """Seconds of the kernels of each op and of those within it."""
    busy = np.array([0.0 if r.number is None else launched.get(r.number, 0.0) for r in rows])
    for row in reversed(order.tolist()):  # those within before those around
        if parents[row] != NONE:
            busy[parents[row]] += busy[row]
    return busy


def _around(rows: Sequence[_Row], parents: Any, order: Any) -> list[tuple[str, ...]]:
    """Names of the ops around each, the nearest first; those around come before those within."""
    found: list[tuple[str, ...]] = [()] * len(rows)
    up = parents.tolist()
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in order.tolist():
        if up[row] != NONE:
            names = (rows[up[row]].name, *found[up[row]][: _DEEPEST - 1])
            found[row] = shared.setdefault(names, names)
    return found


def _shape(value: Any) -> tuple[int, ...]:
    """One shape; lists of tensors and what is no shape count as empty."""
    if isinstance(value, list) and all(isinstance(n, int) for n in value):
        return tuple(value)
    return ()


def covered_s(spans: Iterable[TraceSpan]) -> list[tuple[float, float]]:
    """The intervals that at least one of some spans covers, in order."""
    found: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda s: s.start_s):
        if found and span.start_s <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], span.end_s)
        else:
            found.append((span.start_s, span.end_s))
    return found


def outside_s(inner: Iterable[TraceSpan], outer: Iterable[TraceSpan]) -> float:
    """Seconds of some spans that others do not cover."""
    theirs = [(span.start_s, span.end_s) for span in outer]
    both = [*theirs, *((span.start_s, span.end_s) for span in inner)]
    return max(union_s(both) - union_s(theirs), 0.0)
