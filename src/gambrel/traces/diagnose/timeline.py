"""A trace of PyTorch as intervals: ops with their own time, kernels, ranges, communication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.errors import FileFormatError
from gambrel.traces.kineto.events import parse_list
from gambrel.traces.kineto.stream import Stream
from gambrel.traces.kineto.tree import NONE, Nest

_OPS: Final = "cpu_op"
_RANGES: Final = frozenset({"user_annotation"})
_KERNELS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver"})
#: Names of collectives, whoever runs them.
_COMMUNICATION: Final = ("c10d::", "gloo:", "nccl", "ncclDevKernel", "mpi:")
_MICRO: Final = 1e-6


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
    """

    ops: tuple[TraceSpan, ...]
    ranges: tuple[TraceSpan, ...]
    kernels: tuple[TraceSpan, ...]
    calls: tuple[TraceSpan, ...]
    communication: tuple[TraceSpan, ...]

    @property
    def whole_s(self) -> float:
        """From the first begin to the last end."""
        spans = (*self.ops, *self.kernels, *self.communication, *self.ranges)
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
    rows: dict[str, list[Any]] = {"ops": [], "ranges": [], "kernels": [], "calls": []}
    for events in Stream(path).pieces():
        for event in events:
            kind = _kind(event.kind)
            if kind and event.ph == "X" and event.span is not None:
                rows[kind].append(event)
    if not rows["ops"] and not rows["kernels"]:
        raise FileFormatError(f"{path}: the trace has neither ops nor kernels with a duration.")
    ops = _ops(rows["ops"])
    plain = {key: tuple(map(_plain, rows[key])) for key in ("ranges", "kernels", "calls")}
    moved = [s for s in (*ops, *plain["kernels"]) if s.name.startswith(_COMMUNICATION)]
    kept = [op for op in ops if not op.name.startswith(_COMMUNICATION)]
    return TraceTimeline(
        ops=tuple(kept),
        ranges=plain["ranges"],
        kernels=tuple(k for k in plain["kernels"] if not k.name.startswith(_COMMUNICATION)),
        calls=plain["calls"],
        communication=(*moved, *(s for s in plain["ranges"] if s.name.startswith(_COMMUNICATION))),
    )


def _kind(kind: str) -> str:
    if kind == _OPS:
        return "ops"
    for name, kinds in (("ranges", _RANGES), ("kernels", _KERNELS), ("calls", _RUNTIME)):
        if kind in kinds:
            return name
    return ""


def _plain(event: Any) -> TraceSpan:
    start, end = event.span
    return TraceSpan(name=str(event.name), start_s=start * _MICRO, end_s=end * _MICRO)


def _ops(events: Sequence[Any]) -> list[TraceSpan]:
    """Ops with what each calls taken off its own time."""
    if not events:
        return []
    threads = [(event.pid, event.tid) for event in events]
    number = {thread: i for i, thread in enumerate(dict.fromkeys(threads))}
    keys = np.array([number[thread] for thread in threads])
    spans = np.array([event.span for event in events])
    nest = Nest(keys, spans[:, 0], spans[:, 1])
    parents = nest.parents
    length = spans[:, 1] - spans[:, 0]
    held = np.zeros(len(events))
    inner = np.flatnonzero(parents != NONE)
    np.add.at(held, parents[inner], length[inner])
    busiest = int(np.argmax(np.bincount(keys, weights=length - held)))
    made = [
        TraceSpan(
            name=str(event.name),
            start_s=spans[i, 0] * _MICRO,
            end_s=spans[i, 1] * _MICRO,
            own_s=max(length[i] - held[i], 0.0) * _MICRO,
            parents=_around(i, parents, events),
            dims=tuple(map(_shape, parse_list(event.args.dims))) if event.args else (),
            types=tuple(map(str, parse_list(event.args.types))) if event.args else (),
            leaf=not held[i],
            main=bool(keys[i] == busiest),
        )
        for i, event in enumerate(events)
    ]
    return sorted(made, key=lambda s: s.start_s)


def _around(row: int, parents: Any, events: Sequence[Any]) -> tuple[str, ...]:
    names: list[str] = []
    at = int(parents[row])
    while at != NONE and len(names) < 8:
        names.append(str(events[at].name))
        at = int(parents[at])
    return tuple(names)


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
    mine, theirs = covered_s(inner), covered_s(outer)
    total, at = sum(end - start for start, end in mine), 0
    for start, end in mine:
        while at < len(theirs) and theirs[at][1] <= start:
            at += 1
        j = at
        while j < len(theirs) and theirs[j][0] < end:
            total -= min(end, theirs[j][1]) - max(start, theirs[j][0])
            j += 1
    return max(total, 0.0)


def chosen(spans: Iterable[TraceSpan], test: Callable[[TraceSpan], bool]) -> list[TraceSpan]:
    """Spans that pass a test."""
    return [span for span in spans if test(span)]
