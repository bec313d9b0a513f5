"""Time of a gate over 1,000 metrics of 20 runs: ``python benchmarks/gate.py``."""

import time

import numpy as np

from gambrel.advise.gate.compare import compare_to
from gambrel.advise.gate.records import GateBaseline, GateMetric

RNG = np.random.default_rng(0)
METRICS = tuple(
    GateMetric(name=f"kernel {i} time_s", samples=tuple(1 + 0.01 * RNG.standard_normal(20)))
    for i in range(1000)
)
start, used = time.perf_counter(), time.process_time()
compare_to(GateBaseline(metrics=METRICS), METRICS, {})
print(f"1,000 metrics: {time.perf_counter() - start:.2f} s, {time.process_time() - used:.2f} s CPU")
