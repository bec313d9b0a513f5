"""Against the groups that torch's own compiler made, as stored by benchmarks/fusion_oracle.py."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import fusion

        yield fusion
    finally:
        sys.path.remove(str(BENCHMARKS))


MODELS = sorted(p.name.split(".")[0] for p in (BENCHMARKS / "data/fusion").glob("*.gpu.json"))


def test_at_least_eight_models_are_compared():
    assert len(MODELS) >= 8


@pytest.mark.parametrize("model", MODELS)
def test_kernels_and_traffic_are_those_of_the_compiler(benchmark, model):
    found = benchmark.compare(model)
    own, theirs = found.extern
    assert own == theirs
    own, theirs = found.fused
    assert own / theirs == pytest.approx(1.0, abs=0.2)
    assert found.total_ratio == pytest.approx(1.0, abs=0.05)
    assert found.fused_ratio == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("model", ["resnet50", "efficientnet_b0", "bert_base"])
def test_some_models_agree_kernel_by_kernel(benchmark, model):
    """The bytes of every fused kernel, sorted, agree to 0.1 %."""
    import msgspec

    from gambrel.analysis.fusion import group
    from gambrel.runtimes import Kernels

    oracle = msgspec.json.decode((benchmark.DATA / f"{model}.gpu.json").read_bytes())
    theirs = sorted(k["read_bytes"] + k["write_bytes"] for k in oracle["fused"])
    workload, evaluator = benchmark.program(model)
    own = sorted(
        k.traffic_bytes
        for k in group(workload, tuple(evaluator.costs()), Kernels.POINTWISE)
        if k.kind.startswith("fused")
    )
    assert own == pytest.approx(theirs, rel=1e-3, abs=64)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.filterwarnings("default")
def test_the_stored_observation_can_be_made_again(benchmark):
    pytest.importorskip("torch")
    import fusion_oracle

    found, workload = fusion_oracle.observe("resnet50", "gpu")
    stored = fusion_oracle.load("resnet50")
    assert found.fused == stored.fused
    assert found.extern == stored.extern
    assert len(workload.ops) == len(benchmark.program("resnet50")[0].ops)
