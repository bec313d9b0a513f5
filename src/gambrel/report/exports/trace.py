"""The predicted timeline as a Chrome trace: a row of the device, one of the host, counters.

Format: "Trace Event Format", Google, https://docs.google.com/document/d/
1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, from memory. Times are in microseconds.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.result import Analysis
from gambrel.analysis.timeline import memory_timeline
from gambrel.report.exports.schedule import PlannedOp, Schedule, schedule
from gambrel.roofline import rate

_DEVICE, _HOST = 1, 2
#: Colours of Chrome's palette by what bounds an op.
_COLOURS: Final = {"compute": "thread_state_running", "memory": "thread_state_iowait"}


def chrome_trace(analysis: Analysis) -> bytes:
    """The timeline as JSON."""
    planned = schedule(analysis)
    events = [*_rows(analysis), *_device(planned), *_host(planned), *_counters(analysis, planned)]
    total = analysis.total
    expected = total.expected_time_s
    content = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "predicted_by": f"gambrel {__version__}",
            "model": analysis.model.name,
            "device": analysis.hardware.name,
            "runtime": analysis.runtime_name or analysis.runtime,
            "precision": analysis.model.precision,
            "durations": planned.basis,
            "expected_time_s": None if expected is None else expected.value,
            "roofline_time_s": total.roofline_time_s,
            "sol_time_s": total.sol_time_s,
        },
    }
    return msgspec.json.encode(content)


def _rows(analysis: Analysis) -> list[dict[str, Any]]:
    """Names of process and rows."""
    title = f"{analysis.model.name} on {analysis.hardware.name} (predicted)"
    named = [("process_name", 0, title), ("thread_name", _DEVICE, "device")]
    named.append(("thread_name", _HOST, "host: launches"))
    rows: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": tid, "name": kind, "args": {"name": name}}
        for kind, tid, name in named
    ]
    return rows


def _device(planned: Schedule) -> list[dict[str, Any]]:
    return [_op(placed) for placed in planned.ops]


def _op(placed: PlannedOp) -> dict[str, Any]:
    """A slice; an instant where no time is known."""
    row, m = placed.row, placed.row.measures
    expected = m.expected_time_s
    event: dict[str, Any] = {
        "pid": 1,
        "tid": _DEVICE,
        "cat": row.kind,
        "name": row.name,
        "ts": placed.start_s * 1e6,
        "args": {
            "op": row.op,
            "module": row.module,
            "shapes": row.shapes,
            "executions": row.count,
            "state": row.state.value,
            "matrix_flops": m.matrix_flops,
            "vector_flops": m.vector_flops,
            "traffic_bytes": m.traffic_bytes,
            "bound": None if m.bound is None else m.bound.value,
            "roofline_time_s": m.roofline_time_s,
            "expected_time_s": None if expected is None else expected.value,
        },
    }
    if not placed.is_timed:
        return {**event, "ph": "i", "s": "t", "name": f"{row.name} (time unknown)"}
    colour = _COLOURS.get("" if m.bound is None else m.bound.value)
    timed = {**event, "ph": "X", "dur": (placed.end_s - placed.start_s) * 1e6}
    return {**timed, "cname": colour} if colour else timed


def _host(planned: Schedule) -> list[dict[str, Any]]:
    launches = [
        _slice(f"launch {p.row.name}", p.launch_s, p.launched_s)
        for p in planned.ops
        if p.launched_s > p.launch_s
    ]
    if planned.run_host_s:
        launches.append(_slice("end of run", planned.end_s - planned.run_host_s, planned.end_s))
    return launches


def _slice(name: str, start_s: float, end_s: float) -> dict[str, Any]:
    times = {"ts": start_s * 1e6, "dur": (end_s - start_s) * 1e6}
    return {"ph": "X", "pid": 1, "tid": _HOST, "cat": "host", "name": name, **times}


def _counters(analysis: Analysis, planned: Schedule) -> list[dict[str, Any]]:
    """Memory in use and traffic per second while each op runs; both end at zero traffic."""
    points = memory_timeline(analysis).points
    found: list[dict[str, Any]] = []
    for placed, point in zip(planned.ops, points, strict=True):
        ts = placed.start_s * 1e6
        parts = {
            "weights": point.weights_bytes,
            "activations": point.activations_bytes,
            "kv_cache": point.kv_cache_bytes,
            "gradients": point.gradients_bytes,
            "optimizer": point.optimizer_bytes,
            "workspace": point.workspace_bytes,
        }
        used = {part: n for part, n in parts.items() if n} or {"weights": 0}
        found.append(_counter("memory in use (byte)", ts, used))
        if placed.is_timed:
            moved = rate(placed.row.measures.traffic_bytes, placed.end_s - placed.start_s)
            found.append(_counter("bandwidth (byte/s)", ts, {"traffic": moved or 0}))
    found.append(_counter("bandwidth (byte/s)", planned.end_s * 1e6, {"traffic": 0}))
    return found


def _counter(name: str, ts: float, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "C", "pid": 1, "name": name, "ts": ts, "args": values}
