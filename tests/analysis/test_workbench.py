"""Workloads at sizes that several questions share."""

from __future__ import annotations

import pytest

from gambrel.analysis.estimate.engine_work import engine_table
from gambrel.analysis.fusion import Allowance
from gambrel.analysis.plan import KernelPlan
from gambrel.analysis.workbench import Workbench, bench_of, forget
from gambrel.capture import zoo
from gambrel.ops import Conventions
from gambrel.runtimes import Kernels


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
    for batch in range(2, 130):  # of 174 ops each
        bench_of(workload, {"batch": batch}, Conventions())
    assert bench_of(workload, {"batch": 1}, Conventions()) is not first


def _for_many(model: str) -> Workbench:
    workload = zoo.load(model)
    return bench_of(workload, workload.resolve_symbols({"batch": 1}), Conventions(), bulk=True)


def test_what_makes_no_difference_does_not_part_tables() -> None:
    bench = _for_many("resnet18")
    plain = KernelPlan(kernels=Kernels.OP)
    half, single = bench.table("fp16", plain), bench.table("fp32", plain)
    for other in (
        KernelPlan(kernels=Kernels.OP, tf32=True),
        KernelPlan(kernels=Kernels.OP, persistent=True, int8_blocks=True),
        KernelPlan(kernels=Kernels.OP, split_attention=True),
    ):
        assert bench.table("fp16", other) is half
    assert bench.table("fp32", KernelPlan(kernels=Kernels.OP, tf32=True)) is not single


def test_engines_run_the_same_whatever_stays_on_chip() -> None:
    bench = _for_many("resnet18")
    few, many = (
        bench.table(
            "fp16",
            KernelPlan(
                kernels=Kernels.TILED, allowance=Allowance(group_bytes=nbytes, free_scores=False)
            ),
        )
        for nbytes in (0, 1_000_000)
    )
    assert few is not many
    assert few.engine is many.engine
    assert few.engine == engine_table(few) == engine_table(many)


def test_a_bench_for_a_catalog_is_another_one() -> None:
    workload = zoo.load("resnet18")
    bulk = bench_of(workload, {"batch": 1}, Conventions(), bulk=True)
    assert bench_of(workload, {"batch": 1}, Conventions()) is not bulk
    assert bench_of(workload, {"batch": 1}, Conventions(), bulk=True) is bulk
