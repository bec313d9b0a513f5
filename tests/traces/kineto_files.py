"""Traces in the form that Kineto writes, small enough to reckon by hand."""

from __future__ import annotations

import json


def op(name, ts, dur, number, dims=None, types=None, concrete=None, tid=1, **spelling):
    args = {spelling.get("id_name", "External id"): number}
    if dims is not None:
        args |= {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete or []}
    return {"ph": "X", "cat": spelling.get("cat", "cpu_op"), "name": name, "pid": 9, "tid": tid} | {
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def launch(ts, correlation, name="cudaLaunchKernel", tid=1):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": tid} | {
        "ts": ts,
        "dur": 4,
        "args": {"correlation": correlation},
    }


def kernel(name, ts, dur, correlation, number=None, cat="kernel", device=0):
    args = {"device": device, "stream": 7, "correlation": correlation}
    if number is not None:
        args["External id"] = number
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": 7} | {
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def mm(ts, number, m=64, k=128, n=32, kind="c10::Half", **more):
    return op("aten::mm", ts, 10, number, [[m, k], [k, n]], [kind, kind], ["", ""], **more)


def trace(events, device="NVIDIA A100-SXM4-80GB"):
    names = [{"id": 0, "name": device}] if device else []
    return json.dumps({"schemaVersion": 1, "deviceProperties": names, "traceEvents": events})
