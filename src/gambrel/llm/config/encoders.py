"""Encoders and encoder-decoders: BERT and its relatives, T5, Whisper, vision transformers."""

from __future__ import annotations

from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.common import (
    LAST_NORM,
    LAYER_NORMS,
    activation,
    alike,
    attention,
    bias_of,
    decoder,
    mixed,
    plain_mlp,
    uniform,
)
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import (
    Attention,
    Encoder,
    Frames,
    Layer,
    LayerGroup,
    Mlp,
    ModelSpec,
    Patches,
)

#: Of a layer, and of a model, with a norm behind each addition.
_RESIDUAL: Final[dict[str, Any]] = {**LAYER_NORMS, "pre_norms": False, "residual_norms": True}


def bidirectional(
    f: Fields, name: str = "hidden_size", by: str = "num_attention_heads"
) -> Attention:
    """Attention to all positions, with biases and without rotations."""
    whole = f.whole(name, "hidden_size") if name != "hidden_size" else f.hidden
    return Attention(
        heads=f.heads,
        kv_heads=f.heads,
        head_dim=f.divided(name, whole, by, f.heads),
        causal=False,
        rope=False,
        **bias_of(True),
    )


@family("bert", "roberta", "xlm-roberta", "camembert", "electra")
def bert(f: Fields) -> ModelSpec:
    """BERT: learned positions, a norm behind each addition, biases everywhere."""
    positions = f.whole("max_position_embeddings", default=512)
    electra = f.family == "electra"
    width = f.optional("embedding_size") if electra else None
    # Positions of RoBERTa begin behind the padding index: two rows are never reached.
    reach = positions if f.family in ("bert", "electra") else positions - 2
    return alike(
        f,
        bidirectional(f),
        plain_mlp(f),
        _RESIDUAL,
        causal=False,
        head="none" if electra else "pooler",
        positions=positions,
        token_types=f.whole("type_vocab_size", default=2),
        embedding_norm="layer_norm",
        embedding_width=None if width in (None, f.hidden) else width,
        final_norm="",
        norm_bias=True,
        max_context=reach,
    )


@family("distilbert")
def distilbert(f: Fields) -> ModelSpec:
    """DistilBERT: BERT without token types and pooler."""
    return alike(
        f,
        bidirectional(f, "dim", "n_heads"),
        plain_mlp(f, "activation", width=f.whole("hidden_dim")),
        _RESIDUAL,
        causal=False,
        head="none",
        positions=f.whole("max_position_embeddings", default=512),
        embedding_norm="layer_norm",
        final_norm="",
        norm_bias=True,
    )


@family("modernbert")
def modernbert(f: Fields) -> ModelSpec:
    """ModernBERT: full attention in every third layer, windows elsewhere, gated, no biases.

    The first layer has no norm before its attention (the embedding has one); it is counted.
    """
    every = f.whole("global_attn_every_n_layers", default=3)
    window = f.whole("local_attention", default=128) + 1
    types = f.names("layer_types", count=f.layers) or tuple(
        "full_attention" if i % every == 0 else "sliding_attention" for i in range(f.layers)
    )
    mlp = Mlp(width=f.inner, fused=True, activation=activation(f, default="gelu"))

    def layer(kind: str) -> Layer:
        reach = window if kind == "sliding_attention" else None
        mixer = attention(f, kv_heads=f.heads, causal=False, fused="qkv", window=reach)
        return Layer(mixer=mixer, feed_forward=mlp, norm="layer_norm")

    norms = {"embedding_norm": "layer_norm", "final_norm": "layer_norm"}
    return mixed(f, types, layer, causal=False, head="none", **norms)


@family("t5", "mt5", "umt5", tie_word_embeddings=True)
def t5(f: Fields) -> ModelSpec:
    """T5: an encoder and a decoder, biases of relative positions, tied where the file says so."""
    hidden, heads, size = f.hidden, f.heads, f.whole("d_kv", default=64)
    kind = f.text("feed_forward_proj", default="relu")
    gated = kind.startswith("gated-")
    act = {"gelu": "gelu_tanh", "silu": "silu", "relu": "relu"}.get(kind.removeprefix("gated-"))
    if act is None:
        f.refuse(("feed_forward_proj",), kind, "relu, gated-gelu or gated-silu")
    mlp = Mlp(width=f.inner, gated=gated, activation=act or "relu")
    own: dict[str, Any] = {"heads": heads, "kv_heads": heads, "head_dim": size, "rope": False}
    count = f.whole("num_layers", "num_hidden_layers", most=2000)
    buckets = f.whole("relative_attention_num_buckets", default=32)
    tables = count if f.family == "umt5" else 1  # one table a layer
    encoder = Encoder(
        name="encoder",
        hidden=hidden,
        layers=(
            LayerGroup(
                layer=Layer(mixer=Attention(causal=False, **own), feed_forward=mlp), count=count
            ),
        ),
        final_norm="rms_norm",
        biasing=buckets * heads * tables,
    )
    decoders = f.whole("num_decoder_layers", default=count)
    layer = Layer(
        mixer=Attention(**own),
        cross=Attention(causal=False, memory_hidden=hidden, **own),
        feed_forward=mlp,
    )
    return decoder(
        f,
        (LayerGroup(layer=layer, count=decoders),),
        encoders=(encoder,),
        biasing=buckets * heads * (decoders if f.family == "umt5" else 1),
        max_context=None,
    )


@family("whisper", tie_word_embeddings=True)
def whisper(f: Fields) -> ModelSpec:
    """Whisper: convolutions and an encoder over a spectrogram, a decoder with learned positions."""
    hidden = f.hidden
    encoder_layers = _whisper_layers(f, "encoder", hidden, cross=False)
    encoder = Encoder(
        name="encoder",
        hidden=hidden,
        layers=encoder_layers,
        front=Frames(
            mels=f.whole("num_mel_bins", default=80),
            positions=f.whole("max_source_positions", default=1500),
        ),
        **LAST_NORM,
    )
    positions = f.whole("max_target_positions", default=448)
    return decoder(
        f,
        _whisper_layers(f, "decoder", hidden, cross=True),
        encoders=(encoder,),
        positions=positions,
        max_context=positions,
        **LAST_NORM,
    )


def _whisper_layers(f: Fields, side: str, hidden: int, *, cross: bool) -> tuple[LayerGroup, ...]:
    heads = f.whole(f"{side}_attention_heads")
    size = f.divided("d_model", hidden, f"{side}_attention_heads", heads)
    own: dict[str, Any] = {
        "heads": heads,
        "kv_heads": heads,
        "head_dim": size,
        "rope": False,
        "qkv_bias": "qv",  # none on keys
        "out_bias": True,
    }
    layer = Layer(
        mixer=Attention(causal=cross, **own),
        cross=Attention(causal=False, memory_hidden=hidden, **own) if cross else None,
        feed_forward=plain_mlp(f, "activation_function", width=f.whole(f"{side}_ffn_dim")),
        **LAYER_NORMS,
    )
    return (LayerGroup(layer=layer, count=f.whole(f"{side}_layers", most=2000)),)


def vision_layer(f: Fields, **changes: Any) -> Layer:
    """A layer of an ordinary vision transformer: layer norms, biases, no gate."""
    fields = {"mixer": bidirectional(f), "feed_forward": plain_mlp(f), **LAYER_NORMS}
    return Layer(**{**fields, **changes})


def image_patches(f: Fields, *, extra: int, bias: bool, positions: bool = True) -> Patches:
    """The patch embedding from the usual fields.

    Raises:
        CaptureError: Patches larger than the image.
    """
    side, patch = f.whole("image_size"), f.whole("patch_size")
    if patch > side:
        raise CaptureError(
            f"the configuration has {f.where}patch_size={patch} and image_size={side}; a patch is "
            "no larger than the image."
        )
    tokens = (side // patch) ** 2 + extra
    return Patches(
        channels=f.whole("num_channels", default=3),
        image=side,
        patch=patch,
        bias=bias,
        extra_tokens=extra,
        positions=tokens if positions else 0,
    )


@family("vit", "deit")
def vit(f: Fields) -> ModelSpec:
    """Vision transformer: a class token (DeiT: and a distillation token), pooler or classifier."""
    names = f.names("architectures") or ()
    classifies = any(n.endswith("ForImageClassification") for n in names)
    return _of_images(
        f,
        front=image_patches(f, extra=1 if f.family == "vit" else 2, bias=True),
        head="classifier" if classifies else "pooler",
        labels=len(f.raw("id2label") or ()) or f.whole("num_labels", default=1000),
    )


@family("clip_vision_model", "siglip_vision_model")
def clip_vision(f: Fields) -> ModelSpec:
    """The image side of CLIP or SigLIP."""
    clip = f.family == "clip_vision_model"
    return _of_images(
        f,
        front=image_patches(f, extra=1 if clip else 0, bias=not clip),
        embedding_norm="layer_norm" if clip else "",
        head="none",
    )


def _of_images(f: Fields, **changes: Any) -> ModelSpec:
    """A vision transformer: no vocabulary, no phases."""
    layers = uniform(f, vision_layer(f))
    whole = {"vocab": 0, "causal": False, "max_context": None, **LAST_NORM, **changes}
    return decoder(f.with_defaults(vocab_size=1), layers, **whole)
