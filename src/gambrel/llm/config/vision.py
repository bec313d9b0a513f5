"""Vision-language models: a text decoder behind a vision tower and a projector.

One image goes with each sequence; its tokens are part of the prompt. The tower runs with the
prompt and only stays in memory while decoding.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from gambrel.errors import CaptureError
from gambrel.llm.config import dense, mixtures  # noqa: F401  # register the text models
from gambrel.llm.config.common import activation, bias_of
from gambrel.llm.config.encoders import image_patches, vision_layer
from gambrel.llm.config.families import READERS, family
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import (
    Attention,
    Encoder,
    Layer,
    LayerGroup,
    Mlp,
    ModelSpec,
    Patches,
    Projector,
)

#: Fields of towers as large as ViT-L/14, which files leave out.
_LARGE: Final = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
}
#: Side of an image in pixels where a model takes any.
DEFAULT_SIDE: Final = 448


def text_model(f: Fields, model_type: str, **defaults: Any) -> ModelSpec:
    """The decoder: of ``text_config``, or of the file itself where there is none.

    Args:
        f: Of the whole file.
        model_type: Where the part does not name its own.
        **defaults: What files of this family leave out.

    Raises:
        CaptureError: A text model that has no closed form.
    """
    part = f.part("text_config", "language_config") or Fields(f.given, model_type)
    own = part.given.get("model_type") if part.where else None
    # A part names itself after the whole (qwen2_vl_text) or after its own family (gemma3_text).
    names = [str(own), str(own).removesuffix("_text"), model_type] if own else [model_type]
    name = next((n for n in names if n in READERS and n != f.family), None)
    if name is None or (own and not str(own).startswith(f.family) and name not in names[:2]):
        raise CaptureError(
            f"the text model {own!r} of this {f.family} configuration has no closed form."
        )
    reader = READERS[name]
    given = dict(part.given)
    for key in ("tie_word_embeddings", "torch_dtype", "dtype"):
        if given.get(key) is None and f.given.get(key) is not None:
            given[key] = f.given[key]
    return reader(Fields(given, name, part.where, defaults))


def vision_part(f: Fields) -> Fields:
    """The part of the file on the vision tower.

    Raises:
        CaptureError: There is none.
    """
    part = f.part("vision_config")
    if part is None:
        raise CaptureError(f"the configuration of this {f.family} model lacks 'vision_config'.")
    return part


def tower(v: Fields, layer: Layer, count: int, **changes: Any) -> Encoder:
    """A tower of equal layers."""
    layers = (LayerGroup(layer=layer, count=count),)
    return Encoder(name="vision", hidden=v.hidden, layers=layers, **changes)


def joined(text: ModelSpec, images: Encoder, *notes: str) -> ModelSpec:
    """The text model behind a tower, with what the reader should know."""
    remark = "One image a sequence: its tokens are part of the prompt's."
    return replace(text, encoders=(images,), notes=(*text.notes, remark, *notes))


@family("llava")
def llava(f: Fields) -> ModelSpec:
    """LLaVA 1.5: CLIP without its last layer, two linear layers."""
    v = vision_part(f).with_defaults(**_LARGE, image_size=336, hidden_act="quick_gelu")
    text = text_model(
        f,
        "llama",
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        vocab_size=32000,
    )
    patches = image_patches(v, extra=1, bias=False)
    last = f.whole("vision_feature_layer", least=-v.layers, most=v.layers, default=-2)
    run = v.layers + last + 1 if last < 0 else last
    idle = v.layers - run
    hidden, inner = v.hidden, v.inner
    # Attention 4 matrices and biases, two projections with theirs, two norms; and the last norm.
    weights = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden
    images = tower(
        v,
        vision_layer(v),
        run,
        front=patches,
        entry_norm="layer_norm",
        norm_bias=True,
        pooling_head=idle * weights + 2 * hidden,
        projector=Projector(
            widths=(hidden, text.hidden, text.hidden),
            tokens=patches.tokens - 1,
            bias=f.flag("multimodal_projector_bias", default=True),
        ),
    )
    return joined(text, images)


@family("gemma3")
def gemma3(f: Fields) -> ModelSpec:
    """Gemma 3 with images: SigLIP, tokens averaged to 256, one projection."""
    text = text_model(f, "gemma3_text")
    tokens = f.whole("mm_tokens_per_image", default=256)
    return joined(text, _siglip(vision_part(f), text.hidden, tokens, norm="rms_norm", bias=False))


@family("paligemma")
def paligemma(f: Fields) -> ModelSpec:
    """PaliGemma: SigLIP and one projection with bias."""
    text = text_model(f, "gemma")
    v = vision_part(f)
    return joined(text, _siglip(v, text.hidden, image_patches(v, extra=0, bias=True).tokens))


def _siglip(v: Fields, width: int, tokens: int, *, norm: str = "", bias: bool = True) -> Encoder:
    v = v.with_defaults(image_size=224, patch_size=16, hidden_act="gelu_pytorch_tanh")
    return tower(
        v,
        vision_layer(v),
        v.layers,
        front=image_patches(v, extra=0, bias=True),
        final_norm="layer_norm",
        norm_bias=True,
        projector=Projector(
            widths=(v.hidden, width), tokens=tokens, bias=bias, norm=norm, norm_width=v.hidden
        ),
    )


@family("qwen2_vl", "qwen2_5_vl")
def qwen2_vl(f: Fields) -> ModelSpec:
    """Qwen 2 and 2.5 VL: patches of two frames, four merged into one token."""
    second = f.family == "qwen2_5_vl"
    text = text_model(f, "qwen2")
    v = vision_part(f)
    hidden = v.whole("hidden_size") if second else v.whole("embed_dim", "hidden_size")
    patch = v.whole("patch_size", "spatial_patch_size", default=14)
    merge = v.whole("spatial_merge_size", default=2)
    front = Patches(
        channels=v.whole("in_channels", "in_chans", default=3),
        image=DEFAULT_SIDE,
        patch=patch,
        frames=v.whole("temporal_patch_size", default=2),
        bias=False,
    )
    merged = hidden * merge * merge
    images = Encoder(
        name="vision",
        hidden=hidden,
        layers=_qwen_layers(v, second, hidden, patch),
        front=front,
        projector=Projector(
            widths=(merged, merged, text.hidden),
            tokens=front.tokens // (merge * merge),
            norm="rms_norm" if second else "layer_norm",
            norm_width=hidden,
            norm_bias=not second,
        ),
    )
    return joined(text, images, any_size())


def _qwen_layers(v: Fields, second: bool, hidden: int, patch: int) -> tuple[LayerGroup, ...]:
    """Layers that see the whole image; in 2.5 most see a window of it, in patches."""
    heads = v.whole("num_heads")
    depth = v.whole("depth", most=2000)
    size = v.divided("hidden_size", hidden, "num_heads", heads)
    width = (
        v.whole("intermediate_size") if second else int(v.number("mlp_ratio", default=4) * hidden)
    )
    window = (v.whole("window_size", default=112) // patch) ** 2 if second else None
    full = v.wholes("fullatt_block_indexes") or () if second else tuple(range(depth))

    def layer(chunk: int | None) -> Layer:
        return Layer(
            mixer=Attention(
                heads=heads,
                kv_heads=heads,
                head_dim=size,
                causal=False,
                fused="qkv",
                chunk=chunk,
                **bias_of(True),
            ),
            feed_forward=Mlp(
                width=width,
                gated=second,
                bias=True,
                activation=activation(v, default="silu" if second else "quick_gelu"),
            ),
            norm="rms_norm" if second else "layer_norm",
            norm_bias=not second,
        )

    groups = [LayerGroup(layer=layer(None), count=len(full), name="full")] if full else []
    if depth > len(full):
        groups.insert(0, LayerGroup(layer=layer(window), count=depth - len(full), name="windows"))
    return tuple(groups)


@family("llama4")
def llama4_vision(f: Fields) -> ModelSpec:
    """Llama 4 with images: four patches shuffled into one token, three linear layers."""
    text = text_model(f, "llama4_text")
    v = vision_part(f).with_defaults(image_size=448, patch_size=14)
    hidden = v.hidden
    patches = image_patches(v, extra=1, bias=False)
    ratio = v.number("pixel_shuffle_ratio", default=0.5)
    images = tower(
        v,
        vision_layer(v),
        v.layers,
        front=patches,
        entry_norm="layer_norm",
        final_norm="layer_norm",
        norm_bias=True,
        projector=Projector(
            widths=(
                round(hidden / ratio**2),
                v.whole("projector_input_dim", default=4096),
                v.whole("projector_output_dim", default=4096),
                text.hidden,
            ),
            tokens=round((patches.tokens - 1) * ratio**2),
            bias=False,
        ),
    )
    return joined(text, images)


@family("mistral3")
def mistral3(f: Fields) -> ModelSpec:
    """Mistral Small 3.1: Pixtral's tower, four patches merged into one token."""
    text = text_model(f, "mistral")
    v = vision_part(f).with_defaults(**_LARGE)
    merge = f.whole("spatial_merge_size", default=2)
    patch = v.whole("patch_size")
    side = DEFAULT_SIDE - DEFAULT_SIDE % (patch * merge)
    front = Patches(
        channels=v.whole("num_channels", default=3), image=side, patch=patch, bias=False
    )
    layer = Layer(
        mixer=Attention(heads=v.heads, kv_heads=v.heads, head_dim=v.head_dim(), causal=False),
        feed_forward=Mlp(width=v.inner, activation=activation(v, default="silu")),
    )
    images = tower(
        v,
        layer,
        v.layers,
        front=front,
        entry_norm="rms_norm",
        projector=Projector(
            widths=(v.hidden * merge * merge, v.hidden, text.hidden, text.hidden),
            tokens=front.tokens // (merge * merge),
            bias=f.flag("multimodal_projector_bias", default=False),
            norm="rms_norm",
            norm_width=v.hidden,
        ),
    )
    return joined(text, images, any_size())


def any_size() -> str:
    """The assumption where a tower takes images of any size."""
    return f"Images of any size: taken as {DEFAULT_SIDE} x {DEFAULT_SIDE} pixels."
