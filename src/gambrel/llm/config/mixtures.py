"""Mixtures of experts: Mixtral, Qwen, OLMoE, Phi, Granite, DeepSeek, gpt-oss, MiniMax, Llama 4."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from gambrel.llm.config.common import (
    LAST_NORM,
    LAYER_NORMS,
    activation,
    alike,
    attention,
    biased,
    check_choice,
    decoder,
    gated_mlp,
    mixed,
    pattern,
    windowed,
)
from gambrel.llm.config.dense import layer_types
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import LIMITS, Fields
from gambrel.llm.spec import (
    Attention,
    FeedForward,
    Indexer,
    LatentAttention,
    Layer,
    Mixture,
    Mlp,
    ModelSpec,
)


def routed(f: Fields, experts_names: tuple[str, ...], width: int, **changes: Any) -> Mixture:
    """A mixture whose number of experts has one of these names."""
    experts = f.whole(*experts_names, most=LIMITS["experts"])
    top_k = f.whole(
        "num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_k"
    )
    check_choice(f, experts, top_k)
    fields: dict[str, Any] = {"activation": activation(f), **changes}
    return Mixture(experts=experts, top_k=top_k, width=width, **fields)


@family("mixtral")
def mixtral(f: Fields) -> ModelSpec:
    """Mixtral."""
    mixture = routed(f, ("num_local_experts",), f.inner)
    return alike(f, attention(f, window=f.optional("sliding_window")), mixture)


@family("minimax_m2")
def minimax_m2(f: Fields) -> ModelSpec:
    """MiniMax M2: norms over whole queries and keys, part of each head rotated."""
    rotary = f.optional("rotary_dim")
    mixture = routed(f, ("num_local_experts",), f.inner, correction_bias=True)
    mixer = attention(f, qk_norm="full", **({"rotary_dim": rotary} if rotary else {}))
    return alike(f, mixer, mixture)


@family("phimoe")
def phimoe(f: Fields) -> ModelSpec:
    """Phi 3.5 MoE: layer norms, a bias of the head."""
    mixer = attention(f, window=f.optional("sliding_window"), **biased(f))
    mixture = routed(f, ("num_local_experts",), f.inner)
    bias = f.flag("lm_head_bias", default=False)
    return alike(f, mixer, mixture, LAYER_NORMS, **LAST_NORM, head_bias=bias)


@family("olmoe")
def olmoe(f: Fields) -> ModelSpec:
    """OLMoE: norms over whole queries and keys."""
    mixture = routed(f, ("num_experts",), f.inner)
    return alike(f, attention(f, qk_norm="full", **biased(f)), mixture)


@family("qwen2_moe")
def qwen2_moe(f: Fields) -> ModelSpec:
    """Qwen 1.5 and 2 MoE: a shared expert behind a gate."""
    shared = f.whole("shared_expert_intermediate_size")
    mixture = routed(
        f, ("num_experts",), f.whole("moe_intermediate_size"), shared_width=shared, shared_gate=True
    )
    return _sparse_steps(
        f, attention(f, qkv_bias="qkv" if f.flag("qkv_bias", default=True) else ""), mixture
    )


@family("qwen3_moe")
def qwen3_moe(f: Fields) -> ModelSpec:
    """Qwen 3 MoE: norms of heads."""
    mixture = routed(f, ("num_experts", "num_local_experts"), f.whole("moe_intermediate_size"))
    return _sparse_steps(f, attention(f, qk_norm="head", **biased(f)), mixture)


def sparse_layers(f: Fields) -> tuple[bool, ...]:
    """Which layers have a mixture: every n-th, but for those listed as dense."""
    step = f.whole("decoder_sparse_step", default=1)
    dense = f.wholes("mlp_only_layers") or ()
    return tuple(i not in dense and (i + 1) % step == 0 for i in range(f.layers))


def _sparse_steps(f: Fields, mixer: Attention, mixture: Mixture) -> ModelSpec:
    return _some_sparse(f, Layer(mixer=mixer), mixture, sparse_layers(f))


def _some_sparse(
    f: Fields, layer: Layer, mixture: Mixture, sparse: Iterable[bool], **changes: Any
) -> ModelSpec:
    """A mixture in the layers that are sparse, a gated network in the others."""
    kinds = ("moe_layers" if one else "dense_layers" for one in sparse)

    def of(kind: str) -> Layer:
        feed: FeedForward = mixture if kind == "moe_layers" else gated_mlp(f)
        return replace(layer, feed_forward=feed)

    return mixed(f, kinds, of, **changes)


@family("granitemoe", "granitemoeshared")
def granitemoe(f: Fields) -> ModelSpec:
    """Granite 3 MoE: with a shared expert or without."""
    shared = f.whole("shared_intermediate_size", default=0, least=0)
    mixture = routed(f, ("num_local_experts",), f.inner, shared_width=shared, shared_fused=True)
    return alike(f, attention(f, **biased(f)), mixture)


@family("glm4_moe", partial_rotary_factor=0.5)
def glm4_moe(f: Fields) -> ModelSpec:
    """GLM 4.5: leading dense layers, shared experts, half of each head rotated."""
    mixer = attention(
        f,
        qkv_bias="qkv" if f.flag("attention_bias", default=False) else "",
        qk_norm="head" if f.flag("use_qk_norm", default=False) else "",
    )
    return _leading_dense(f, Layer(mixer=mixer), _beside_shared(f, shared=1))


def _beside_shared(f: Fields, shared: int, *, correction_bias: bool = True) -> Mixture:
    """Routed experts beside shared ones of the same width.

    Args:
        f: The fields.
        shared: Shared experts where the file names no number.
        correction_bias: Whether choosing experts has a bias.
    """
    width = f.whole("moe_intermediate_size")
    return routed(
        f,
        ("n_routed_experts",),
        width,
        correction_bias=correction_bias,
        shared_width=width * f.whole("n_shared_experts", default=shared, least=0),
    )


@family("dots1")
def dots1(f: Fields) -> ModelSpec:
    """dots.llm1: leading dense layers, shared experts, norms of heads."""
    layer = Layer(mixer=attention(f, qk_norm="head", **biased(f)))
    return _leading_dense(f, layer, _beside_shared(f, shared=1))


def _leading_dense(f: Fields, layer: Layer, mixture: Mixture) -> ModelSpec:
    """The first layers dense, the others with a mixture."""
    return _some_sparse(f, layer, mixture, _behind_dense(f))


def _behind_dense(f: Fields) -> tuple[bool, ...]:
    """Which layers have a mixture where the first ones are dense."""
    dense = f.whole("first_k_dense_replace", default=0, least=0, most=f.layers)
    step = f.whole("moe_layer_freq", default=1)
    return tuple(i >= dense and i % step == 0 for i in range(f.layers))


@family("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa")
def deepseek(f: Fields) -> ModelSpec:
    """DeepSeek V2 to V3.2, R1, Kimi K2, GLM 5: latent attention, shared and routed experts."""
    q_rank = f.raw("q_lora_rank")
    mixer = LatentAttention(
        heads=f.heads,
        q_lora_rank=None if q_rank is None else f.whole("q_lora_rank"),
        kv_lora_rank=f.whole("kv_lora_rank"),
        nope_head_dim=f.whole("qk_nope_head_dim"),
        rope_head_dim=f.whole("qk_rope_head_dim"),
        v_head_dim=f.whole("v_head_dim"),
        qkv_bias=f.flag("attention_bias", default=False),
    )
    if not f.has("n_routed_experts"):
        return alike(f, mixer)
    mixture = _beside_shared(f, shared=0, correction_bias=f.family != "deepseek_v2")
    mixers = _choosing(f, mixer) if f.has("index_topk") else (mixer,) * f.layers
    layers = []
    for own, sparse in zip(mixers, _behind_dense(f), strict=True):
        name = ("moe" if sparse else "dense") + ("_sharing" if _shares(own) else "_layers")
        feed: FeedForward = mixture if sparse else gated_mlp(f)
        layers.append((name, Layer(mixer=own, feed_forward=feed)))
    spec = decoder(f, pattern(layers))
    extra = f.whole("num_nextn_predict_layers", default=0, least=0, most=100)
    if extra:
        layer = Layer(mixer=mixers[-1], feed_forward=mixture)
        spec = replace(spec, mtp=extra, mtp_layer=layer)
    return spec


def _choosing(f: Fields, mixer: LatentAttention) -> tuple[LatentAttention, ...]:
    """The attention of each layer of a model whose indexers choose positions."""
    if mixer.q_lora_rank is None:
        f.refuse(("q_lora_rank",), None, "a width, which the queries of the indexer come from")
    indexer = Indexer(heads=f.whole("index_n_heads"), head_dim=f.whole("index_head_dim"))
    shared = replace(mixer, chosen=f.whole("index_topk"))
    full = replace(shared, indexer=indexer)
    return tuple(shared if kind == "shared" else full for kind in _indexer_types(f))


def _indexer_types(f: Fields) -> tuple[str, ...]:
    """Of each layer, whether it has an indexer of its own or takes the choice of the one before.

    Source: GLM MoE DSA in transformers, ``configuration_glm_moe_dsa.py``.
    """
    types = f.names("indexer_types", count=f.layers)
    for kind in types or ():
        if kind not in ("full", "shared"):
            f.refuse(("indexer_types",), kind, "full and shared")
    if types:
        return types
    step = f.whole("index_topk_freq", default=1)
    start = f.whole("index_skip_topk_offset", default=2, least=0)
    return tuple("shared" if max(i - start + 1, 0) % step else "full" for i in range(f.layers))


def _shares(mixer: LatentAttention) -> bool:
    return mixer.chosen is not None and mixer.indexer is None


@family("gpt_oss", head_dim=64, sliding_window=128)
def gpt_oss(f: Fields) -> ModelSpec:
    """gpt-oss: sinks, biases, windows in every other layer."""
    parts = {"bias": True, "router_bias": True, "chosen_first": True, "written": "clamped_swiglu"}
    mixture = routed(f, ("num_local_experts", "num_experts"), f.inner, **parts)
    scores = ("mul", "add", "cat", "max", "sub", "softmax")  # with the sinks as one more position
    changes = {"sinks": True, "halves": True, "scores": scores, **biased(f, default=True)}
    return windowed(f, layer_types(f, every=2), mixture, **changes)


@family("llama4_text", attention_chunk_size=8192)
def llama4(f: Fields) -> ModelSpec:
    """Llama 4: attention in chunks but for every fourth layer, a mixture in some or all layers."""
    no_rope = f.wholes("no_rope_layers")
    every = f.whole("no_rope_layer_interval", default=4)
    rotated = (
        tuple(bool(v) for v in no_rope)
        if no_rope
        else tuple((i + 1) % every != 0 for i in range(f.layers))
    )
    step = f.whole("interleave_moe_layer_step", default=1)
    sparse = f.wholes("moe_layers")
    mixture = routed(f, ("num_local_experts",), f.inner, shared_width=f.inner)
    dense = Mlp(width=f.whole("intermediate_size_mlp"), activation=activation(f))
    layers = []
    for i in range(f.layers):
        moe = i in sparse if sparse is not None else (i + 1) % step == 0
        mixer = attention(
            f,
            rope=rotated[i],
            chunk=f.optional("attention_chunk_size") if rotated[i] else None,
            qk_norm="free" if rotated[i] and f.flag("use_qk_norm", default=True) else "",
            **biased(f),
        )
        name = ("moe" if moe else "dense") + ("_chunked" if rotated[i] else "_full")
        layers.append((name, Layer(mixer=mixer, feed_forward=mixture if moe else dense)))
    return decoder(f, pattern(layers))
