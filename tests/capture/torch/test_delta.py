"""Delta-rule attention: the kernel's work, not that of the library's fallback in torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gambrel
from gambrel.capture.closed_form import workload_of_config
from gambrel.capture.torch import capture
from gambrel.workload import Workload
from gambrel.workload.binding import bind
from gambrel.workload.formats import in_format

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def config(transformers: Any) -> Any:
    return transformers.Qwen3NextConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    )


@pytest.fixture(scope="module")
def model(transformers: Any, config: Any) -> Any:
    return transformers.Qwen3NextForCausalLM(config).eval()


def _inputs(tokens: int) -> dict[str, Any]:
    ids = torch.zeros(2, tokens, dtype=torch.long)
    return {"input_ids": ids, "use_cache": False, "logits_to_keep": 1}


def _scans(workload: Workload) -> list[dict[str, Any]]:
    return [op.sizes for op in workload.ops if op.kind == "delta_scan"]


def _flops(analysis: Any, kind: str) -> int:
    return sum(op.measures.flops for op in analysis.ops if op.kind == kind)


def test_live_equals_the_closed_form(model: Any, config: Any) -> None:
    live = capture(model, (), _inputs(70))
    described = {**config.to_dict(), "architectures": ["Qwen3NextForCausalLM"]}
    closed = bind(workload_of_config(described, phase="prefill"), {"batch": 2, "seq": 70})
    sizes = {"batch": 2, "seq": 70, "heads": 4, "key_dim": 16, "value_dim": 16}
    assert _scans(live) == [sizes] * 3
    ours, theirs = (gambrel.analyze(w, "h100", precision="fp32") for w in (live, closed))
    for kind in ("matmul", "grouped_matmul", "attention", "delta_scan"):
        assert _flops(ours, kind) == _flops(theirs, kind)
    # What is left is element-wise: a norm is six ops of the library's and one here.
    assert ours.flops == pytest.approx(theirs.flops, rel=0.001)


def test_work_is_linear_in_the_tokens(model: Any) -> None:
    # The chunked fallback pads to 64 tokens and repeats products in each chunk.
    one, two = (len(capture(model, (), _inputs(n)).ops) for n in (33, 200))
    assert one == two


def test_capture_says_what_a_real_run_does(model: Any) -> None:
    named = [op.name for op in in_format(capture(model, (), _inputs(9)), "fp32").ops]
    real = [op.name for op in capture(model, (), _inputs(9), execute=True).ops]
    assert named == real


def test_backward_is_one_op(model: Any) -> None:
    workload = capture(model, (), _inputs(9), train=True)
    kinds = [op.kind for op in workload.ops]
    assert kinds.count("delta_scan_backward") == 3
    assert gambrel.analyze(workload, "h100").coverage == 1
