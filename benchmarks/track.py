"""Cost of tracking a step: ``python benchmarks/track.py``. Ratios of CPU time within one run."""

import statistics
import time

import torch

import gambrel

X = torch.randn(256, 1024)
MODEL = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])


def step() -> None:
    with torch.no_grad():
        MODEL(X)


with gambrel.track(device="h100") as tracker:
    for _ in range(5):
        with tracker.step(X):
            step()
    empty = []
    for _ in range(2000):
        start = time.perf_counter()
        with tracker.step(X):
            pass
        empty.append(time.perf_counter() - start)
plain = []
for _ in range(50):
    start = time.perf_counter()
    step()
    plain.append(time.perf_counter() - start)
cost, took = statistics.median(empty), statistics.median(plain)
print(
    f"tracking costs {cost * 1e6:.1f} us per step; a step of {took * 1e3:.2f} ms: {cost / took:.2%}"
)
print(f"of a step of 5 ms: {cost / 5e-3:.2%}")
