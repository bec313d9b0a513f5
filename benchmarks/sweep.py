"""A sweep over batch × device × precision of a zoo model, points per second on one core."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics

import numpy as np

import gambrel
from common import report, timed
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.sweep import sweep
from gambrel.capture import zoo
from gambrel.device.lookup import find

MODELS = ("resnet50", "mobilenet-v2", "vit-b-16", "bert-base", "llama-3-8b")
DEVICES = ("h100", "a100", "l4", "rtx-4090", "mi300x")
PRECISIONS = ("fp16", "fp32", "int8")
BATCHES = tuple(range(1, 1025))


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    devices = [find(name).device for name in DEVICES]
    rows = []
    for name in MODELS:
        workload = zoo.load(zoo.find(name)[0].name)
        action = timed(lambda w=workload: sweep(w, devices, PRECISIONS, {"batch": BATCHES}))
        action()
        seconds = statistics.median(action() for _ in range(5))
        found = sweep(workload, devices, PRECISIONS, {"batch": BATCHES})
        rows.append(
            [
                name,
                len(workload.ops),
                f"{len(found):,}",
                f"{seconds * 1e3:.0f}",
                f"{len(found) / seconds:,.0f}",
                f"{worst_difference(workload, devices, found):.1e}",
            ]
        )
    report(
        "sweep",
        "Sweep over batch × device × precision",
        ["model", "ops", "points", "ms (median of 5)", "points/s", "largest difference"],
        rows,
        notes=[
            f"Batches 1 to {BATCHES[-1]}, devices {', '.join(DEVICES)}, "
            f"precisions {', '.join(PRECISIONS)}; pinned to one core. Target: 50,000 points/s.",
            "Largest difference: relative, of the bound time at 30 random points against a single "
            "`analyze` at the same point.",
        ],
    )


def worst_difference(
    workload: gambrel.Workload, devices: list[gambrel.Device], found: object
) -> float:
    by_id = {d.id: d for d in devices}
    worst = 0.0
    for i in np.random.default_rng(0).integers(0, len(found), 30):
        settings = Settings(
            precision=str(found.precision[i]),
            sizes={k: int(v[i]) for k, v in found.sizes.items()},
        )
        single = analyze(workload, by_id[str(found.device[i])], settings).total.roofline_time_s
        worst = max(worst, abs(found.roofline_time_s[i] / single - 1))
    return worst


if __name__ == "__main__":
    main()
