"""Dense decoders: Llama and its relatives, Qwen, Gemma, Phi 3, Cohere, GLM."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from gambrel.llm.config.common import (
    LAST_NORM,
    LAYER_NORMS,
    alike,
    attention,
    bias_of,
    biased,
    gated_mlp,
    mixed,
    plain_mlp,
    window_of,
    windowed,
)
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Layer, ModelSpec

#: Norms behind each part instead of before it.
_BEHIND: Final[dict[str, Any]] = {"pre_norms": False, "post_norms": True}


@family("llama", "granite", "internlm3")
def llama(f: Fields) -> ModelSpec:
    """Llama 2 and 3 and what is built like them."""
    return alike(f, attention(f, **biased(f)))


@family("smollm3", tie_word_embeddings=True)
def smollm3(f: Fields) -> ModelSpec:
    """SmolLM 3: Llama with one matrix for embedding and head."""
    return alike(f, attention(f, **biased(f)))


@family("arcee")
def arcee(f: Fields) -> ModelSpec:
    """Arcee: Llama with squared relu, no gate."""
    mlp = plain_mlp(f, bias=False, activation="relu")
    return alike(f, attention(f, **biased(f)), mlp)


@family("seed_oss", head_dim=128)
def seed_oss(f: Fields) -> ModelSpec:
    """Seed-OSS: Llama with biases on queries, keys and values."""
    qkv = "qkv" if f.flag("attention_bias", default=True) else ""
    out = f.flag("attention_out_bias", default=False)
    return alike(f, attention(f, qkv_bias=qkv, out_bias=out))


@family("olmo")
def olmo(f: Fields) -> ModelSpec:
    """OLMo 1: Llama with layer norms that have no weights."""
    norm = "layer_norm_free"
    return alike(f, attention(f, **biased(f)), layer={"norm": norm}, final_norm=norm)


@family("mistral", "ministral3")
def mistral(f: Fields) -> ModelSpec:
    """Mistral: a window where the file names one."""
    return alike(f, attention(f, window=f.optional("sliding_window")))


@family("ministral")
def ministral(f: Fields) -> ModelSpec:
    """Ministral 8B: windows and full attention alternate."""
    return windowed(f, layer_types(f))


@family("qwen2")
def qwen2(f: Fields) -> ModelSpec:
    """Qwen 2 and 2.5: biases on queries, keys and values; windows only where switched on."""
    return windowed(f, _switched_types(f), qkv_bias="qkv")


@family("qwen3", head_dim=128)
def qwen3(f: Fields) -> ModelSpec:
    """Qwen 3: norms of queries and keys."""
    return windowed(f, _switched_types(f), qk_norm="head", **biased(f))


def _switched_types(f: Fields) -> tuple[str, ...]:
    """Layers have windows only where these are switched on."""
    listed = layer_types(f)
    on = f.flag("use_sliding_window", default=False)
    return listed if on else ("full_attention",) * f.layers


#: What ``layer_types`` may say of a layer of attention.
_ATTENTIONS: Final = frozenset({"full_attention", "sliding_attention"})


def layer_types(f: Fields, every: int | None = None) -> tuple[str, ...]:
    """The kind of each layer: as listed, else full attention in every n-th, else in all.

    Args:
        f: The fields.
        every: Full attention in each layer of this multiple, sliding elsewhere.
    """
    given = f.names("layer_types", count=f.layers)
    if given is not None:
        for kind in set(given) - _ATTENTIONS:
            f.refuse(("layer_types",), kind, " and ".join(sorted(_ATTENTIONS)))
        return given
    step = f.optional("sliding_window_pattern", "_sliding_window_pattern") or every
    if step is None:
        return ("full_attention",) * f.layers
    return every_nth(f, step)


def every_nth(f: Fields, step: int, rest: str = "sliding_attention") -> tuple[str, ...]:
    """Full attention in every n-th layer."""
    return tuple("full_attention" if (i + 1) % step == 0 else rest for i in range(f.layers))


@family("olmo2", "olmo3")
def olmo2(f: Fields) -> ModelSpec:
    """OLMo 2 and 3: norms behind each part, and over whole queries and keys."""
    types = layer_types(f, every=4 if f.family == "olmo3" else None)
    return windowed(f, types, layer=_BEHIND, qk_norm="full", **biased(f))


@family("gemma", head_dim=256, tie_word_embeddings=True)
def gemma(f: Fields) -> ModelSpec:
    """Gemma 1."""
    return alike(f, attention(f), gated_mlp(f, activation="gelu_tanh"), shifted_norms=True)


#: Scale, cap, mask, softmax in fp32.
_CAPPED: Final = ("mul", "div", "tanh", "mul", "add", "cast", "softmax", "cast")


@family("gemma2", head_dim=256, sliding_window=4096, tie_word_embeddings=True)
def gemma2(f: Fields) -> ModelSpec:
    """Gemma 2: windows alternate with full attention, norms before and behind each part."""
    return _gemma(f, every=2, scores=_CAPPED)


@family(
    "gemma3_text",
    head_dim=256,
    sliding_window=4096,
    tie_word_embeddings=True,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=262208,
)
def gemma3(f: Fields) -> ModelSpec:
    """Gemma 3: full attention in every sixth layer, norms of heads."""
    return _gemma(f, every=6, qk_norm="head")


def _gemma(f: Fields, every: int, **changes: Any) -> ModelSpec:
    mlp = gated_mlp(f, activation="gelu_tanh")
    layer = {"post_norms": True}
    spec = windowed(f, layer_types(f, every), mlp, layer, **biased(f), **changes)
    return replace(spec, shifted_norms=True)


@family("phi3")
def phi3(f: Fields) -> ModelSpec:
    """Phi 3, 3.5, 4: one matrix for queries, keys, values, one for gate and up."""
    mixer = attention(f, fused="qkv", window=f.optional("sliding_window"))
    # Its code joins what is rotated with the rest of a head, even where that is nothing.
    mixer = replace(mixer, rotary_dim=mixer.rotary_dim or mixer.head_dim)
    return alike(f, mixer, gated_mlp(f, fused=True))


@family("stablelm", partial_rotary_factor=0.25)
def stablelm(f: Fields) -> ModelSpec:
    """StableLM: layer norms, biases on queries, keys, values where switched on."""
    bias = "qkv" if f.flag("use_qkv_bias", default=False) else ""
    parallel = f.flag("use_parallel_residual", default=False)
    layer = {**LAYER_NORMS, "parallel": parallel}
    return alike(f, attention(f, qkv_bias=bias), layer=layer, **LAST_NORM)


@family("starcoder2", tie_word_embeddings=True)
def starcoder2(f: Fields) -> ModelSpec:
    """StarCoder 2: layer norms, biases, no gate."""
    bias = f.flag("use_bias", default=True)
    mixer = attention(f, **bias_of(bias), window=f.optional("sliding_window"))
    mlp = plain_mlp(f, default="gelu_pytorch_tanh", bias=bias)
    return alike(f, mixer, mlp, LAYER_NORMS, **LAST_NORM)


@family("cohere", tie_word_embeddings=True)
def cohere(f: Fields) -> ModelSpec:
    """Command R: one norm without bias, parts beside each other, tied."""
    return _cohere(f, ("full_attention",) * f.layers, second=False)


@family("cohere2", sliding_window=4096, tie_word_embeddings=True)
def cohere2(f: Fields) -> ModelSpec:
    """Command R7B and A: windows with rotations, full attention without in every fourth layer."""
    return _cohere(f, layer_types(f, every=4), second=True)


def _cohere(f: Fields, types: tuple[str, ...], *, second: bool) -> ModelSpec:
    norms = "full" if f.flag("use_qk_norm", default=False) else ""

    def layer(kind: str) -> Layer:
        mixer = attention(
            f,
            window=window_of(f, kind),
            rope=not second or kind == "sliding_attention",
            qk_norm=norms,
            **biased(f),
        )
        return Layer(mixer=mixer, feed_forward=gated_mlp(f), norm="layer_norm", parallel=True)

    return mixed(f, types, layer, final_norm="layer_norm", written_norms=True)


@family("glm", "glm4", partial_rotary_factor=0.5, head_dim=128)
def glm(f: Fields) -> ModelSpec:
    """GLM 4: half of each head rotated, gate and up in one matrix, norms behind (GLM-4-0414)."""
    bias = "qkv" if f.flag("attention_bias", default=True) else ""
    layer = {"post_norms": f.family == "glm4"}
    return alike(f, attention(f, qkv_bias=bias), gated_mlp(f, fused=True), layer)


@family("nemotron", partial_rotary_factor=0.5)
def nemotron(f: Fields) -> ModelSpec:
    """Nemotron 3 and 4, Minitron: layer norms, squared relu without gate."""
    mlp = plain_mlp(f, bias=f.flag("mlp_bias", default=False), activation="relu")
    return alike(f, attention(f, **biased(f)), mlp, LAYER_NORMS, **LAST_NORM)


@family("exaone4")
def exaone4(f: Fields) -> ModelSpec:
    """EXAONE 4: norms behind each part and of heads; windows in a pattern (32B)."""
    window, given = f.optional("sliding_window"), f.raw("sliding_window_pattern")
    every = len(given) if isinstance(given, str) else given
    types = f.names("layer_types", count=f.layers) or tuple(
        "sliding_attention"
        if window and every and (i + 1) % every and i != f.layers - 1
        else "full_attention"
        for i in range(f.layers)
    )
    return windowed(f, types, layer=_BEHIND, qk_norm="head")
