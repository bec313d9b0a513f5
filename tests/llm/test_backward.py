"""The derived backward pass against a captured training step of the same architecture."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from gambrel.analysis.evaluate import Evaluator
from gambrel.llm.backward import with_backward
from gambrel.llm.build import build
from gambrel.llm.known import spec_of
from gambrel.llm.step import prefill
from gambrel.ops import Conventions

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 128,
    "tie_word_embeddings": False,
}


def products(workload):
    """Phase and kind → matrix FLOP."""
    found = Counter()
    for op, _, cost in Evaluator(workload, {}, {}, Conventions()).costs():
        if cost is None:
            continue
        work = sum(n for (engine, _), n in cost.work.items() if engine.value == "matrix")
        found[op.phase.value, op.kind] += op.repeat * work
    return {key: n for key, n in found.items() if n}


@pytest.mark.torch
def test_products_are_those_of_a_captured_step():
    torch = pytest.importorskip("torch")
    from gambrel.capture.torch import capture

    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.RMSNorm(64) for _ in range(2))
            self.q, self.k, self.v, self.o = (nn.Linear(64, 64, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(64, 96, bias=False) for _ in range(2))
            self.down = nn.Linear(96, 64, bias=False)

        def forward(self, x):
            h = self.norms[0](x)
            split = [p(h).unflatten(-1, (4, 16)).transpose(1, 2) for p in (self.q, self.k, self.v)]
            mixed = functional.scaled_dot_product_attention(*split, is_causal=True)
            x = x + self.o(mixed.transpose(1, 2).flatten(-2))
            h = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(h)) * self.up(h))

    model = nn.Sequential(
        nn.Embedding(128, 64), Layer(), Layer(), nn.RMSNorm(64), nn.Linear(64, 128, bias=False)
    )
    tokens = torch.zeros(2, 32, dtype=torch.long)
    captured = products(capture(model, tokens, train=True))
    own = with_backward(build(spec_of(CONFIG), replace(prefill(2, 32), outputs=64), "fp32"))
    assert products(own) == captured
