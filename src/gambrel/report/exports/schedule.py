"""The ops of an analysis one after another: when each is launched, starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis.expected import queue
from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import InputError
from gambrel.ops import is_free
from gambrel.runtimes import runtimes
from gambrel.workload import Op, Workload


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
    """The workload of an analysis.

    Raises:
        InputError: It was saved without.
    """
    if analysis.workload is None:
        raise InputError("this analysis was saved without its workload: analyze the model again.")
    return analysis.workload


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
    kernels = (
        (known or 0.0, row.launches, 0.0 if one is None else one.idle_start_s)
        for known, one, (_, row) in zip(seconds, times, rows, strict=True)
    )
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
            rows, seconds, queue(kernels, per_launch_s), strict=True
        )
    ]
    run_s = host.per_run_s if host and expected else 0.0
    return Schedule(
        ops=tuple(placed),
        end_s=(placed[-1].end_s if placed else 0.0) + run_s,
        run_host_s=run_s,
        basis="expected times" if expected else "roofline times; no expected times are known",
    )
