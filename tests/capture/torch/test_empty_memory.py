"""Tensors without elements: caches before their first token, masks that select nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gambrel
from gambrel.capture.torch import capture

pytestmark = pytest.mark.torch

_SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def _llama(lib: Any) -> tuple[Any, dict[str, Any]]:
    return lib.LlamaForCausalLM(lib.LlamaConfig(**_SMALL)), {"input_ids": _ids()}


def _gpt2(lib: Any) -> tuple[Any, dict[str, Any]]:
    config = lib.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4)
    return lib.GPT2LMHeadModel(config), {"input_ids": _ids()}


def _t5(lib: Any) -> tuple[Any, dict[str, Any]]:
    config = lib.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    inputs = {"input_ids": _ids(), "decoder_input_ids": _ids()}
    return lib.T5ForConditionalGeneration(config), inputs


def _ids() -> torch.Tensor:
    return torch.randint(3, 90, (2, 8))


@pytest.mark.parametrize("build", [_llama, _gpt2, _t5])
def test_training_step_of_a_model_that_makes_a_cache(
    transformers: Any, build: Callable[[Any], tuple[Any, dict[str, Any]]]
) -> None:
    model, inputs = build(transformers)
    workload = capture(model, (), inputs, train=True)
    # The cache begins with an empty tensor that the first keys are joined to.
    assert any(0 in t.shape for t in workload.tensors)
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.coverage == 1
    assert analysis.footprint.total_bytes > 0


class _Selected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.linear(x[mask])


class _Adaptive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.AdaptiveLogSoftmaxWithLoss(16, 100, [10, 50])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(x, y).loss


@pytest.mark.parametrize("train", [False, True])
def test_a_mask_that_selects_nothing(train: bool) -> None:
    nothing = torch.zeros(8, dtype=torch.bool)
    workload = capture(_Selected(), (torch.randn(8, 16), nothing), train=train)
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.coverage == 1
    assert next(op for op in workload.ops if op.kind == "matmul").sizes["m"] == 0


@pytest.mark.parametrize("train", [False, True])
def test_targets_that_leave_clusters_empty(train: bool) -> None:
    inputs = (torch.randn(8, 16), torch.zeros(8, dtype=torch.long))
    analysis = gambrel.analyze(capture(_Adaptive(), inputs, train=train), "h100")
    assert analysis.coverage == 1
