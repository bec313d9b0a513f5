"""Whole model files as converters write them, small, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.capture.weights.writer import Writer

Tensors = list[tuple[str, Sequence[int], str]]


def llama_metadata(**changes: Any) -> dict[str, Any]:
    """Metadata of a Llama with 4 layers; None leaves a key out."""
    found: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "Tiny Llama",
        "llama.block_count": 4,
        "llama.context_length": 4096,
        "llama.embedding_length": 512,
        "llama.feed_forward_length": 1024,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 4,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": 64,
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(1000)],
    }
    found.update(changes)
    return {k: v for k, v in found.items() if v is not None}


def llama_tensors(*, tied: bool = False, layers: int = 4) -> Tensors:
    """As q4_k_m mixes formats: every other layer has its values and down projection in q6_k."""
    found: Tensors = [("token_embd.weight", (1000, 512), "q4_k")]
    found.append(("output_norm.weight", (512,), "f32"))
    if not tied:
        found.append(("output.weight", (1000, 512), "q6_k"))
    for i in range(layers):
        wide = "q6_k" if i % 2 else "q4_k"
        for name, shape, form in (
            ("attn_norm", (512,), "f32"),
            ("attn_q", (512, 512), "q4_k"),
            ("attn_k", (256, 512), "q4_k"),
            ("attn_v", (256, 512), wide),
            ("attn_output", (512, 512), "q4_k"),
            ("ffn_norm", (512,), "f32"),
            ("ffn_gate", (1024, 512), "q4_k"),
            ("ffn_up", (1024, 512), "q4_k"),
            ("ffn_down", (512, 1024), wide),
        ):
            found.append((f"blk.{i}.{name}.weight", shape, form))
    return found


def mixtral_metadata() -> dict[str, Any]:
    """The same with 4 experts, of which a token passes 2."""
    return llama_metadata(**{"llama.expert_count": 4, "llama.expert_used_count": 2})


def mixtral_tensors() -> Tensors:
    """Gate and up projections in different formats."""
    found: Tensors = [t for t in llama_tensors() if ".ffn_" not in t[0] or "norm" in t[0]]
    for i in range(4):
        found += [
            (f"blk.{i}.ffn_gate_inp.weight", (4, 512), "f32"),
            (f"blk.{i}.ffn_gate_exps.weight", (4, 1024, 512), "q4_k"),
            (f"blk.{i}.ffn_up_exps.weight", (4, 1024, 512), "q6_k"),
            (f"blk.{i}.ffn_down_exps.weight", (4, 512, 1024), "q8_0"),
        ]
    return found


def write_model(path: Path, metadata: dict[str, Any], tensors: Tensors) -> Path:
    """A file of a whole model; the weights are zeros."""
    path.write_bytes(Writer().file(metadata, tensors))
    return path
