"""Configurations of TensorRT-LLM: of a checkpoint, and of an engine with its checkpoint's inside.

Fields as TensorRT-LLM 0.20 writes them (https://nvidia.github.io/TensorRT-LLM/architecture/
checkpoint.html, 2025-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.fields import Fields

#: An engine holds the configuration of its checkpoint under this name.
INNER: Final = "pretrained_config"
#: Architecture → ``model_type`` of transformers, where both describe the layers alike.
_TYPES: Final[dict[str, str]] = {
    "LlamaForCausalLM": "llama",
    "LLaMAForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "QWenForCausalLM": "qwen2",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2",
    "Phi3ForCausalLM": "phi3",
}
#: Types of ``qwen_type`` that are read.
_QWEN: Final = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
#: Field of transformers → that of TensorRT-LLM.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "hidden_size": ("hidden_size",),
    "intermediate_size": ("intermediate_size",),
    "num_hidden_layers": ("num_hidden_layers",),
    "num_attention_heads": ("num_attention_heads",),
    "num_key_value_heads": ("num_key_value_heads",),
    "head_dim": ("head_size",),
    "vocab_size": ("vocab_size",),
    "max_position_embeddings": ("max_position_embeddings",),
    "torch_dtype": ("dtype",),
    "attention_bias": ("attn_bias",),
    "mlp_bias": ("mlp_bias",),
    "tie_word_embeddings": ("share_embedding_table", "tie_word_embeddings"),
    "partial_rotary_factor": ("rotary_pct",),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "shared_expert_intermediate_size": ("moe_shared_expert_intermediate_size",),
    "norm_topk_prob": ("norm_topk_prob",),
}
_METHOD: Final = {"quant_method": "modelopt"}
#: Activations with a gate, which transformers names without it.
_GATED: Final = {"swiglu": "silu", "geglu": "gelu", "fused-swiglu": "silu"}


def is_tensorrt_llm(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is one of these."""
    inner = config.get(INNER)
    if isinstance(inner, Mapping):
        return "build_config" in config or "architecture" in inner
    return "model_type" not in config and isinstance(config.get("architecture"), str) and (
        "num_hidden_layers" in config
    )  # fmt: skip


def inner_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The checkpoint's part of an engine's configuration."""
    inner = config.get(INNER)
    return inner if isinstance(inner, Mapping) else config


def from_tensorrt_llm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the fields of transformers.

    Raises:
        CaptureError: An architecture whose layers are not described as transformers does.
    """
    inner = inner_of(config)
    f = Fields(inner, "TensorRT-LLM")
    architecture = f.text("architecture", default="")
    model_type = _TYPES.get(architecture)
    if model_type is None:
        raise CaptureError(
            f"TensorRT-LLM's architecture {architecture!r:.60} is not read from its engine; give "
            "the config.json of the model that it was built from."
        )
    experts = f.part("moe")
    many = experts is not None and experts.whole("num_experts", least=0, default=0) > 0
    if model_type.startswith("qwen"):
        model_type = _qwen(f, model_type)
    elif many and model_type in ("llama", "mistral"):
        model_type = "mixtral"  # as Mixtral is built
    found: dict[str, Any] = {"model_type": model_type}
    for name, own in _FIELDS.items():
        value = f.raw(*own)
        if value is not None and not (value == 0 and name.endswith("_size")):
            found[name] = value
    act = f.text("hidden_act", default="silu")
    found["hidden_act"] = _GATED.get(act, act)
    if many and experts is not None:
        count = experts.whole("num_experts", most=65_536)
        found |= {"num_experts": count, "num_local_experts": count}
        found["num_experts_per_tok"] = experts.whole("top_k", default=1)
    return found | _quantization(f)


def _qwen(f: Fields, usual: str) -> str:
    kind = f.text("qwen_type", default=usual)
    if kind not in _QWEN:
        f.refuse(("qwen_type",), kind, " or ".join(_QWEN))
    return kind


def _quantization(f: Fields) -> dict[str, Any]:
    part = f.part("quantization")
    weights = part.raw("quant_algo") if part is not None else None
    cache = part.raw("kv_cache_quant_algo") if part is not None else None
    if part is None or (weights is None and cache is None):
        return {}
    return {"quantization_config": {**part.given, **_METHOD, "dtype": f.dtype() or "bf16"}}
