"""Sweeps over batches under runtimes that fuse: points per second, and how far from an analysis."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.sweep import sweep
from gambrel.capture import zoo
from gambrel.device.lookup import find

CASES = (
    ("resnet50", "a100", "tensorrt", "fp16"),
    ("resnet50", "jetson-orin-agx", "tensorrt", "int8"),
    ("resnet50", "a100", "torch-compile", "fp16"),
    ("bert-base", "h100", "torch-compile", "bf16"),
    ("resnet50", "snapdragon-8-gen-3", "qnn", "int8"),
    ("yolov8n", "rk3588", "rknn", "int8"),
    ("yolov8n", "epyc-9654", "openvino", "fp32"),
    ("vit-b-16", "l4", "onnxruntime", "fp16"),
    ("resnet50", "tpu-v5e", "xla", "bf16"),
)
POINTS = (256, 4096)
LOOKED_AT = (1, 2, 3, 100, 256)
COLUMNS = ("model", "device", "runtime", "256 batches (points/s)", "4,096 batches", "off by")


def main() -> None:
    rows = [row(*case) for case in CASES]
    notes = [
        "Batches 1 to 256 and 1 to 4,096, CPU time of one core, the first sweep of a process "
        "excepted. Off by: largest relative difference of roofline and expected time from an "
        "analysis at batches 1, 2, 3, 100 and 256."
    ]
    report("sweep_fused", "Sweeps under runtimes that fuse", COLUMNS, rows, notes=notes)


def row(model: str, device: str, runtime: str, precision: str) -> list[object]:
    workload, on = zoo.load(zoo.find(model)[0].name), find(device).device
    settings = Settings(runtime=runtime)
    sweep(workload, [on], [precision], {"batch": (1, 2)}, settings)
    rates, off = [], 0.0
    for count in POINTS:
        start = time.process_time()
        found = sweep(workload, [on], [precision], {"batch": range(1, count + 1)}, settings)
        rates.append(f"{count / (time.process_time() - start):,.0f}")
    for batch in LOOKED_AT:
        asked = Settings(runtime=runtime, precision=precision, sizes={"batch": batch})
        one = analyze(workload, on, asked)
        expected = one.expected_time_s.value if one.expected_time_s else float("nan")
        pairs = (
            (found.roofline_time_s[batch - 1], one.roofline_time_s or float("nan")),
            (found.expected_time_s[batch - 1], expected),
        )
        off = max(off, *(abs(a / b - 1) for a, b in pairs if not np.isnan(b)))
    return [model, device, runtime, *rates, f"{off:.0e}"]


if __name__ == "__main__":
    main()
