"""Vision-language models of one mold: biased patches, a plain ViT, four patches merged, two layers.

Kimi K2.5 (MoonViT) and Qwen 3.5 with a mixture.
"""

from __future__ import annotations

from msgspec.structs import replace

from gambrel.llm.config import hybrids, mixtures  # noqa: F401  # register the text models
from gambrel.llm.config.encoders import bidirectional, vision_layer
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.config.vision import DEFAULT_SIDE, any_size, joined, text_model, tower, vision_part
from gambrel.llm.spec import ModelSpec, Patches, Projector


@family("kimi_k25")
def kimi_k25(f: Fields) -> ModelSpec:
    """Kimi K2.5: Kimi K2 behind MoonViT, whose position table is two-dimensional."""
    v = vision_part(f).with_defaults(
        hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16
    )
    rows = v.whole("pos_emb_height", "init_pos_emb_height", default=64)
    columns = v.whole("pos_emb_width", "init_pos_emb_width", default=64)
    merge = v.wholes("merge_kernel_size") or (2, 2)
    front = Patches(
        channels=3,
        image=DEFAULT_SIDE,
        patch=v.whole("patch_size", default=14),
        positions=rows * columns,
    )
    return _with_tower(text_model(f, "kimi_k2"), v, front, merge[0] * merge[1], "layer_norm")


@family("qwen3_5", "qwen3_5_moe")
def qwen3_5(f: Fields) -> ModelSpec:
    """Qwen 3.5: gated delta rule, with a mixture or without, a tower of patches of two frames."""
    v = vision_part(f).with_defaults(
        hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16
    )
    given = {
        "num_hidden_layers": v.optional("depth"),
        "num_attention_heads": v.optional("num_heads"),
    }
    named = {name: value for name, value in given.items() if value is not None}
    v = Fields({**v.given, **named}, v.family, v.where)
    merge = v.whole("spatial_merge_size", default=2)
    front = Patches(
        channels=v.whole("in_channels", default=3),
        image=DEFAULT_SIDE // 32 * 32,
        patch=v.whole("patch_size", default=16),
        frames=v.whole("temporal_patch_size", default=2),
        positions=v.whole("num_position_embeddings", default=2304),
    )
    return _with_tower(text_model(f, f"{f.family}_text"), v, front, merge * merge, "")


def _with_tower(
    text: ModelSpec, v: Fields, front: Patches, merged: int, final_norm: str
) -> ModelSpec:
    hidden = v.hidden
    layer = vision_layer(v, mixer=replace(bidirectional(v), fused="qkv"))
    wide = hidden * merged
    images = tower(
        v,
        layer,
        v.layers,
        front=front,
        final_norm=final_norm,
        norm_bias=True,
        projector=Projector(
            widths=(wide, wide, text.hidden),
            tokens=front.tokens // merged,
            norm="layer_norm",
            norm_width=hidden,
            norm_bias=True,
        ),
    )
    return joined(text, images, any_size())
