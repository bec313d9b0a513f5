"""Events that are added to a trace: a slice for each op, and counters of what it achieved.

Numbers become text column by column, because formatting them event by event takes longer than
reading the trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from gambrel.roofline import rate
from gambrel.traces.kineto.columns import Floats, Ints

#: Of the process that is added; recorded ones have numbers of the system.
PID: Final = 9_000_001
_MICRO: Final = 1e-6
#: Microseconds without a kernel after which the counters go to zero.
_GAP: Final = 1.0
#: Microseconds since 1970 have no more digits in double precision.
_ROUNDING: Final = 0.5
#: Events that are written at once.
_CHUNK: Final = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWork:
    """What every call of an op with some shapes asks for.

    Attributes:
        name: Of the op.
        flops: Work.
        traffic_bytes: Compulsory traffic.
        light_s: Its speed of light; None without a device.
        bound: The resource that sets it.
    """

    name: str
    flops: int
    traffic_bytes: int
    light_s: float | None
    bound: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Kernels or ops with known work, by column.

    Attributes:
        calls: Number of the op's call.
        keys: Number of the device, or of the thread.
        starts: Begin, µs.
        times: Length, µs.
        names: Of devices or threads, by number.
        apart: Whether each key has counters of its own.
    """

    calls: Ints
    keys: Ints
    starts: Floats
    times: Floats
    names: Sequence[str]
    apart: bool


def added_events(
    spans: Intervals, numbers: Ints, works: Sequence[CallWork], title: str
) -> Iterator[bytes]:
    """JSON of all events, separated by commas.

    Args:
        spans: What was recorded.
        numbers: For each span, which of the works it has.
        works: Work by number.
        title: Of the process, after the program's name.
    """
    keys = np.unique(spans.keys).tolist()
    row = 1
    several = spans.apart and len(keys) > 1
    flops = np.array([w.flops for w in works], dtype=np.float64)[numbers]
    moved = np.array([w.traffic_bytes for w in works], dtype=np.float64)[numbers]
    rates = [_rates(amount, spans.times) for amount in (flops, moved)]
    yield _named("process_name", f"gambrel{title}", 1)
    for key in keys:
        mine = np.flatnonzero(spans.keys == key)
        mine = mine[np.argsort(spans.starts[mine], kind="stable")]
        lanes = _lanes(spans.starts[mine], spans.times[mine])
        for lane in range(int(lanes.max()) + 1):
            yield b"," + _named("thread_name", spans.names[key], row + lane)
        yield from _slices(spans, mine, lanes + row, numbers, works)
        row += int(lanes.max()) + 1
        if several:
            yield from _counters(spans, mine, rates, f" ({spans.names[key]})")
    if not several:
        yield from _counters(spans, np.argsort(spans.starts, kind="stable"), rates, "")


def _named(kind: str, name: str, row: int) -> bytes:
    args = {"name": name}
    return msgspec.json.encode({"ph": "M", "pid": PID, "tid": row, "name": kind, "args": args})


def _rates(amount: Floats, times_us: Floats) -> Ints:
    """Whole units per second; integers add up without a rest."""
    return np.asarray(np.rint(rate(amount, times_us * _MICRO)), dtype=np.int64)


def _lanes(starts: Floats, times: Floats) -> Ints:
    """Rows on which no two slices overlap: those of streams that run at once stand apart."""
    ends = starts + times
    lanes = np.zeros(len(starts), dtype=np.int64)
    if bool((starts[1:] >= ends[:-1] - _ROUNDING).all()):
        return lanes
    free: list[tuple[float, int]] = []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if free and free[0][0] <= start + _ROUNDING:
            lanes[i] = heapq.heappop(free)[1]
        else:
            lanes[i] = len(free)
        heapq.heappush(free, (end, int(lanes[i])))
    return lanes


def _texts(values: Any) -> list[bytes]:
    """Numbers as JSON writes them."""
    return msgspec.json.encode(values.tolist())[1:-1].split(b",")


def _slices(
    spans: Intervals, mine: Ints, rows: Ints, numbers: Ints, works: Sequence[CallWork]
) -> Iterator[bytes]:
    """A slice for each span, in order."""
    templates = [_template(work) for work in works]
    lights = np.array([np.nan if w.light_s is None else w.light_s for w in works])
    for low in range(0, len(mine), _CHUNK):
        part = mine[low : low + _CHUNK]
        shares = np.nan_to_num(rate(lights[numbers[part]], spans.times[part] * _MICRO))
        columns = (
            _texts(rows[low : low + _CHUNK]),
            _texts(np.rint(shares * 100).astype(np.int64)),
            _texts(np.round(spans.starts[part], 3)),
            _texts(np.round(spans.times[part], 3)),
            _texts(np.round(shares, 6)),
        )
        known = [templates[n] for n in numbers[part].tolist()]
        listed = zip(known, zip(*columns, strict=True), strict=True)
        yield b"," + b",".join([template % values for template, values in listed])


def _template(work: CallWork) -> bytes:
    """A slice but for its row, share in percent, begin, length and share."""
    args = {"flops": work.flops, "traffic_bytes": work.traffic_bytes, "bound": work.bound}
    name = msgspec.json.encode(work.name)[1:-1].replace(b"%", b"%%")
    known = work.light_s is not None
    return b"".join(
        (
            b'{"ph":"X","pid":%d,"tid":%%b,"cat":"gambrel","name":"' % PID,
            name,
            b" %b%%" if known else b"%.0b",
            b'","ts":%b,"dur":%b,"args":{"sol_share":',
            b"%b" if known else b"%.0bnull",
            b"," + msgspec.json.encode(args)[1:-1] + b"}}",
        )
    )


def _counters(spans: Intervals, mine: Ints, rates: Sequence[Ints], which: str) -> Iterator[bytes]:
    """What runs at each time does together, from change to change."""
    starts = spans.starts[mine]
    times = np.concatenate((starts, starts + spans.times[mine]))
    order = np.argsort(times, kind="stable")
    times = times[order]
    sums = [np.cumsum(np.concatenate((r[mine], -r[mine]))[order]) for r in rates]
    ends = order >= len(mine)
    gaps = np.diff(times)
    shown = np.append((gaps > 0) & ~(ends[:-1] & ~ends[1:] & (gaps < _GAP)), True)
    template = b",".join(
        b'{"ph":"C","pid":%d,"name":%b,"ts":%%b,"args":{"value":%%b}}'
        % (PID, msgspec.json.encode(f"achieved {unit}{which}"))
        for unit in ("FLOP/s", "byte/s")
    )
    changes = np.flatnonzero(shown)
    for low in range(0, len(changes), _CHUNK):
        part = changes[low : low + _CHUNK]
        at = _texts(np.round(times[part], 3))
        columns = at, _texts(sums[0][part]), at, _texts(sums[1][part])
        yield b"," + b",".join([template % values for values in zip(*columns, strict=True)])
