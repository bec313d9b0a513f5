"""How long one more expected time takes for a model that is captured: another device, same sizes.

python benchmarks/answer.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable

from gambrel.advise.demand import Demand, demand_under, evaluated, held_against
from gambrel.analysis.bounding import roofs_of

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.estimate import Estimator
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.precision import casts_of
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.ops.base import Conventions

MODELS = ("resnet50", "mobilenet-v2", "vit-b-16", "bert-base", "llama-3-8b")
COLUMNS = ("model", "ops", "stack", "distinct", "prepare", "answer", "whole report")
NOTES = (
    "Milliseconds, medians of 25; half precision on an H100, one core.",
    "prepare: work, traffic and groups of a captured model, once for sizes and precision. answer: "
    "roofs of a device, bound and expected time with range, confidence and reason (what compare, "
    "select and check ask of each device); aim below 1 ms. whole report: `gambrel.analyze`, with "
    "rows, levels, footprint and energy.",
)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    device = find("h100").device
    lines = [line(name, stack, device) for name in MODELS for stack in ("eager", "compiled")]
    report("answer", "The time of an expected-time answer", COLUMNS, lines, notes=NOTES)


def line(name: str, stack: str, device: Device) -> list[object]:
    workload = zoo.load(zoo.find(name)[0].name)
    casts = casts_of(workload, "fp16")
    evaluator = Evaluator(workload, workload.resolve_symbols({}), casts, Conventions())

    def prepare() -> Demand:
        return demand_under(workload, evaluated(workload, evaluator), stack)

    demand = prepare()

    def answer() -> None:
        roofs = roofs_of(device)
        held_against(demand, roofs, Estimator(roofs))

    times = (
        milliseconds(prepare),
        milliseconds(answer),
        milliseconds(lambda: analyze(workload, device, Settings(precision="fp16", stack=stack))),
    )
    return [name, len(workload.ops), stack, len(demand.items), *(f"{t:.2f}" for t in times)]


def milliseconds(action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(25):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


if __name__ == "__main__":
    main()
