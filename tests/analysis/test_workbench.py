"""Workloads at sizes that several questions share."""

from __future__ import annotations

import pytest

from gambrel.analysis.workbench import bench_of, forget
from gambrel.capture import zoo
from gambrel.ops import Conventions


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    forget()


def test_the_same_model_at_the_same_sizes_is_prepared_once() -> None:
    workload = zoo.load("resnet50")
    first = bench_of(workload, {"batch": 1}, Conventions())
    assert bench_of(workload, {"batch": 1}, Conventions()) is first
    assert bench_of(workload, {"batch": 2}, Conventions()) is not first
    assert bench_of(workload, {"batch": 1}, Conventions(causal="full")) is not first
    assert bench_of(zoo.load("resnet18"), {"batch": 1}, Conventions()).workload.name == "resnet18"


def test_old_ones_are_dropped() -> None:
    workload = zoo.load("resnet50")
    first = bench_of(workload, {"batch": 1}, Conventions())
    for batch in range(2, 60):  # of 174 ops each
        bench_of(workload, {"batch": batch}, Conventions())
    assert bench_of(workload, {"batch": 1}, Conventions()) is not first
