"""Vision models that others are built on: SAM, SAM 2, SigLIP, RT-DETR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gambrel.analysis.compulsory import unread_ops
from gambrel.workload import Workload
from gambrel.workload.prune import renumbered
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens

#: Width, heads, blocks of each stage, those with global attention, windows, their background; the
#: configurations sam2.1_hiera_*.yaml of facebookresearch/sam2 (Apache License 2.0).
SAM2 = {
    "tiny": (96, 1, (1, 2, 7, 2), (5, 7, 9), (8, 4, 14, 7), 7),
    "small": (96, 1, (1, 2, 11, 2), (7, 10, 13), (8, 4, 14, 7), 7),
    "base-plus": (112, 2, (2, 3, 16, 3), (12, 16, 20), (8, 4, 14, 7), 14),
    "large": (144, 2, (2, 6, 36, 4), (23, 33, 43), (8, 4, 16, 8), 7),
}
#: Width, inner width, layers, heads, those with global attention; build_sam.py of
#: facebookresearch/segment-anything (Apache License 2.0).
SAM = {
    "sam-vit-b": (768, 3072, 12, 12, (2, 5, 8, 11)),
    "sam-vit-l": (1024, 4096, 24, 16, (5, 11, 17, 23)),
    "sam-vit-h": (1280, 5120, 32, 16, (7, 15, 23, 31)),
}
#: Width, inner width, layers, heads, side of the image, patch, tokens of the vocabulary; the
#: config.json of google/siglip-*.
SIGLIP = {
    "siglip-base-224": (768, 3072, 12, 12, 224, 16, 32_000),
    "siglip-so400m-384": (1152, 4304, 27, 16, 384, 14, 32_000),
    "siglip2-base-224": (768, 3072, 12, 12, 224, 16, 256_000),
}


def entries() -> Iterator[Entry]:
    """One size of image each, any batch."""
    for name, (width, *rest) in SAM.items():
        yield _entry(
            f"{name}-encoder",
            f"SAM's image encoder, {name[4:].upper().replace('VIT', 'ViT')}, 1024x1024",
            partial(_sam, width, *rest),
            _photo,
            (
                name,
                name.replace("-vit", ""),
                *(("sam", "segment-anything") if width > 1024 else ()),
            ),
            "transformers SamVisionModel",
        )
    for size, sizes in SAM2.items():
        tiny = ("sam2", "sam-2", "sam2.1", "segment-anything-2") if size == "tiny" else ()
        yield _entry(
            f"sam2-{size}",
            f"SAM 2.1 {size}: image encoder and mask decoder, one point, 1024x1024",
            partial(_sam2, *sizes),
            _prompt,
            (f"sam2.1-{size}", f"sam2-hiera-{size}", f"sam2.1-hiera-{size}", *tiny),
            "transformers Sam2Model",
        )
    yield _entry(
        "sam2-decoder",
        "SAM 2.1: prompt encoder and mask decoder, one point; the same in all sizes",
        _sam2_decoder,
        _features,
        ("sam2-mask-decoder",),
        "transformers Sam2Model",
    )
    for name, siglip in SIGLIP.items():
        aliases = {"siglip-base-224": ("siglip", "siglip-base-patch16-224"),
                   "siglip-so400m-384": ("siglip-so400m", "siglip-so400m-patch14-384"),
                   "siglip2-base-224": ("siglip2", "siglip2-base-patch16-224")}  # fmt: skip
        yield _entry(
            name,
            f"{name[:7].strip('-').replace('siglip', 'SigLIP ').strip()}: 'batch' images of "
            f"{siglip[4]}x{siglip[4]} and as many texts of 64 tokens",
            partial(_siglip, *siglip),
            partial(_pairs, siglip[4]),
            aliases[name],
            "transformers SiglipModel",
            family="multimodal",
        )
    for layers, aliases in ((18, ()), (50, ("rtdetr", "rt-detr", "rtdetr-r50", "rtdetr_r50vd"))):
        yield _entry(
            f"rt-detr-r{layers}",
            f"RT-DETR, ResNet-{layers}, 640x640, 300 queries",
            partial(_rt_detr, layers),
            _image,
            aliases,
            "transformers RTDetrForObjectDetection",
        )


def _entry(
    name: str,
    about: str,
    make: Callable[[], Any],
    inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]],
    aliases: tuple[str, ...],
    source: str,
    family: str = "detection and segmentation",
) -> Entry:
    def build() -> Subject:
        subject = module_subject(lean(make), inputs)
        subject.capture({"batch": 2})  # RT-DETR keeps the position table of its first run
        return Subject(
            capture=lambda point: _read(subject.capture(point)), parameters=subject.parameters
        )

    return Entry(
        name=name,
        family=family,
        about=about,
        build=build,
        symbols=(batch("images at once"),),
        values={"batch": (1, 3, 4)} if family == "multimodal" else {"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 6}),
        aliases=aliases,
        source=source,
    )


def _read(workload: Workload) -> Workload:
    """Without results that nobody reads: transformers forms the scores of SAM 2's encoder twice."""
    unread = unread_ops(workload)
    ops = [op for i, op in enumerate(workload.ops) if i not in unread]
    return renumbered(workload, ops, unread=True)


def _sam2(
    width: int,
    heads: int,
    blocks: tuple[int, ...],
    whole: tuple[int, ...],
    windows: tuple[int, ...],
    background: int,
) -> Any:
    from transformers import Sam2Config, Sam2HieraDetConfig, Sam2Model, Sam2VisionConfig

    widths = [width * 2**i for i in range(4)]
    backbone = Sam2HieraDetConfig(
        hidden_size=width,
        num_attention_heads=heads,
        blocks_per_stage=list(blocks),
        embed_dim_per_stage=widths,
        num_attention_heads_per_stage=[heads * 2**i for i in range(4)],
        window_size_per_stage=list(windows),
        global_attention_blocks=list(whole),
        window_positional_embedding_background_size=[background] * 2,
    )
    vision = Sam2VisionConfig(
        backbone_config=backbone,
        backbone_channel_list=widths[::-1],
        backbone_feature_sizes=[[256, 256], [128, 128], [64, 64]],
    )
    return Sam2Model(Sam2Config(vision_config=vision))


def _sam(width: int, inner: int, layers: int, heads: int, whole: tuple[int, ...]) -> Any:
    from transformers import SamVisionConfig, SamVisionModel

    return SamVisionModel(
        SamVisionConfig(
            hidden_size=width,
            mlp_dim=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            global_attn_indexes=list(whole),
        )
    )


def _photo(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"pixel_values": empty(point["batch"], 3, 1024, 1024)}


def _prompt(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One point an image: three masks of 256 x 256."""
    size = point["batch"]
    return (), {
        "pixel_values": empty(size, 3, 1024, 1024),
        "input_points": empty(size, 1, 1, 2),
        "input_labels": tokens(size, 1, 1),
    }


def _sam2_decoder() -> Any:
    """The part that runs again for every prompt."""
    model = _sam2(*SAM2["tiny"])
    del model.vision_encoder
    return model


def _features(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = point["batch"]
    levels = [empty(size, 32, 256, 256), empty(size, 64, 128, 128), empty(size, 256, 64, 64)]
    return (), {
        "image_embeddings": levels,
        "input_points": empty(size, 1, 1, 2),
        "input_labels": tokens(size, 1, 1),
    }


def _siglip(
    width: int, inner: int, layers: int, heads: int, side: int, patch: int, vocabulary: int
) -> Any:
    from transformers import SiglipConfig, SiglipModel

    both = {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    text = {
        **both,
        "vocab_size": vocabulary,
        "projection_size": width,
        "bos_token_id": None,
        "eos_token_id": 1,
    }
    vision = {**both, "image_size": side, "patch_size": patch}
    return SiglipModel(SiglipConfig(text_config=text, vision_config=vision))


def _pairs(side: int, _: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = point["batch"]
    return (), {"input_ids": tokens(size, 64), "pixel_values": empty(size, 3, side, side)}


def _rt_detr(layers: int) -> Any:
    """Sizes of PekingU/rtdetr_r18vd and rtdetr_r50vd, config.json."""
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig

    small = layers == 18
    backbone = RTDetrResNetConfig(
        depths=[2, 2, 2, 2] if small else [3, 4, 6, 3],
        hidden_sizes=[64, 128, 256, 512] if small else [256, 512, 1024, 2048],
        layer_type="basic" if small else "bottleneck",
        out_features=["stage2", "stage3", "stage4"],
    )
    more: dict[str, Any] = {
        "encoder_in_channels": [128, 256, 512],
        "decoder_layers": 3,
        "hidden_expansion": 0.5,
    }
    config = RTDetrConfig(backbone_config=backbone, num_labels=80, **(more if small else {}))
    return RTDetrForObjectDetection(config)


def _image(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (empty(point["batch"], 3, 640, 640),), {}
