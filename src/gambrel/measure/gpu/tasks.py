"""One figure of a device: several ways are tried shortly, the best of them measured in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from gambrel.errors import DeviceError, first_line
from gambrel.measure.gpu import precision
from gambrel.measure.gpu.board import BoardState, over
from gambrel.measure.gpu.telemetry import watched
from gambrel.measure.gpu.timing import Bench, Call, for_seconds, settle
from gambrel.measure.records import Measurement
from gambrel.measure.stats import SampledRate, best_of, figure

#: What a device or a library says that cannot do something; torch uses all of these.
FAILURES: Final = (
    RuntimeError,
    NotImplementedError,
    AttributeError,
    TypeError,
    ValueError,
    IndexError,
)
#: Calls of a short try, after one to warm up, and the seconds that they may take.
_TRY_CALLS, _TRY_S = 10, 0.03
#: A round has at least so many calls, however long they take.
_LEAST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVariant:
    """One way to attain a figure.

    Attributes:
        note: What it is.
        work: FLOP or bytes of one call.
        holds_bytes: Memory that it needs.
        prepare: Allocates, and returns the call.
        working_set_bytes: Of one array; None for arithmetic.
    """

    note: str
    work: float
    holds_bytes: float
    prepare: Callable[[], Call]
    working_set_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTask:
    """Something to measure.

    Attributes:
        resource: Engine, memory level or link.
        mix: Accesses, or what runs.
        unit: ``FLOP/s`` or ``B/s``.
        ways: From small to large.
        dtype: Number format of an engine's figure.
        sustained: Whether the rate over a longer time is a figure as well.
        note: Caveats of all ways.
    """

    resource: str
    mix: str
    unit: str
    ways: tuple[TaskVariant, ...]
    dtype: str = ""
    sustained: bool = False
    note: str = ""

    def __str__(self) -> str:
        return f"{self.dtype or self.resource} {self.mix}"


def run(bench: Bench, task: GpuTask, effort: Mapping[str, int]) -> Iterator[Measurement]:
    """The figures of a task: the best of its ways, and what that sustains.

    Raises:
        RuntimeError: No way works; says why.
        DeviceError: The device does not answer any more.
    """
    _formats_checked(bench, task)
    tried, reasons = _tried(bench, task)
    if not tried:
        raise RuntimeError(reasons[0] if reasons else "out of memory at the smallest size")
    best: tuple[SampledRate, TaskVariant] | None = None
    for way in tried[: bench.finalists]:
        call = way.prepare()
        settle(bench, call)
        bench.timed(call, max(1, effort["warmup"]))
        now = best_of([_round(bench, call, way, effort["steps"]) for _ in range(effort["rounds"])])
        if best is None or now.value > best[0].value:
            best = (now, way)
        del call
    if best is None:
        raise RuntimeError("nothing was tried")
    yield _record(task, best[1], best[0], rounds=effort["rounds"])
    if task.sustained:
        yield _sustained(bench, task, best[1])


def _formats_checked(bench: Bench, task: GpuTask) -> None:
    """TF32 is on where it is asked for, and for nothing else: a product tells."""
    precision.allow_tf32(task.dtype == "tf32")
    if task.dtype not in {"fp32", "tf32"}:
        return
    rounded = precision.rounds_to_tf32(bench.device)
    if task.dtype == "fp32" and rounded:
        raise RuntimeError("products round their operands to TF32 (see NVIDIA_TF32_OVERRIDE)")
    if task.dtype == "tf32" and not rounded:
        raise RuntimeError("products stay exact fp32: this device or its library has no TF32")


def _tried(bench: Bench, task: GpuTask) -> tuple[list[TaskVariant], list[str]]:
    """The ways that work, the fastest first, and why others do not."""
    rates: list[tuple[float, TaskVariant]] = []
    reasons: list[str] = []
    for way in task.ways:
        fastest = max((rate for rate, _ in rates), default=0.0)
        if bench.free_bytes and way.holds_bytes > bench.free_bytes:
            reasons.append("too little memory is free")
        elif not fastest or way.work / fastest <= bench.call_s:
            try:
                rates.append((_short(bench, way), way))
            except FAILURES as error:  # too little memory is a RuntimeError as well
                reasons.append(first_line(error))
                still_there(bench, f"{task}: {reasons[-1]}")
    return [way for _, way in sorted(rates, key=lambda r: -r[0])], reasons


def _short(bench: Bench, way: TaskVariant) -> float:
    call = way.prepare()
    bench.timed(call, 1)  # loads the kernel, chooses the algorithm
    (one,) = bench.timed(call, 1)
    times = [one, *bench.timed(call, max(1, min(_TRY_CALLS, int(_TRY_S / one))))]
    return way.work / median(times)


def still_there(bench: Bench, what: str) -> None:
    """Asks whether the device still answers after a failure.

    Raises:
        DeviceError: It does not: after some errors nothing works in this process any more.
    """
    try:
        bench.timed(lambda: None, 1)
    except FAILURES as error:
        raise DeviceError(
            f"{bench.device} stopped working ({what}; {first_line(error)}). Nothing can run on it "
            "in this process any more; begin a new one."
        ) from None


def _round(bench: Bench, call: Call, way: TaskVariant, steps: int) -> SampledRate:
    (one,) = bench.timed(call, 1)
    count = min(steps, max(_LEAST, int(bench.round_s / one)))
    return figure(bench.timed(call, count), way.work)


def _sustained(bench: Bench, task: GpuTask, way: TaskVariant) -> Measurement:
    call = way.prepare()
    bench.timed(call, 1)  # the clocks have settled with the calls before
    with watched(bench.reading) as seen:
        times = for_seconds(bench, call, bench.sustained_s)
    found = figure(times, way.work)
    kept = SampledRate(value=found.median, median=found.median, samples=found.samples)
    return _record(task, way, kept, suffix=" sustained", seen=seen)


def _record(
    task: GpuTask,
    way: TaskVariant,
    found: SampledRate,
    *,
    rounds: int = 1,
    suffix: str = "",
    seen: Sequence[BoardState] = (),
) -> Measurement:
    state = over(seen)
    notes = (way.note, task.note, f"over {len(seen)} readings: {state}" if state else "")
    return found.measurement(
        task.resource,
        task.mix + suffix,
        task.unit,
        dtype=task.dtype,
        rounds=rounds,
        threads=0,
        working_set_bytes=way.working_set_bytes,
        clock_hz=state.clock_hz if state else None,
        note="; ".join(filter(None, notes)),
    )
