"""Training steps on TPUs: what a compiler runs, and published steps."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[2] / "benchmarks/data/tpu/training.csv"
#: Attention sinks; see scripts/fit_tpu.py.
HELD = {"gpt-oss-120b"}


def planned(row):
    chips, batch, tensor = (int(row[k]) for k in ("chips", "global_batch", "tensor"))
    shared = max(1, chips // batch)
    replicas = chips // (tensor * shared)
    return gambrel.train_plan(
        row["model"],
        row["device"],
        seq=int(row["seq"]),
        precision=row["precision"],
        tensor=tensor,
        data=replicas,
        context_parallel=shared,
        sequences=batch // replicas,
        zero=3,
        recompute=row["recompute"],
    )


def published(device):
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["device"] == device]
    return [r for r in rows if r["model"] not in HELD]


@pytest.mark.parametrize(("device", "most"), [("tpu-v7x", 0.1), ("tpu-v6e", 0.2)])
def test_published_steps(device, most):
    errors = []
    for row in published(device):
        found, expected = float(row["tokens_per_s"]), planned(row)
        step = expected.expected.value * expected.tokens_per_s_per_device / found
        assert expected.sol_step_s < step
        assert step < expected.expected.high
        errors.append(abs(found / expected.tokens_per_s_per_device - 1))
    assert len(errors) >= 5
    assert statistics.mean(errors) < most


def test_other_generations_are_less_sure():
    plan = {"seq": 4096, "data": 64, "zero": 3, "sequences": 2}
    near, far = (
        gambrel.train_plan("llama-2-7b", device, **plan).expected
        for device in ("tpu-v7x", "tpu-v5p")
    )
    assert (near.confidence, far.confidence) == ("medium", "low")
    assert "were not fitted" in far.reason


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(("device", "runtime"), [("tpu-v7x", "xla"), ("a100", "torch-compile")])
def test_a_compiler_runs_the_whole_backward_pass(device, runtime, recompute):
    """Nobody reads the gradients of weights within the pass; they are what it is for."""
    plan = {"seq": 1024, "data": 4, "zero": 1, "sequences": 1, "recompute": recompute}
    eager = gambrel.train_plan("llama-3.2-1b", "a100", runtime="pytorch", **plan)
    found = gambrel.train_plan("llama-3.2-1b", device, runtime=runtime, **plan)
    assert found.passes.total.matrix_flops == eager.passes.total.matrix_flops
    assert found.roofline_step_s > found.sol_step_s


def test_eager_kernels_in_a_graph_are_not_fused():
    """A graph takes the host out of the way; every op still reads and writes main memory."""
    plan = {"seq": 1024, "sequences": 16}
    eager, graph, fused = (
        gambrel.train_plan("gpt2", "a100", runtime=name, **plan).step_s
        for name in ("pytorch", "pytorch-graph", "torch-compile")
    )
    assert graph == pytest.approx(eager)
    assert graph > 1.2 * fused
