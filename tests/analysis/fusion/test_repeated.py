"""Repeated ops: a kernel of its own takes what it takes where nothing fuses."""

from __future__ import annotations

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.device.lookup import find
from gambrel.llm.known import spec_of
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import decode
from gambrel.llm.topology import topology_for

#: What no compiler merges with anything.
_APART = {"attention", "collective", "grouped_matmul"}


@pytest.mark.parametrize("name", ["llama-3.1-70b", "qwen3-235b-a22b"])
def test_kernels_that_stay_apart_take_as_long_as_in_eager_execution(name: str) -> None:
    device = find("h100").device
    node = topology_for(device)
    layout = Sharding(tensor=8)
    workload = build_rank(spec_of(name), decode(16, 4096), "fp8", layout, topology=node)
    placed = node.place(device, 8)
    eager, fused = (
        {op.name: op for op in analyze(workload, placed, Settings(runtime=r)).ops}
        for r in ("pytorch", "torch-compile")
    )
    checked = 0
    for op, own in eager.items():
        if own.kind in _APART:
            before = own.measures.expected_time_s
            after = fused[op].measures.expected_time_s
            assert before is not None
            assert after is not None
            assert after.value == pytest.approx(before.value, rel=1e-6)
            checked += 1
    assert checked >= 4


@pytest.mark.parametrize("runtime", ["torch-compile", "onnxruntime", "perfect"])
@pytest.mark.parametrize("name", ["qwen3-235b-a22b", "gpt-oss-120b", "deepseek-v3"])
def test_no_runtime_takes_the_router_for_dead_code(name: str, runtime: str) -> None:
    workload = build_rank(spec_of(name), decode(16, 4096))
    found = analyze(workload, find("h200").device, Settings(runtime=runtime))
    routers = [op for op in found.ops if op.name.endswith(("router", "topk"))]
    assert len(routers) >= 2
    assert all(op.measures.roofline_time_s is not None for op in found.ops)
