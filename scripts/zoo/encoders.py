"""Encoders that run by themselves on NPUs: audio, text, image and text, depth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject
from zoo.language import Config, _key, subject

#: Width, layers, heads, mel bins.
WHISPER = {
    "tiny": (384, 4, 6, 80),
    "base": (512, 6, 8, 80),
    "small": (768, 12, 12, 80),
    "large-v3": (1280, 32, 20, 128),
}
TEXT: dict[str, Config] = {
    "albert-base-v2": {
        "model_type": "albert", "architectures": ["AlbertModel"], "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "embedding_size": 128, "vocab_size": 30000, "max_position_embeddings": 512,
    },
    "roberta-base": {
        "model_type": "roberta", "architectures": ["RobertaModel"], "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    },
    "electra-base": {
        "model_type": "electra", "architectures": ["ElectraModel"], "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "embedding_size": 768, "vocab_size": 30522, "max_position_embeddings": 512,
    },
    "distilbert": {
        "model_type": "distilbert", "architectures": ["DistilBertModel"], "dim": 768,
        "n_layers": 6, "n_heads": 12, "hidden_dim": 3072, "vocab_size": 30522,
        "max_position_embeddings": 512,
    },
    "bert-base-mlm": {
        "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "vocab_size": 30522, "max_position_embeddings": 512,
    },
    "mobilebert": {
        "model_type": "mobilebert", "architectures": ["MobileBertForMaskedLM"],
        "hidden_size": 512, "intra_bottleneck_size": 128, "num_hidden_layers": 24,
        "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 30522,
        "embedding_size": 128, "max_position_embeddings": 512,
    },
}  # fmt: skip

#: Aliases and the config.json of openai/clip-vit-*, as far as it is not the default.
CLIP: dict[str, tuple[tuple[str, ...], Config]] = {
    "clip-vit-b-32": (("clip", "clip-vit-base-patch32"), {"projection_dim": 512}),
    "clip-vit-b-16": (
        ("clip-vit-base-patch16", "openai-clip"),
        {"projection_dim": 512, "vision_config": {"patch_size": 16}},
    ),
    "clip-vit-l-14": (
        ("clip-vit-large-patch14", "clip-l"),
        {
            "projection_dim": 768,
            "text_config": {
                "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
            },
            "vision_config": {
                "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
                "num_hidden_layers": 24, "patch_size": 14,
            },
        },
    ),
}  # fmt: skip

#: Width, layers, heads; the config.json of facebook/esm2_t*_UR50D.
ESM2 = {"esm2-150m": (640, 30, 20), "esm2-650m": (1280, 33, 20), "esm2-3b": (2560, 36, 40)}


def entries() -> Iterator[Entry]:
    """Whisper's encoders, text encoders, CLIP, depth."""
    for name, sizes in WHISPER.items():
        yield Entry(
            name=f"whisper-{name}-encoder",
            family="speech",
            about=f"Whisper {name}: the encoder, 30 s of audio",
            build=partial(_whisper, *sizes),
            symbols=(batch("pieces of audio at once"),),
            values={"batch": (1, 3)},
            held_out=({"batch": 2}, {"batch": 5}),
            aliases=("whisper-large-v3-turbo-encoder",) if name == "large-v3" else (),
            source="transformers WhisperEncoder",
        )
    for name, config in TEXT.items():
        yield _text(name, config)
    for name, sizes in ESM2.items():
        yield _protein(name, *sizes)
    for name, (aliases, config) in CLIP.items():
        yield _clip(name, aliases, config)
    for size in DEPTH:
        yield _depth_anything(size)


def _clip(name: str, aliases: tuple[str, ...], config: Config) -> Entry:
    whole = {"model_type": "clip", "architectures": ["CLIPModel"], **config}
    return Entry(
        name=name,
        family="multimodal",
        about=f"CLIP ViT-{name[9].upper()}/{name[11:]}: 'batch' images, as many texts of 77 tokens",
        build=partial(subject, _key(whole), None),
        symbols=(batch("images, and texts, at once"),),
        values={"batch": (1, 3, 4)},
        held_out=({"batch": 2}, {"batch": 6}),
        aliases=aliases,
        source="transformers CLIPModel",
    )


def _text(name: str, config: Config) -> Entry:
    return Entry(
        name=name,
        family="language",
        about=_about(config["architectures"][0]),
        build=partial(subject, _key(config), None),
        symbols=(
            batch("sequences at once"),
            Symbol(name="seq", default=384, minimum=16, maximum=512, about="tokens a sequence"),
        ),
        values={"batch": (1, 3), "seq": (16, 130, 300)},
        held_out=({"batch": 2, "seq": 512}, {"batch": 5, "seq": 77}),
        aliases=(name.rsplit("-", 1)[0],) if name == "electra-base" else (),
        source=f"transformers {config['architectures'][0]}",
    )


def _about(architecture: str) -> str:
    base, head = architecture.partition("ForMaskedLM")[:2]
    if head:
        return f"{base} with its masked-language-model head, encoder over 'seq' tokens"
    return f"{architecture.removesuffix('Model')} base, encoder over 'seq' tokens"


def _protein(name: str, width: int, layers: int, heads: int) -> Entry:
    config: Config = {
        "model_type": "esm",
        "architectures": ["EsmForMaskedLM"],
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": 33,
        "max_position_embeddings": 1026,
        "position_embedding_type": "rotary",
        "pad_token_id": 1,
        "mask_token_id": 32,
        "token_dropout": True,
        "emb_layer_norm_before": False,
    }
    return Entry(
        name=name,
        family="proteins",
        about=f"ESM-2 {name[5:].upper()}, protein language model over 'seq' residues",
        build=partial(subject, _key(config), None),
        symbols=(
            batch("proteins at once"),
            Symbol(name="seq", default=512, minimum=16, maximum=1024, about="residues"),
        ),
        values={"batch": (1, 3), "seq": (16, 130, 300)},
        held_out=({"batch": 2, "seq": 512}, {"batch": 5, "seq": 77}),
        aliases=("esm2", "esm-2", "esm2_t33_650m_ur50d") if name == "esm2-650m" else (),
        source="transformers EsmForMaskedLM",
    )


#: Depth Anything: width, heads and layers of its DINOv2, stages that it reads, widths of its neck.
DEPTH = {
    "small": (384, 6, 12, (3, 6, 9, 12), (48, 96, 192, 384, 64)),
    "base": (768, 12, 12, (3, 6, 9, 12), (96, 192, 384, 768, 128)),
    "large": (1024, 16, 24, (5, 12, 18, 24), (256, 512, 1024, 1024, 256)),
}


def _depth_anything(size: str) -> Entry:
    side = 518

    def build() -> Subject:
        def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return (empty(point["batch"], 3, side, side),), {}

        return module_subject(lean(partial(_depth, *DEPTH[size])), inputs)

    general = ("depth-anything", "depth-anything-v2") if size == "small" else ()
    return Entry(
        name=f"depth-anything-{size}",
        family="detection and segmentation",
        about=f"Depth-Anything (v1 and v2) {size}, {side}x{side}",
        build=build,
        symbols=(batch(),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 5}),
        aliases=(*general, f"depth-anything-v2-{size}"),
        source="transformers DepthAnythingForDepthEstimation",
    )


def _depth(width: int, heads: int, layers: int, stages: Any, neck: Any) -> Any:
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    backbone = Dinov2Config(
        hidden_size=width,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        image_size=518,
        patch_size=14,
        out_features=[f"stage{n}" for n in stages],
        reshape_hidden_states=False,
        apply_layernorm=True,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=width,
        neck_hidden_sizes=list(neck[:4]),
        fusion_hidden_size=neck[4],
    )
    return DepthAnythingForDepthEstimation(config)


def _whisper(width: int, layers: int, heads: int, bins: int) -> Subject:
    def make() -> Any:
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        config = WhisperConfig(
            d_model=width,
            encoder_layers=layers,
            encoder_attention_heads=heads,
            encoder_ffn_dim=4 * width,
            num_mel_bins=bins,
            max_source_positions=1500,
        )
        return WhisperEncoder(config)

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], bins, 3000),), {}

    return module_subject(lean(make), inputs)
