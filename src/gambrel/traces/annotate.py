"""A measured Chrome trace with what each op could be: rows of its own, and counters.

The events that were recorded are copied byte by byte; what is added stands in front of them as a
process of its own, so that viewers show both and nothing of the recording is lost. The file is read
twice in pieces, so that it never stands in memory as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel.collector import without_collector
from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.model import Device
from gambrel.errors import FileFormatError
from gambrel.fileio import replace_file
from gambrel.roofline import rate, seconds, utilization
from gambrel.traces.annotation import CallWork, Intervals, added_events
from gambrel.traces.kineto.columns import Ints, RecordedOp, TraceColumns
from gambrel.traces.kineto.join import outermost, worked_kernels
from gambrel.traces.kineto.spans import covered
from gambrel.traces.kineto.stream import EventStream, unpacked
from gambrel.traces.kineto.work import op_work

_LIST: Final = re.compile(rb'\A\s*\[|"traceEvents"\s*:\s*\[')
_MICRO: Final = 1e-6
#: Of the roof, name of the bound.
_BOUNDS: Final = ("compute", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """What was added to a trace.

    Attributes:
        path: Where it was written.
        spans: Ops or kernels with work.
        without: Kernels whose work is not known.
        figures: Over all that was annotated: ``achieved_flop_per_s``, ``achieved_byte_per_s`` and,
            with a device, ``sol_share``.
    """

    path: Path
    spans: int
    without: int
    figures: dict[str, float]


def annotate(source: Path, target: Path, device: Device | None = None) -> Annotated:
    """Writes a trace with FLOPs, bytes, share of the speed of light and bound of each op.

    Args:
        source: A trace of torch.profiler, recorded with shapes; compressed or not.
        target: A new ``.json``.
        device: Whose roofs count; None leaves shares out.

    Raises:
        FileFormatError: The source is no trace, or no op in it has work that its shapes tell.
    """
    with without_collector():
        columns = TraceColumns()
        for piece in EventStream(source).pieces():
            columns.add(piece)
        intervals, without = _intervals(columns)
        if not len(intervals.calls):
            raise FileFormatError(_reason(source, columns))
        calls, numbers = np.unique(intervals.calls, return_inverse=True)
        listed = columns.calls.values()
        roofs = _Roofs(device)
        works = [roofs.work(listed[call]) for call in calls.tolist()]
        del columns
        events = added_events(intervals, numbers.ravel(), works, roofs.title)
        replace_file(target, _inserted(source, events))
    figures = _figures(intervals, numbers.ravel(), works)
    return Annotated(path=target, spans=len(intervals.calls), without=without, figures=figures)


def _figures(spans: Intervals, numbers: Ints, works: Sequence[CallWork]) -> dict[str, float]:
    """Work, traffic and speed of light of all spans over the time in which any of them ran."""
    counts = np.bincount(numbers, minlength=len(works)).tolist()
    busy_s = covered(spans.starts, spans.starts + spans.times) * _MICRO
    amounts = {
        "achieved_flop_per_s": sum(n * w.flops for n, w in zip(counts, works, strict=True)),
        "achieved_byte_per_s": sum(n * w.traffic_bytes for n, w in zip(counts, works, strict=True)),
    }
    figures = {name: float(rate(amount, busy_s)) for name, amount in amounts.items()}
    lights = [n * w.light_s for n, w in zip(counts, works, strict=True) if w.light_s is not None]
    if len(lights) == len(works):
        figures["sol_share"] = utilization(sum(lights), busy_s)
    return figures


def _reason(source: Path, columns: TraceColumns) -> str:
    if not columns.ops and not columns.kernels:
        return f"{source}: the trace has neither kernels nor ops with a duration."
    if not columns.ops:
        return f"{source}: the trace has kernels but no ops; record with ProfilerActivity.CPU too."
    return f"{source}: no op of known work; record with record_shapes=True."


def _intervals(columns: TraceColumns) -> tuple[Intervals, int]:
    """What is annotated: kernels with their op's work, on a processor the ops themselves."""
    if columns.kernels:
        calls, keys, starts, times = worked_kernels(columns)
        names = [f"GPU {name}" for name in columns.devices.values()]
        without = len(columns.kernels) - len(calls)
    else:
        rows = outermost(columns)
        calls = np.array(columns.ops.names, dtype=np.int64)[rows]
        keys = np.array(columns.ops.keys, dtype=np.int64)[rows]
        starts, times = columns.ops.starts[rows], columns.ops.lengths[rows]
        names = [f"thread {tid}" for _, tid in columns.threads.values()]
        without = 0
    good = times > 0
    return Intervals(
        calls=calls[good],
        keys=keys[good],
        starts=starts[good] + columns.first,
        times=times[good],
        names=names,
        apart=bool(columns.kernels),
    ), without


class _Roofs:
    """What a device allows for an op."""

    def __init__(self, device: Device | None) -> None:
        self._device = device
        self.title = "" if device is None else f": share of the speed of light of {device.id}"
        memory = None if device is None else fastest_memory(device)
        self._byte_per_s = None if memory is None else memory.byte_per_s
        self._rates: dict[tuple[str, str], float | None] = {}

    def work(self, call: RecordedOp) -> CallWork:
        """Work, traffic and speed of light of an op whose shapes tell them."""
        known = op_work(call)
        work, traffic = ((), ()) if known is None else known
        moved = sum(t.traffic_bytes or 0 for t in traffic)
        light_s, bound = self._light(work, moved)
        return CallWork(
            name=call[0],
            flops=sum(w.flops for w in work),
            traffic_bytes=moved,
            light_s=light_s,
            bound=bound,
        )

    def _light(self, work: Any, moved: int) -> tuple[float | None, str | None]:
        """The op's own speed of light and the resource that sets it."""
        if self._device is None or self._byte_per_s is None:
            return None, None
        times = [0.0, float(seconds(moved, self._byte_per_s))]
        for one in work:
            key = one.work_class, one.dtype
            if key not in self._rates:
                roof = fastest(self._device, *key)
                self._rates[key] = None if roof is None else roof.flop_per_s
            known = self._rates[key]
            times[0] = max(times[0], float(seconds(one.flops, known)) if known else 0.0)
        return max(times), _BOUNDS[times.index(max(times))]


def _inserted(source: Path, events: Iterator[bytes]) -> Iterator[bytes]:
    """The file with events in front of its own."""
    blocks = unpacked(source)
    held = b""
    for block in blocks:
        held += block
        begin = _LIST.search(held.removeprefix(b"\xef\xbb\xbf"))
        if begin is None:
            continue
        held = held.removeprefix(b"\xef\xbb\xbf")
        yield held[: begin.end()]
        yield from events
        rest = held[begin.end() :]
        while not rest.strip():
            rest += (more := next(blocks, b""))
            if not more:
                break
        yield b"" if rest.lstrip()[:1] == b"]" else b","
        yield rest
        yield from blocks
        return
    raise FileFormatError(f"{source}: a trace without 'traceEvents' cannot be annotated.")
