"""Dense decoders: Llama and its relatives, Qwen, Gemma, Phi 3, Cohere, GLM."""

from __future__ import annotations

from typing import Any, Final

from gambrel.llm.config.common import (
    activation,
    attention,
    biased,
    decoder,
    gated_mlp,
    pattern,
    uniform,
)
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Attention, Layer, Mlp, ModelSpec


def _plain(f: Fields, mixer: Attention, **changes: Any) -> ModelSpec:
    return decoder(f, uniform(f, Layer(mixer=mixer, feed_forward=gated_mlp(f))), **changes)


@family("llama", "granite", "arcee", "smollm3", "seed_oss", "internlm3", "olmo")
def llama(f: Fields) -> ModelSpec:
    """Llama 2 and 3 and what is built like them."""
    changes: dict[str, Any] = {}
    if f.family == "arcee":
        layer = Layer(
            mixer=attention(f, **biased(f)),
            feed_forward=Mlp(width=f.inner, gated=False, activation="relu"),
        )
        return decoder(f, uniform(f, layer))
    if f.family == "seed_oss":
        f = f.with_defaults(head_dim=128)
        changes = {
            "qkv_bias": "qkv" if f.flag("attention_bias", default=True) else "",
            "out_bias": f.flag("attention_out_bias", default=False),
        }
        return _plain(f, attention(f, **changes))
    if f.family == "olmo":
        layer = Layer(
            mixer=attention(f, **biased(f)), feed_forward=gated_mlp(f), norm="layer_norm_free"
        )
        return decoder(f, uniform(f, layer), final_norm="layer_norm_free")
    tied = f.flag("tie_word_embeddings", default=f.family == "smollm3")
    return _plain(f, attention(f, **biased(f)), tied=tied)


@family("mistral", "ministral3")
def mistral(f: Fields) -> ModelSpec:
    """Mistral: a window where the file names one."""
    return _plain(f, attention(f, window=f.optional("sliding_window")))


@family("ministral")
def ministral(f: Fields) -> ModelSpec:
    """Ministral 8B: windows and full attention alternate."""
    return _by_types(f, {})


@family("qwen2")
def qwen2(f: Fields) -> ModelSpec:
    """Qwen 2 and 2.5: biases on queries, keys and values; windows only where switched on."""
    return _by_types(f, {"qkv_bias": "qkv"}, windows=f.flag("use_sliding_window", default=False))


@family("qwen3")
def qwen3(f: Fields) -> ModelSpec:
    """Qwen 3: norms of queries and keys."""
    f = f.with_defaults(head_dim=128)
    changes = {"qk_norm": "head", **biased(f)}
    return _by_types(f, changes, windows=f.flag("use_sliding_window", default=False))


def _by_types(f: Fields, changes: dict[str, Any], *, windows: bool = True) -> ModelSpec:
    """Layers that ``layer_types`` calls sliding have a window, if windows are on."""
    listed = layer_types(f)
    types = listed if windows else ("full_attention",) * f.layers
    window = f.optional("sliding_window")
    mlp = gated_mlp(f)
    layers = [
        (
            kind,
            Layer(
                mixer=attention(
                    f, window=window if kind == "sliding_attention" else None, **changes
                ),
                feed_forward=mlp,
            ),
        )
        for kind in types
    ]
    return decoder(f, pattern(layers))


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
    return tuple(
        "full_attention" if (i + 1) % step == 0 else "sliding_attention" for i in range(f.layers)
    )


@family("olmo2", "olmo3")
def olmo2(f: Fields) -> ModelSpec:
    """OLMo 2 and 3: norms behind each part, and over whole queries and keys."""
    types = layer_types(f, every=4 if f.family == "olmo3" else None)
    window = f.optional("sliding_window")
    layers = [
        (
            kind,
            Layer(
                mixer=attention(
                    f,
                    qk_norm="full",
                    window=window if kind == "sliding_attention" else None,
                    **biased(f),
                ),
                feed_forward=gated_mlp(f),
                pre_norms=False,
                post_norms=True,
            ),
        )
        for kind in types
    ]
    return decoder(f, pattern(layers))


@family("gemma")
def gemma(f: Fields) -> ModelSpec:
    """Gemma 1."""
    f = f.with_defaults(head_dim=256)
    mlp = gated_mlp(f, activation="gelu_tanh")
    tied = f.flag("tie_word_embeddings", default=True)
    return decoder(f, uniform(f, Layer(mixer=attention(f), feed_forward=mlp)), tied=tied)


@family("gemma2", "gemma3_text")
def gemma2(f: Fields) -> ModelSpec:
    """Gemma 2 and 3: windows alternate with full attention, norms before and behind each part."""
    third = f.family == "gemma3_text"
    f = f.with_defaults(head_dim=256, sliding_window=4096)
    if third:  # files leave out what equals the class
        f = f.with_defaults(num_attention_heads=8, num_key_value_heads=4, vocab_size=262208)
    layers = [
        (
            kind,
            Layer(
                mixer=attention(
                    f,
                    window=f.optional("sliding_window") if kind == "sliding_attention" else None,
                    qk_norm="head" if third else "",
                    softcap=f.has("attn_logit_softcapping"),
                    **biased(f),
                ),
                feed_forward=gated_mlp(f, activation="gelu_tanh"),
                post_norms=True,
            ),
        )
        for kind in layer_types(f, every=6 if third else 2)
    ]
    tied = f.flag("tie_word_embeddings", default=True)
    return decoder(f, pattern(layers), tied=tied, softcap=f.has("final_logit_softcapping"))


@family("phi3")
def phi3(f: Fields) -> ModelSpec:
    """Phi 3, 3.5, 4: one matrix for queries, keys, values, one for gate and up."""
    layer = Layer(
        mixer=attention(f, fused="qkv", window=f.optional("sliding_window")),
        feed_forward=gated_mlp(f, fused=True),
    )
    return decoder(f, uniform(f, layer))


@family("stablelm")
def stablelm(f: Fields) -> ModelSpec:
    """StableLM: layer norms, biases on queries, keys, values where switched on."""
    bias = "qkv" if f.flag("use_qkv_bias", default=False) else ""
    parallel = f.flag("use_parallel_residual", default=False)
    layer = Layer(
        mixer=attention(f.with_defaults(partial_rotary_factor=0.25), qkv_bias=bias),
        feed_forward=gated_mlp(f),
        norm="layer_norm",
        norm_bias=True,
        parallel=parallel,
    )
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True)


@family("starcoder2")
def starcoder2(f: Fields) -> ModelSpec:
    """StarCoder 2: layer norms, biases, no gate."""
    bias = f.flag("use_bias", default=True)
    layer = Layer(
        mixer=attention(
            f, qkv_bias="qkv" if bias else "", out_bias=bias, window=f.optional("sliding_window")
        ),
        feed_forward=Mlp(
            width=f.inner,
            gated=False,
            bias=bias,
            activation=activation(f, default="gelu_pytorch_tanh"),
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
    )


@family("cohere", "cohere2")
def cohere(f: Fields) -> ModelSpec:
    """Command R: one norm without bias, parts beside each other, tied."""
    second = f.family == "cohere2"
    if second:
        f = f.with_defaults(sliding_window=4096)
    types = layer_types(f, every=4) if second else ("full_attention",) * f.layers
    norms = f.flag("use_qk_norm", default=False)
    layers = [
        (
            kind,
            Layer(
                mixer=attention(
                    f,
                    window=f.optional("sliding_window") if kind == "sliding_attention" else None,
                    rope=not second or kind == "sliding_attention",
                    qk_norm="full" if norms else "",
                    **biased(f),
                ),
                feed_forward=gated_mlp(f),
                norm="layer_norm",
                parallel=True,
            ),
        )
        for kind in types
    ]
    return decoder(
        f,
        pattern(layers),
        final_norm="layer_norm",
        tied=f.flag("tie_word_embeddings", default=True),
    )


@family("glm", "glm4")
def glm(f: Fields) -> ModelSpec:
    """GLM 4: half of each head rotated, gate and up in one matrix, norms behind (GLM-4-0414)."""
    f = f.with_defaults(partial_rotary_factor=0.5, head_dim=128)
    bias = "qkv" if f.flag("attention_bias", default=True) else ""
    layer = Layer(
        mixer=attention(f, qkv_bias=bias),
        feed_forward=gated_mlp(f, fused=True),
        post_norms=f.family == "glm4",
    )
    return decoder(f, uniform(f, layer))


@family("nemotron")
def nemotron(f: Fields) -> ModelSpec:
    """Nemotron 3 and 4, Minitron: layer norms, squared relu without gate."""
    bias = f.flag("mlp_bias", default=False)
    layer = Layer(
        mixer=attention(f.with_defaults(partial_rotary_factor=0.5), **biased(f)),
        feed_forward=Mlp(width=f.inner, gated=False, bias=bias, activation="relu"),
        norm="layer_norm",
        norm_bias=True,
    )
    return decoder(f, uniform(f, layer), final_norm="layer_norm", norm_bias=True)


@family("exaone4")
def exaone4(f: Fields) -> ModelSpec:
    """EXAONE 4: norms behind each part and of heads; windows in a pattern (32B)."""
    window = f.optional("sliding_window")
    pattern_text = f.raw("sliding_window_pattern")
    every = len(pattern_text) if isinstance(pattern_text, str) else pattern_text
    given = f.names("layer_types", count=f.layers)
    types = given or tuple(
        "sliding_attention"
        if window and every and (i + 1) % every and i != f.layers - 1
        else "full_attention"
        for i in range(f.layers)
    )
    layers = [
        (
            kind,
            Layer(
                mixer=attention(
                    f, qk_norm="head", window=window if kind == "sliding_attention" else None
                ),
                feed_forward=gated_mlp(f),
                pre_norms=False,
                post_norms=True,
            ),
        )
        for kind in types
    ]
    return decoder(f, pattern(layers))
