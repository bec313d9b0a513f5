"""The closed form beside a capture of transformers' own architecture, op kind by op kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import parameter_count
from gambrel.capture.closed_form import workload_of_config
from gambrel.ops import Conventions
from gambrel.workload import Workload

#: Kinds that must agree. Norms, activations and rotations are split into other ops by a framework.
KINDS = ("matmul", "grouped_matmul", "attention", "convolution", "selective_scan", "ssd_scan")

Totals = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Both:
    """FLOP and bytes by kind, and parameters, of the closed form and of the capture."""

    own: Totals
    captured: Totals
    own_parameters: int
    captured_parameters: int

    def differences(self) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
        """Kind → (own, captured), where FLOP or bytes differ."""
        none = (0, 0)
        kinds = dict.fromkeys((*self.own, *self.captured))
        pairs = {k: (self.own.get(k, none), self.captured.get(k, none)) for k in kinds}
        return {k: pair for k, pair in pairs.items() if pair[0] != pair[1]}


def totals(workload: Workload, causal: str = "half", **sizes: int) -> tuple[Totals, int]:
    """(FLOP on the matrix engine, bytes) by kind, and parameters."""
    values = workload.resolve_symbols(sizes)
    evaluator = Evaluator(workload, values, {}, Conventions(causal=causal))
    found: Totals = {}
    for op, _, cost in evaluator.costs():
        if op.kind not in KINDS or cost is None:
            continue
        flops = sum(n for (engine, _), n in cost.work.items() if engine.value == "matrix")
        before = found.get(op.kind, (0, 0))
        moved = cost.read_bytes + cost.write_bytes
        found[op.kind] = (before[0] + op.repeat * flops, before[1] + op.repeat * moved)
    return found, parameter_count(workload, evaluator)


def compare(config: dict[str, Any], phase: str | None, sizes: dict[str, int]) -> Both:
    """Builds and captures the same step."""
    from gambrel.capture.torch.huggingface import HuggingFaceModel

    model = HuggingFaceModel(config)
    captured, _ = totals(model.capture(phase, sizes))
    own, parameters = totals(workload_of_config(config, phase=phase, sizes=sizes), **sizes)
    theirs = sum(p.numel() for p in model.module.parameters())
    return Both(own=own, captured=captured, own_parameters=parameters, captured_parameters=theirs)


_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 160,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
_MLA = {
    **_MOE,
    "num_key_value_heads": 8,
    "head_dim": 8,
    "q_lora_rank": 48,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
_MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 32,
}
_GPT = {"n_embd": 64, "n_head": 8, "n_layer": 4, "n_positions": 512}

#: Model type → what its small configuration has besides.
DECODERS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "granite": {},
    "arcee": {},
    "smollm3": {},
    "seed_oss": {"head_dim": 16},
    "olmo": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "olmo2": {},
    "gemma": {"head_dim": 16},
    "phi3": {},
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neox": {},
    "opt": {"ffn_dim": 112, "word_embed_proj_dim": 64},
    "stablelm": {},
    "starcoder2": {},
    "cohere": {},
    "glm": {"head_dim": 16},
    "glm4": {"head_dim": 16},
    "nemotron": {},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    "minimax_m2": {
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "head_dim": 16,
        "rotary_dim": 8,
    },
    "olmoe": {"num_experts": 8, "num_experts_per_tok": 2},
    "qwen2_moe": {**_MOE, "num_experts": 8, "shared_expert_intermediate_size": 96},
    "qwen3_moe": {**_MOE, "num_experts": 8, "head_dim": 16},
    "granitemoe": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "granitemoeshared": {
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 96,
    },
}

#: Captured in prefill only: transformers keeps their state in Python, or computes otherwise.
PREFILL_ONLY: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 8, "expand": 2, "time_step_rank": 8, "intermediate_size": 128},
    "falcon_mamba": {"state_size": 8, "expand": 2, "time_step_rank": 8, "intermediate_size": 128},
    "mamba2": {
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "n_groups": 2,
        "expand": 2,
        "chunk_size": 32,
    },
    "jamba": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_d_state": 8,
        "mamba_dt_rank": 8,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "use_mamba_kernels": False,
    },
    "bamba": {**_MAMBA2, "attn_layer_indices": [1]},
    "granitemoehybrid": {
        **_MAMBA2,
        "layer_types": ["mamba", "attention", "mamba", "mamba"],
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 96,
    },
    "falcon_h1": {**_MAMBA2, "mamba_d_ssm": 128},
    "nemotron_h": {
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "n_groups": 2,
        "chunk_size": 32,
        "layers_block_type": ["mamba", "mlp", "mamba", "attention"],
        "head_dim": 16,
        "expand": 2,
    },
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "conv"]},
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "n_mamba_heads": 8,
        "mamba_d_state": 16,
        "mamba_ngroups": 1,
        "chunk_size": 32,
        "num_mem_blocks": 1,
        "attention_head_dim": 16,
    },
}

#: Types whose capture differs for a reason: kinds that differ, and why the closed form is right.
DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "phi": ({}, "the capture adds the head's bias in an op of its own: bytes of the bias"),
    "phimoe": (
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "attention_bias": True,
            "lm_head_bias": True,
            "sliding_window": None,
        },
        "as phi",
    ),
    "ministral": (
        {
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 24,
            "head_dim": 16,
        },
        "windows: transformers masks, and its kernel is counted over all positions",
    ),
    "olmo3": ({"sliding_window": 24}, "windows"),
    "gemma2": (
        {"sliding_window": 24, "head_dim": 16},
        "eager attention (capped scores): two products and a matrix of scores",
    ),
    "gemma3_text": ({"sliding_window": 24, "head_dim": 16}, "windows"),
    "cohere2": ({"sliding_window": 24}, "windows"),
    "exaone4": ({"sliding_window": 24, "sliding_window_pattern": 4}, "windows"),
    "gpt_oss": (
        {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 24, "head_dim": 16},
        "windows and eager attention (sinks); biases of experts in ops of their own",
    ),
    "gptj": (_GPT | {"rotary_dim": 8}, "eager attention"),
    "bloom": ({"n_head": 8, "n_layer": 4}, "eager attention"),
    "falcon": ({}, "a mask in prefill: all pairs counted, and the mask read"),
    "glm4_moe": (
        {
            **_MOE,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "use_qk_norm": True,
            "n_group": 1,
            "topk_group": 1,
        },
        "the router's weights are cast to fp32 at each step",
    ),
    "dots1": (
        {
            **_MOE,
            "n_routed_experts": 8,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
        },
        "the router in fp32",
    ),
    "deepseek_v2": (_MLA, "the router in fp32; decode expands the cached latents"),
    "deepseek_v3": (_MLA | {"n_shared_experts": 1}, "as deepseek_v2"),
    "llama4_text": (
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 96,
            "interleave_moe_layer_step": 2,
            "attention_chunk_size": 32,
            "head_dim": 16,
        },
        "every token passes all experts in transformers; chunks are masked",
    ),
    "qwen3_next": (
        {
            **_MOE,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 8,
            "shared_expert_intermediate_size": 48,
            "head_dim": 16,
        },
        "the delta rule is a loop of products there, one op here",
    ),
}


def small(model_type: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration small enough to capture in a moment."""
    return {"model_type": model_type, **_SMALL, **changes}
