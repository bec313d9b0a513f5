"""GPT-2 and what grew from it: NeoX, GPT-J, OPT, BLOOM, Falcon, Phi 1 and 2, StarCoder 1."""

from __future__ import annotations

from msgspec.structs import replace

from gambrel.llm.config.common import activation, attention, decoder, uniform
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Layer, Mlp, ModelSpec


@family("phi")
def phi(f: Fields) -> ModelSpec:
    """Phi 1, 1.5, 2: attention and feed-forward beside each other, biases everywhere."""
    layer = Layer(
        mixer=attention(f.with_defaults(partial_rotary_factor=0.5), qkv_bias="qkv", out_bias=True),
        feed_forward=Mlp(
            width=f.inner, gated=False, bias=True, activation=activation(f, default="gelu_new")
        ),
        norm="layer_norm",
        norm_bias=True,
        parallel=True,
    )
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True, head_bias=True)


@family("gpt2")
def gpt2(f: Fields) -> ModelSpec:
    """GPT-2: learned positions, biases everywhere, tied."""
    positions = f.whole("n_positions", "n_ctx", "max_position_embeddings", default=1024)
    hidden = f.hidden
    layer = Layer(
        mixer=attention(
            f, kv_heads=f.heads, rope=False, fused="qkv", qkv_bias="qkv", out_bias=True
        ),
        feed_forward=Mlp(
            width=f.optional("n_inner") or 4 * hidden,
            gated=False,
            bias=True,
            activation=activation(f, "activation_function", default="gelu_new"),
        ),
        norm="layer_norm",
        norm_bias=True,
    )
    tied = f.flag("tie_word_embeddings", default=True)
    return decoder(
        f,
        uniform(f, layer),
        final_norm="layer_norm",
        norm_bias=True,
        tied=tied,
        positions=positions,
        max_context=positions,
    )


@family("gpt_bigcode")
def gpt_bigcode(f: Fields) -> ModelSpec:
    """StarCoder 1: GPT-2 with one key/value head."""
    base = gpt2(f)
    layer = base.layers[0].layer
    kv = 1 if f.flag("multi_query", default=True) else f.heads
    mixer = attention(f, kv_heads=kv, rope=False, fused="qkv", qkv_bias="qkv", out_bias=True)
    return replace(base, layers=uniform(f, replace(layer, mixer=mixer)))


@family("gpt_neox")
def gpt_neox(f: Fields) -> ModelSpec:
    """GPT-NeoX and Pythia: two norms of the same stream, parts beside each other."""
    parallel = f.flag("use_parallel_residual", default=True)
    bias = f.flag("attention_bias", default=True)
    layer = Layer(
        mixer=attention(
            f.with_defaults(rotary_pct=0.25),
            kv_heads=f.heads,
            fused="qkv",
            qkv_bias="qkv" if bias else "",
            out_bias=bias,
        ),
        feed_forward=Mlp(
            width=f.inner, gated=False, bias=True, activation=activation(f, default="gelu")
        ),
        norm="layer_norm",
        norm_bias=True,
        parallel=parallel,
        parallel_norms=2,
    )
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True)


@family("gptj")
def gptj(f: Fields) -> ModelSpec:
    """GPT-J: one norm, parts beside each other."""
    layer = Layer(
        mixer=attention(f, kv_heads=f.heads, rotary_dim=f.optional("rotary_dim")),
        feed_forward=Mlp(
            width=f.optional("n_inner") or 4 * f.hidden,
            gated=False,
            bias=True,
            activation=activation(f, "activation_function", default="gelu_new"),
        ),
        norm="layer_norm",
        norm_bias=True,
        parallel=True,
    )
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True, head_bias=True)


@family("opt")
def opt(f: Fields) -> ModelSpec:
    """OPT: learned positions (two more than it says), biases everywhere, tied."""
    width = f.optional("word_embed_proj_dim")
    layer = Layer(
        mixer=attention(f, kv_heads=f.heads, rope=False, qkv_bias="qkv", out_bias=True),
        feed_forward=Mlp(
            width=f.inner,
            gated=False,
            bias=True,
            activation=activation(f, "activation_function", default="relu"),
        ),
        norm="layer_norm",
        norm_bias=True,
    )
    return decoder(
        f,
        uniform(f, layer),
        final_norm="layer_norm",
        norm_bias=True,
        tied=f.flag("tie_word_embeddings", default=True),
        positions=f.whole("max_position_embeddings", default=2048) + 2,
        embedding_width=None if width in (None, f.hidden) else width,
    )


@family("bloom")
def bloom(f: Fields) -> ModelSpec:
    """BLOOM: position biases without parameters, a norm behind the embedding, tied."""
    layer = Layer(
        mixer=attention(
            f, kv_heads=f.heads, rope=False, fused="qkv", qkv_bias="qkv", out_bias=True
        ),
        feed_forward=Mlp(width=4 * f.hidden, gated=False, bias=True, activation="gelu_tanh"),
        norm="layer_norm",
        norm_bias=True,
    )
    return decoder(
        f,
        uniform(f, layer),
        final_norm="layer_norm",
        embedding_norm="layer_norm",
        norm_bias=True,
        tied=f.flag("tie_word_embeddings", default=True),
    )


@family("falcon")
def falcon(f: Fields) -> ModelSpec:
    """Falcon: parts beside each other; one key head (7B) or few (40B, 180B, and two norms)."""
    new = f.flag("new_decoder_architecture", default=False)
    kv = (
        f.whole("num_kv_heads", default=f.heads)
        if new
        else (1 if f.flag("multi_query", default=True) else f.heads)
    )
    bias = f.flag("bias", default=False)
    parallel = f.flag("parallel_attn", default=True) or new
    norms = f.whole("num_ln_in_parallel_attn", default=2 if new else 1, least=1, most=2)
    layer = Layer(
        mixer=attention(
            f,
            kv_heads=kv,
            fused="qkv",
            rope=not f.flag("alibi", default=False),
            qkv_bias="qkv" if bias else "",
            out_bias=bias,
        ),
        feed_forward=Mlp(
            width=f.optional("ffn_hidden_size") or 4 * f.hidden,
            gated=False,
            bias=bias,
            activation=activation(f, "activation", default="gelu"),
        ),
        norm="layer_norm",
        norm_bias=True,
        parallel=parallel,
        parallel_norms=norms,
    )
    tied = f.flag("tie_word_embeddings", default=True)
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True, tied=tied)
