"""GPT-2 and what grew from it: NeoX, GPT-J, OPT, BLOOM, Falcon, Phi 1 and 2, StarCoder 1."""

from __future__ import annotations

from typing import Any

from gambrel.llm.config.common import (
    LAST_NORM,
    LAYER_NORMS,
    alike,
    attention,
    bias_of,
    plain_mlp,
)
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Attention, Mlp, ModelSpec


def _normed(
    f: Fields, mixer: Attention, mlp: Mlp, layer: dict[str, Any] | None = None, **changes: Any
) -> ModelSpec:
    """A decoder with layer norms."""
    return alike(f, mixer, mlp, {**LAYER_NORMS, **(layer or {})}, **LAST_NORM, **changes)


@family("phi", partial_rotary_factor=0.5)
def phi(f: Fields) -> ModelSpec:
    """Phi 1, 1.5, 2: attention and feed-forward beside each other, biases everywhere."""
    mixer, mlp = attention(f, **bias_of(True)), plain_mlp(f, default="gelu_new")
    return _normed(f, mixer, mlp, {"parallel": True}, head_bias=True)


@family("gpt2", "gpt_bigcode", tie_word_embeddings=True)
def gpt2(f: Fields) -> ModelSpec:
    """GPT-2: learned positions, biases everywhere, tied; StarCoder 1 with one key/value head."""
    positions = f.whole("n_positions", "n_ctx", "max_position_embeddings", default=1024)
    one = f.family == "gpt_bigcode" and f.flag("multi_query", default=True)
    mixer = _unrotated(f, fused="qkv", kv_heads=1 if one else f.heads)
    return _normed(f, mixer, _wide_mlp(f), positions=positions, max_context=positions)


def _unrotated(f: Fields, **changes: Any) -> Attention:
    """Attention with biases everywhere and without rotations."""
    return attention(f, **{"kv_heads": f.heads, "rope": False, **bias_of(True), **changes})


def _wide_mlp(f: Fields) -> Mlp:
    """Four times as wide as the stream where the file says nothing."""
    width = f.optional("n_inner") or 4 * f.hidden
    return plain_mlp(f, "activation_function", default="gelu_new", width=width)


@family("gpt_neox", rotary_pct=0.25)
def gpt_neox(f: Fields) -> ModelSpec:
    """GPT-NeoX and Pythia: two norms of the same stream, parts beside each other."""
    parallel = f.flag("use_parallel_residual", default=True)
    bias = f.flag("attention_bias", default=True)
    mixer = attention(f, kv_heads=f.heads, fused="qkv", **bias_of(bias))
    return _normed(f, mixer, plain_mlp(f), {"parallel": parallel, "parallel_norms": 2})


@family("gptj")
def gptj(f: Fields) -> ModelSpec:
    """GPT-J: one norm, parts beside each other."""
    mixer = attention(f, kv_heads=f.heads, rotary_dim=f.optional("rotary_dim"))
    return _normed(f, mixer, _wide_mlp(f), {"parallel": True}, head_bias=True)


@family("opt", tie_word_embeddings=True)
def opt(f: Fields) -> ModelSpec:
    """OPT: learned positions (two more than it says), biases everywhere, tied."""
    width = f.optional("word_embed_proj_dim")
    return _normed(
        f,
        _unrotated(f),
        plain_mlp(f, "activation_function", default="relu"),
        positions=f.whole("max_position_embeddings", default=2048) + 2,
        embedding_width=None if width in (None, f.hidden) else width,
    )


@family("bloom", tie_word_embeddings=True)
def bloom(f: Fields) -> ModelSpec:
    """BLOOM: position biases without parameters, a norm behind the embedding, tied."""
    mlp = plain_mlp(f, width=4 * f.hidden, activation="gelu_tanh", written="gelu_fast")
    mixer = _unrotated(f, fused="qkv", scores=("add", "cast", "softmax", "cast"))
    return _normed(f, mixer, mlp, embedding_norm="layer_norm")


@family("falcon", tie_word_embeddings=True)
def falcon(f: Fields) -> ModelSpec:
    """Falcon: parts beside each other; one key head (7B) or few (40B, 180B, and two norms)."""
    new = f.flag("new_decoder_architecture", default=False)
    old = 1 if f.flag("multi_query", default=True) else f.heads
    bias = f.flag("bias", default=False)
    mixer = attention(
        f,
        kv_heads=f.whole("num_kv_heads", default=f.heads) if new else old,
        fused="qkv",
        rope=not f.flag("alibi", default=False),
        **bias_of(bias),
    )
    width = f.optional("ffn_hidden_size") or 4 * f.hidden
    mlp = plain_mlp(f, "activation", width=width, bias=bias)
    layer = {
        "parallel": f.flag("parallel_attn", default=True) or new,
        "parallel_norms": f.whole("num_ln_in_parallel_attn", default=2 if new else 1, most=2),
    }
    return _normed(f, mixer, mlp, layer)
