"""From the metadata of a GGUF file to the ``config.json`` that the model was converted from.

One table a family maps names of fields; what neither metadata nor table hold is read off the
tensors (vocabulary, tied head, biases). The keys are those of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and of llama.cpp's converter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gambrel.capture.weights.gguf import GgufHeader
from gambrel.errors import FileFormatError

Config: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How an architecture of llama.cpp is written in a ``config.json``.

    Attributes:
        model_type: Of the configuration.
        fields: Field → key behind the architecture's name; absent keys leave the field out.
        fixed: Fields with one value for the whole family.
        finish: Adds what needs arithmetic or a look at the tensors.
    """

    model_type: str
    fields: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[GgufHeader, Config], None] | None = None


def config_of(header: GgufHeader) -> Config:
    """The configuration of the model in a file, with the names that transformers gives fields.

    Args:
        header: Of the file.

    Raises:
        FileFormatError: No architecture is named, it is none that can be translated, or the file
            holds no model (a vocabulary, an adapter, a projector).
    """
    family = _family(header)
    config: Config = {"model_type": family.model_type, **family.fixed}
    for name, key in family.fields.items():
        value = header.of_architecture(key)
        if value is not None:
            config[name] = _one(header, key, value)
    title = header.metadata.get("general.name")
    if isinstance(title, str) and title.strip():
        config["_name_or_path"] = title.strip()
    vocab = _vocabulary(header)
    if vocab:
        config["vocab_size"] = vocab
    config["tie_word_embeddings"] = not _has(header, "output.weight")
    config["torch_dtype"] = "float16"
    if family.finish is not None:
        family.finish(header, config)
    return config


def _family(header: GgufHeader) -> Family:
    name = header.architecture
    if not name:
        raise FileFormatError(
            f"{header.path}: the metadata lacks 'general.architecture'; it is no model."
        )
    kind = header.metadata.get("general.type", "model")
    if kind != "model" or not header.tensors:
        what = kind if kind != "model" else "vocabulary"
        raise FileFormatError(f"{header.path} is a file of kind {what!r}; give the model's file.")
    if name not in FAMILIES:
        raise FileFormatError(
            f"{header.path}: the architecture {name[:40]!r} cannot be read from a GGUF file yet; "
            f"known: {', '.join(sorted(FAMILIES))}. Give the model's config.json instead."
        )
    return FAMILIES[name]


def _one(header: GgufHeader, key: str, value: Any) -> Any:
    """A number given for each layer is one number where all agree."""
    if not isinstance(value, tuple):
        return value
    distinct = dict.fromkeys(value)
    if len(distinct) != 1:
        raise FileFormatError(
            f"{header.path}: {header.architecture}.{key} differs from layer to layer, which is not "
            "known of this architecture; give the model's config.json instead."
        )
    return next(iter(distinct))


def _vocabulary(header: GgufHeader) -> int:
    for tensor in header.tensors:
        if tensor.name == "token_embd.weight" and tensor.shape:
            return tensor.shape[0]
    return header.lengths.get("tokenizer.ggml.tokens", 0)


def _has(header: GgufHeader, name: str) -> bool:
    return any(t.name == name for t in header.tensors)


def _ends(header: GgufHeader, end: str) -> bool:
    return any(t.name.endswith(end) for t in header.tensors)


_SIZES: Final = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
}
_DENSE: Final = {**_SIZES, "intermediate_size": "feed_forward_length"}
_HEADS: Final = {
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
}
_USUAL: Final = {**_DENSE, **_HEADS}
_EXPERTS: Final = {
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}
_LOCAL_EXPERTS: Final = {
    "num_local_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
}
_WINDOW: Final = {"sliding_window": "attention.sliding_window"}
_GPT2: Final = {
    "n_embd": "embedding_length",
    "n_layer": "block_count",
    "n_positions": "context_length",
    "n_inner": "feed_forward_length",
    "n_head": "attention.head_count",
}


def _llama(header: GgufHeader, config: Config) -> None:
    """llama.cpp calls Llama, Mistral and Mixtral "llama"; Mixtral is the one with experts."""
    config["attention_bias"] = _ends(header, "attn_q.bias")
    config["mlp_bias"] = _ends(header, "ffn_up.bias")
    if config.get("num_local_experts"):
        config["model_type"] = "mixtral"
        return
    config.pop("num_local_experts", None)
    config.pop("num_experts_per_tok", None)


def _qwen3_next(header: GgufHeader, config: Config) -> None:
    heads = config.get("linear_num_value_heads")
    inner = header.of_architecture("ssm.inner_size")
    if isinstance(heads, int) and isinstance(inner, int) and heads > 0:
        config["linear_value_head_dim"] = inner // heads
    config.setdefault("full_attention_interval", 4)


def _deepseek(header: GgufHeader, config: Config) -> None:
    """Files with the compressed cache call the re-expanded lengths ``..._mla``."""
    key = header.of_architecture("attention.key_length_mla")
    value = header.of_architecture("attention.value_length_mla")
    whole = key if key is not None else header.of_architecture("attention.key_length")
    rope = config.get("qk_rope_head_dim")
    if isinstance(whole, int) and isinstance(rope, int):
        config["qk_nope_head_dim"] = whole - rope
    length = value if value is not None else header.of_architecture("attention.value_length")
    if length is not None:
        config["v_head_dim"] = length
    config.setdefault("q_lora_rank", None)
    config["num_key_value_heads"] = config.get("num_attention_heads")
    config["model_type"] = "deepseek_v3" if _ends(header, "exp_probs_b.bias") else "deepseek_v2"
    extra = header.of_architecture("nextn_predict_layers")
    config["num_nextn_predict_layers"] = extra if isinstance(extra, int) else 0


def _mamba(_: GgufHeader, config: Config) -> None:
    inner, hidden = config.get("intermediate_size"), config.get("hidden_size")
    if isinstance(inner, int) and isinstance(hidden, int) and hidden > 0:
        config["expand"] = inner // hidden


def _mamba2(header: GgufHeader, config: Config) -> None:
    inner, heads = header.of_architecture("ssm.inner_size"), config.get("num_heads")
    if isinstance(inner, int) and isinstance(heads, int) and heads > 0:
        config["head_dim"] = inner // heads
        config["intermediate_size"] = inner
    _mamba(header, config)
    config.pop("intermediate_size", None)


def _falcon(_: GgufHeader, config: Config) -> None:
    heads = config.get("num_kv_heads", 1)
    config["new_decoder_architecture"] = isinstance(heads, int) and heads > 1
    config["multi_query"] = heads == 1


def _gpt_neox(header: GgufHeader, config: Config) -> None:
    parallel = header.of_architecture("use_parallel_residual")
    config["use_parallel_residual"] = parallel is not False


def _biases(header: GgufHeader, config: Config) -> None:
    config["attention_bias"] = _ends(header, "attn_q.bias")


def _gpt_oss(_: GgufHeader, config: Config) -> None:
    config.setdefault("sliding_window", 128)


#: llama.cpp's name of an architecture → how its configuration is written.
FAMILIES: Final[dict[str, Family]] = {
    "llama": Family(model_type="llama", fields=_USUAL | _LOCAL_EXPERTS, finish=_llama),
    "qwen2": Family(model_type="qwen2", fields=_USUAL),
    "qwen2moe": Family(
        model_type="qwen2_moe",
        fields=_USUAL
        | _EXPERTS
        | {"shared_expert_intermediate_size": "expert_shared_feed_forward_length"},
    ),
    "qwen3": Family(model_type="qwen3", fields=_USUAL),
    "qwen3moe": Family(model_type="qwen3_moe", fields=_USUAL | _EXPERTS),
    "qwen3next": Family(
        model_type="qwen3_next",
        fields=_USUAL
        | _EXPERTS
        | {
            "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
            "linear_num_value_heads": "ssm.time_step_rank",
            "linear_num_key_heads": "ssm.group_count",
            "linear_key_head_dim": "ssm.state_size",
            "linear_conv_kernel_dim": "ssm.conv_kernel",
            "full_attention_interval": "full_attention_interval",
        },
        finish=_qwen3_next,
    ),
    "gemma": Family(model_type="gemma", fields=_USUAL),
    "gemma2": Family(model_type="gemma2", fields=_USUAL | _WINDOW),
    "gemma3": Family(model_type="gemma3_text", fields=_USUAL | _WINDOW),
    "phi2": Family(model_type="phi", fields=_USUAL),
    "phi3": Family(model_type="phi3", fields=_USUAL | _WINDOW),
    "gpt2": Family(model_type="gpt2", fields=_GPT2),
    "gptneox": Family(model_type="gpt_neox", fields=_USUAL, finish=_gpt_neox),
    "gpt-oss": Family(
        model_type="gpt_oss",
        fields=_SIZES
        | _HEADS
        | _LOCAL_EXPERTS
        | _WINDOW
        | {"intermediate_size": "expert_feed_forward_length"},
        finish=_gpt_oss,
    ),
    "deepseek2": Family(
        model_type="deepseek_v3",
        fields=_DENSE
        | {
            "num_attention_heads": "attention.head_count",
            "q_lora_rank": "attention.q_lora_rank",
            "kv_lora_rank": "attention.kv_lora_rank",
            "qk_rope_head_dim": "rope.dimension_count",
            "n_routed_experts": "expert_count",
            "num_experts_per_tok": "expert_used_count",
            "n_shared_experts": "expert_shared_count",
            "moe_intermediate_size": "expert_feed_forward_length",
            "first_k_dense_replace": "leading_dense_block_count",
        },
        finish=_deepseek,
    ),
    "mamba": Family(
        model_type="mamba",
        fields={
            "hidden_size": "embedding_length",
            "num_hidden_layers": "block_count",
            "state_size": "ssm.state_size",
            "conv_kernel": "ssm.conv_kernel",
            "intermediate_size": "ssm.inner_size",
            "time_step_rank": "ssm.time_step_rank",
        },
        finish=_mamba,
    ),
    "mamba2": Family(
        model_type="mamba2",
        fields={
            "hidden_size": "embedding_length",
            "num_hidden_layers": "block_count",
            "state_size": "ssm.state_size",
            "conv_kernel": "ssm.conv_kernel",
            "num_heads": "ssm.time_step_rank",
            "n_groups": "ssm.group_count",
        },
        finish=_mamba2,
    ),
    "falcon": Family(
        model_type="falcon",
        fields=_SIZES
        | {
            "num_attention_heads": "attention.head_count",
            "num_kv_heads": "attention.head_count_kv",
            "ffn_hidden_size": "feed_forward_length",
        },
        fixed={"parallel_attn": True, "bias": False, "alibi": False},
        finish=_falcon,
    ),
    "starcoder2": Family(model_type="starcoder2", fields=_USUAL | _WINDOW),
    "olmo2": Family(model_type="olmo2", fields=_USUAL),
    "olmoe": Family(
        model_type="olmoe",
        fields=_USUAL | {"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
    ),
    "granite": Family(model_type="granite", fields=_USUAL, finish=_biases),
    "command-r": Family(model_type="cohere", fields=_USUAL, finish=_biases),
    "glm4": Family(model_type="glm4", fields=_USUAL, finish=_biases),
    "minimax-m2": Family(
        model_type="minimax_m2",
        fields=_SIZES
        | _HEADS
        | _LOCAL_EXPERTS
        | {"intermediate_size": "expert_feed_forward_length", "rotary_dim": "rope.dimension_count"},
    ),
}
