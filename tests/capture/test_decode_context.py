"""A decode step at context C attends to C tokens, the new one among them, however it is made."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from gambrel.analysis.question import FIELDS
from gambrel.capture import zoo
from gambrel.capture.closed_form import workload_of_config
from gambrel.capture.torch.huggingface import workload_from_config
from gambrel.workload import Workload
from gambrel.workload.binding import bind

pytestmark = pytest.mark.torch

_CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "torch_dtype": "bfloat16",
}


def _attended(workload: Workload) -> set[tuple[int, int]]:
    found = [op.sizes for op in workload.ops if op.kind == "attention"]
    return {(int(s["q_len"]), int(s["kv_len"])) for s in found}


@pytest.mark.parametrize("context", [16, 77])
def test_captured_closed_and_stored_agree(context: int) -> None:
    sizes = {"batch": 2, "context": context}
    captured = workload_from_config(_CONFIG, phase="decode", **sizes)
    closed = bind(workload_of_config(_CONFIG, phase="decode"), sizes)
    stored = bind(zoo.load("llama-3-8b-decode"), sizes)
    assert _attended(captured) == _attended(closed) == _attended(stored) == {(1, context)}


def test_help_says_so() -> None:
    assert "including itself" in FIELDS["context"].help
