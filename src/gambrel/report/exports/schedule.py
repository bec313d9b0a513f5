"""The ops of an analysis one after another: when each is launched, starts and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from gambrel.analysis.costs import DISPATCHES
from gambrel.analysis.queue import Kernel, behind, queue
from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import InputError
from gambrel.ops import is_free
from gambrel.roofline import ratio
from gambrel.runtimes import Kernels, runtimes
from gambrel.workload import Op, Workload
from gambrel.workload.formats import in_format

#: When an op is launched, has been, starts and ends, s.
Place: TypeAlias = tuple[float, float, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOp:
    """One op on the timeline.

    Attributes:
        op: Of the workload.
        row: Its figures; of all executions that it stands for.
        launch_s: When the host begins with its launches, s.
        launched_s: When the host is through with them, s.
        start_s: When the device begins, s.
        end_s: When the device is through, s; the start where no time is known.
        is_timed: Whether a time is known.
    """

    op: Op
    row: OpResult
    launch_s: float
    launched_s: float
    start_s: float
    end_s: float
    is_timed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All ops of a run.

    Attributes:
        ops: In order.
        end_s: Of the run, s.
        run_host_s: Host time at its end that no queue hides, s.
        basis: What the durations are.
    """

    ops: tuple[PlannedOp, ...]
    end_s: float
    run_host_s: float
    basis: str


def workload_of(analysis: Analysis) -> Workload:
    """The workload of an analysis, in its number format.

    Raises:
        InputError: It was saved without.
    """
    if analysis.workload is None:
        raise InputError("this analysis was saved without its workload: analyze the model again.")
    return in_format(analysis.workload, analysis.model.precision)


def paired(analysis: Analysis) -> list[tuple[Op, OpResult]]:
    """Each op that is not free, with its row of the analysis."""
    ops = [op for op in workload_of(analysis).ops if not is_free(op.kind)]
    return list(zip(ops, analysis.ops, strict=True))


def schedule(analysis: Analysis) -> Schedule:
    """Places ops as the runtime runs them: the host launches one after another, the device follows.

    The same queue as that of the expected time: a kernel starts when the one before has ended and
    the host has launched it. Ops take their expected time, else their roofline time.
    """
    runtime = runtimes().get(analysis.runtime)
    host = runtime.host_on(analysis.hardware) if runtime else None
    per_launch_s = host.per_launch_s if host else 0.0
    expected = analysis.total.expected_time_s is not None
    rows = paired(analysis)
    times = [row.measures.expected_time_s if expected else None for _, row in rows]
    seconds = [
        row.measures.roofline_time_s if one is None else one.value
        for one, (_, row) in zip(times, rows, strict=True)
    ]
    each = DISPATCHES if runtime is not None and runtime.kernels is Kernels.OP else {}
    kernels = [
        (
            known or 0.0,
            row.launches * each.get(op.kind, 1),
            0.0 if one is None else one.idle_start_s,
        )
        for known, one, (op, row) in zip(seconds, times, rows, strict=True)
    ]
    places = _places([op.repeat for op, _ in rows], kernels, per_launch_s)
    placed = [
        PlannedOp(
            op=op,
            row=row,
            launch_s=launch_s,
            launched_s=launched_s,
            start_s=float(start_s),
            end_s=float(end_s),
            is_timed=known is not None,
        )
        for (op, row), known, (launch_s, launched_s, start_s, end_s) in zip(
            rows, seconds, places, strict=True
        )
    ]
    run_s = host.per_run_s if host and expected else 0.0
    return Schedule(
        ops=tuple(placed),
        end_s=(placed[-1].end_s if placed else 0.0) + run_s,
        run_host_s=run_s,
        basis="expected times" if expected else "roofline times; no expected times are known",
    )


def _places(
    repeats: Sequence[int], kernels: Sequence[Kernel], per_launch_s: float
) -> Iterator[Place]:
    """Where each op stands, all its executions together.

    Layers that run again and again are drawn once, as one pass stretched to the time of all: what
    waits for the host in every layer is seen to wait.
    """
    state: tuple[float, Any] = (0.0, 0.0)
    for times, found in groupby(zip(repeats, kernels, strict=True), key=lambda one: one[0]):
        one_pass = [(seconds / times, n / times, idle) for _, (seconds, n, idle) in found]
        after = behind(state, one_pass, times, per_launch_s)
        if times == 1:
            yield from queue(one_pass, per_launch_s, state)
        else:
            yield from _stretched(list(queue(one_pass, per_launch_s, state)), state, after)
        state = after


def _stretched(
    places: Sequence[Place], begin: tuple[float, Any], end: tuple[float, Any]
) -> Iterator[Place]:
    """One pass over the time of all."""
    _, handed, _, ended = places[-1]
    host = ratio(end[0] - begin[0], handed - begin[0]) or 1.0
    device = ratio(end[1] - begin[1], ended - begin[1]) or 1.0
    for launch_s, launched_s, start_s, end_s in places:
        yield (
            begin[0] + (launch_s - begin[0]) * host,
            begin[0] + (launched_s - begin[0]) * host,
            begin[1] + (start_s - begin[1]) * device,
            begin[1] + (end_s - begin[1]) * device,
        )
