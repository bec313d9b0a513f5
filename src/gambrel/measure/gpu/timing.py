"""The seam between measuring and the device: what times calls, repeats and frees."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

from gambrel.measure.gpu.board import BoardState

Call = Callable[[], Any]
Timed = Callable[[Call, int], list[float]]

#: Seconds of work before clocks are taken to have settled, and that a sustained rate lasts.
SETTLE_S: Final = 0.5
SUSTAINED_S: Final = 1.0
#: Seconds of one chunk of work while clocks settle; two chunks this alike are settled.
_CHUNK_S: Final = 0.1
_ALIKE: Final = 0.01
#: A device whose clock never rests is measured after so many times `SETTLE_S`.
_PATIENCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The device, as far as measuring needs it.

    Attributes:
        device: As torch names it.
        timed: From a call and a count to the seconds of each of so many calls.
        engines: For each number format the engine that a library's products run on, or a sentence
            that says why there is none.
        sides: Of the square products that are tried.
        stream_bytes: Of one array of the streaming copies, the sizes that are tried.
        level2_bytes: Capacity of the L2; None where unknown.
        free_bytes: That may be used; 0 where unknown.
        fp8: Name of torch's fp8 format of this device.
        host_link: Whether there is a link to the host to be measured.
        settle_s: Seconds of work before the first measurement of a kind, at least.
        sustained_s: Seconds that a sustained rate lasts.
        call_s: Sizes whose single call would take longer are not tried.
        round_s: Seconds after which a round has no further calls, once it has three.
        finalists: How many ways are measured in full, of all that are tried shortly.
        repeated: From a call and a count to one call that does it so often without the host; None
            where the device has no such thing.
        release: Gives unused memory back.
        reading: Clock, power and temperature now; None where nothing can be read.
    """

    device: str
    timed: Timed
    engines: dict[str, tuple[str, str]]
    sides: tuple[int, ...]
    stream_bytes: tuple[int, ...]
    level2_bytes: int | None = None
    free_bytes: int = 0
    fp8: str = "float8_e4m3fn"
    host_link: bool = True
    settle_s: float = SETTLE_S
    sustained_s: float = SUSTAINED_S
    call_s: float = 0.25
    round_s: float = 0.4
    finalists: int = 2
    repeated: Callable[[Call, int], Call] | None = None
    release: Callable[[], None] = lambda: None
    reading: Callable[[], BoardState | None] | None = None


def settle(bench: Bench, call: Call) -> None:
    """Works until the clocks have settled: a device that idled starts slow and cool."""
    spent = before = 0.0
    while spent < _PATIENCE * bench.settle_s:
        times = _chunk(bench, call, min(_CHUNK_S, bench.settle_s))
        spent, now = spent + sum(times), median(times)
        if spent >= bench.settle_s and abs(now - before) <= _ALIKE * now:
            return
        before = now


def for_seconds(bench: Bench, call: Call, seconds: float) -> list[float]:
    """Times of calls for so long, at least one."""
    times = bench.timed(call, 1)
    while sum(times) < seconds:
        times += bench.timed(call, max(1, min(100, int(_CHUNK_S / max(times[-1], 1e-9)))))
    return times


def _chunk(bench: Bench, call: Call, seconds: float) -> list[float]:
    first = bench.timed(call, 1)
    return first + bench.timed(call, max(1, min(1000, int(seconds / max(first[0], 1e-9)))))


def timed_by_events(index: int) -> Timed:
    """Times calls by the device's own events, without a wait for the host in between."""
    import torch

    def timed(call: Call, count: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize(index)
        # Milliseconds; two marks may fall in one tick of the device's clock.
        return [max(a.elapsed_time(b), 1e-6) * 1e-3 for a, b in pairwise(marks)]

    return timed


def timed_by_clock(clock: Callable[[], float] = time.perf_counter) -> Timed:
    """Times calls by a clock, for devices that compute before a call returns."""

    def timed(call: Call, count: int) -> list[float]:
        times = []
        for _ in range(count):
            begun = clock()
            call()
            times.append(max(clock() - begun, 1e-9))
        return times

    return timed


def repeated_by_graph(call: Call, count: int) -> Call:
    """One call that runs kernels again and again without the host in between.

    A graph knows addresses alone: what the call works on must live as long as the graph, so the
    result holds on to the call.
    """
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()  # what is compiled or allocated at first use must not be recorded
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # A stream of its own: torch's shared one belongs to the device that recorded first.
    with torch.cuda.graph(graph, stream=side):
        for _ in range(count):
            call()

    def replay(_kept: Call = call) -> None:
        graph.replay()

    return replay
