"""How long one more expected time takes for a model that is captured: another device, same sizes.

python benchmarks/answer.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable

from common import report
from gambrel.analysis.analyze import analyze
from gambrel.analysis.costs import CostTable
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.runtimes import runtime

MODELS = ("resnet50", "mobilenet-v2", "vit-b-16", "bert-base", "llama-3-8b")
COLUMNS = ("model", "ops", "runtime", "distinct", "prepare", "answer", "whole report")
NOTES = (
    "Milliseconds, medians of 25; half precision on an H100, one core.",
    "prepare: work, traffic and kernels of a captured model, once for sizes and precision. answer: "
    "roofs of a device, roofline and expected time with range, confidence and reason (what "
    "compare, select and check ask of each device); aim below 1 ms. whole report: "
    "`gambrel.analyze`, with rows, levels, footprint and energy.",
)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    device = find("h100").device
    lines = [
        line(name, chosen, device) for name in MODELS for chosen in ("pytorch", "torch-compile")
    ]
    report("answer", "The time of an expected-time answer", COLUMNS, lines, notes=NOTES)


def line(name: str, chosen: str, device: Device) -> list[object]:
    workload = zoo.load(zoo.find(name)[0].name)
    settings = Settings(precision="fp16", runtime=chosen)
    sizes = workload.resolve_symbols({})
    plan = Machine(device, settings).plan(runtime(chosen))

    def prepare() -> CostTable:
        return Workbench(workload, sizes, settings.conventions).table("fp16", plan)

    bench = Workbench(workload, sizes, settings.conventions)
    table = bench.table("fp16", plan)
    times = (
        milliseconds(prepare),
        milliseconds(lambda: answered(bench, Machine(device, settings), settings)),
        milliseconds(lambda: analyze(workload, device, settings)),
    )
    return [name, len(workload.ops), chosen, len(table.items), *(f"{t:.2f}" for t in times)]


def milliseconds(action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(25):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


if __name__ == "__main__":
    main()
