"""Image generation: text encoders, networks that a sampler calls at each step, image decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens

FAMILY = "image generation"
#: FLUX.1 by kind: tokens of text that its pipeline passes on.
FLUX = {"dev": 512, "schnell": 256}


def entries() -> Iterator[Entry]:
    """Stable Diffusion 1.5, SDXL and DiT-XL/2; sides are those of the latent, 1/8 of the image."""
    latent = partial(Symbol, name="latent", minimum=16, multiple_of=8, about="side of the latent")
    grid = {"batch": (1, 3), "latent": (16, 24, 32, 40, 48)}
    held_out = ({"batch": 2, "latent": 64}, {"batch": 5, "latent": 56})
    yield Entry(
        name="sd15-unet",
        family=FAMILY,
        about="Stable Diffusion 1.5 UNet, one step, 77 text tokens",
        build=partial(_subject, _sd15, _unet_inputs(768)),
        symbols=(batch("latents at once"), latent(default=64)),
        values=grid,
        held_out=held_out,
        aliases=("sd unet", "sd 1.5 unet"),
        source="diffusers UNet2DConditionModel",
    )
    yield Entry(
        name="sd15-vae-decoder",
        family=FAMILY,
        about="Stable Diffusion 1.5 image decoder: a latent to an image of 8 times its side",
        build=partial(_subject, _vae, _vae_inputs),
        symbols=(batch("latents at once"), latent(default=64)),
        values=grid,
        held_out=held_out,
        aliases=("sd-vae-decoder", "vae decoder"),
        source="diffusers AutoencoderKL decoder",
    )
    yield Entry(
        name="sdxl-unet",
        family=FAMILY,
        about="Stable Diffusion XL UNet, one step, 77 text tokens",
        build=partial(_subject, _sdxl, _unet_inputs(2048, extra=True)),
        symbols=(batch("latents at once"), latent(default=128)),
        values=grid,
        held_out=held_out,
        aliases=("sd xl unet",),
        source="diffusers UNet2DConditionModel",
    )
    yield from transformers_entries()
    yield from text_entries()
    yield Entry(
        name="vae16-decoder",
        family=FAMILY,
        about="Image decoder of Stable Diffusion 3 and FLUX: 16 latent channels",
        build=partial(_subject, partial(_vae, 16), partial(_vae_inputs, channels=16)),
        symbols=(batch("latents at once"), latent(default=128)),
        values=grid,
        held_out=held_out,
        aliases=("flux vae decoder", "sd3 vae decoder"),
        source="diffusers AutoencoderKL decoder",
    )
    yield Entry(
        name="dit-xl-2",
        family=FAMILY,
        about="DiT-XL/2 for 256x256 images (latent 32x32), one step",
        build=partial(_subject, _dit, _dit_inputs),
        symbols=(batch("latents at once"),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 6}),
        aliases=("dit-xl", "dit", "DiT-XL-2-256"),
        source="diffusers DiTTransformer2DModel",
    )


def transformers_entries() -> Iterator[Entry]:
    """Networks that treat patches of the latent as tokens; their counts are quadratic in it."""
    latent = partial(Symbol, name="latent", minimum=16, multiple_of=4, about="side of the latent")
    grid = {"batch": (1, 3), "latent": (16, 24, 32)}
    held_out = ({"batch": 2, "latent": 64}, {"batch": 5, "latent": 52})
    common = {
        "family": FAMILY,
        "symbols": (batch("latents at once"), latent(default=128)),
        "values": grid,
        "held_out": held_out,
    }
    yield Entry(
        name="sd3-medium-transformer",
        about="Stable Diffusion 3 medium MMDiT, one step, 77 + 256 text tokens; guidance pairs",
        build=partial(_subject, _sd3, _sd3_inputs),
        source="diffusers SD3Transformer2DModel",
        # At batch 1, PyTorch multiplies slices without the copies that any other batch needs.
        **common
        | {
            "symbols": (
                Symbol(name="batch", default=2, minimum=2, about="latents at once"),
                latent(default=128, maximum=384),
            ),
            "values": {**grid, "batch": (2, 4)},
            "held_out": ({"batch": 3, "latent": 64}, {"batch": 5, "latent": 52}),
        },
    )
    for kind, words in FLUX.items():
        yield Entry(
            name="flux-transformer" if kind == "dev" else f"flux-{kind}-transformer",
            about=f"FLUX.1{'' if kind == 'dev' else ' ' + kind} transformer, one step, "
            f"{words} text tokens",
            build=partial(_subject, partial(_flux, kind), partial(_flux_inputs, kind)),
            source="diffusers FluxTransformer2DModel",
            **common,
        )
    yield Entry(
        name="pixart-transformer",
        about="PixArt-alpha XL/2 transformer for 1024 pixels, one step, 120 text tokens",
        build=partial(_subject, _pixart, _pixart_inputs),
        source="diffusers PixArtTransformer2DModel",
        **common,
    )


def text_entries() -> Iterator[Entry]:
    """The text encoders of image generators."""
    yield Entry(
        name="clip-l-text",
        family=FAMILY,
        about="Text encoder of CLIP ViT-L/14, 77 tokens",
        build=partial(_subject, partial(_clip_text, 768, 12, 12, "quick_gelu"), _clip_inputs),
        symbols=(batch("texts at once"),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 6}),
        source="transformers CLIPTextModel",
    )
    yield Entry(
        name="openclip-bigg-text",
        family=FAMILY,
        about="Text encoder of OpenCLIP ViT-bigG/14 with its projection, 77 tokens",
        build=partial(_subject, partial(_clip_text, 1280, 32, 20, "gelu"), _clip_inputs),
        symbols=(batch("texts at once"),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 6}),
        source="transformers CLIPTextModelWithProjection",
    )
    yield Entry(
        name="t5-xxl-encoder",
        family=FAMILY,
        about="T5 v1.1 XXL encoder",
        build=partial(_subject, _t5_xxl, _t5_inputs),
        symbols=(
            batch("texts at once"),
            Symbol(name="seq", default=512, minimum=16, about="tokens of a text"),
        ),
        values={"batch": (1, 3), "seq": (16, 40, 70)},
        held_out=({"batch": 2, "seq": 128}, {"batch": 5, "seq": 33}),
        source="transformers T5EncoderModel",
    )


def _subject(
    make: Callable[[], Any],
    inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]],
) -> Subject:
    return module_subject(lean(make), inputs)


def _sd15() -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)


def _sdxl() -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )


def _vae(channels: int = 4) -> Any:
    import torch
    from diffusers import AutoencoderKL

    class Decoder(torch.nn.Module):
        def __init__(self, whole: Any) -> None:
            super().__init__()
            self.post_quant_conv = whole.post_quant_conv or torch.nn.Identity()
            self.decoder = whole.decoder

        def forward(self, latent: Any) -> Any:
            return self.decoder(self.post_quant_conv(latent))

    return Decoder(
        AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=channels,
            use_post_quant_conv=channels == 4,
            sample_size=512,
        )
    )


def _dit() -> Any:
    from diffusers import DiTTransformer2DModel

    return DiTTransformer2DModel(
        num_attention_heads=16,
        attention_head_dim=72,
        in_channels=4,
        out_channels=8,
        num_layers=28,
        sample_size=32,
        patch_size=2,
        num_embeds_ada_norm=1000,
        norm_type="ada_norm_zero",
    )


def _unet_inputs(
    width: int, *, extra: bool = False
) -> Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]]:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        size, side = point["batch"], point["latent"]
        named = {
            "sample": empty(size, 4, side, side),
            "timestep": tokens(size),
            "encoder_hidden_states": empty(size, 77, width),
        }
        if extra:
            added = {"text_embeds": empty(size, 1280), "time_ids": empty(size, 6)}
            named["added_cond_kwargs"] = added
        return (), named

    return inputs


def _vae_inputs(_: Any, point: Point, channels: int = 4) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (empty(point["batch"], channels, point["latent"], point["latent"]),), {}


def _sd3() -> Any:
    """Sizes of stabilityai/stable-diffusion-3-medium-diffusers, transformer/config.json."""
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=128,
        patch_size=2,
        in_channels=16,
        out_channels=16,
        num_layers=24,
        attention_head_dim=64,
        num_attention_heads=24,
        joint_attention_dim=4096,
        caption_projection_dim=1536,
        pooled_projection_dim=2048,
        pos_embed_max_size=192,
    )


def _sd3_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size, side = point["batch"], point["latent"]
    named = {
        "hidden_states": empty(size, 16, side, side),
        "encoder_hidden_states": empty(size, 77 + 256, 4096),
        "pooled_projections": empty(size, 2048),
        "timestep": tokens(size),
    }
    return (), named


def _flux(kind: str) -> Any:
    """Sizes of black-forest-labs/FLUX.1-dev and -schnell, transformer/config.json."""
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=64,
        num_layers=19,
        num_single_layers=38,
        attention_head_dim=128,
        num_attention_heads=24,
        joint_attention_dim=4096,
        pooled_projection_dim=768,
        guidance_embeds=kind == "dev",
    )


def _flux_inputs(kind: str, _: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Four neighbours of the latent are one token of 64 channels."""
    size, patches = point["batch"], (point["latent"] // 2) ** 2
    named = {
        "hidden_states": empty(size, patches, 64),
        "encoder_hidden_states": empty(size, FLUX[kind], 4096),
        "pooled_projections": empty(size, 768),
        "timestep": empty(size),
        "img_ids": empty(patches, 3),
        "txt_ids": empty(FLUX[kind], 3),
        **({"guidance": empty(size)} if kind == "dev" else {}),
    }
    return (), named


def _pixart() -> Any:
    """Sizes of PixArt-alpha/PixArt-XL-2-1024-MS, transformer/config.json."""
    from diffusers import PixArtTransformer2DModel

    return PixArtTransformer2DModel(
        num_attention_heads=16,
        attention_head_dim=72,
        in_channels=4,
        out_channels=8,
        num_layers=28,
        cross_attention_dim=1152,
        attention_bias=True,
        sample_size=128,
        patch_size=2,
        caption_channels=4096,
        norm_type="ada_norm_single",
        norm_elementwise_affine=False,
        norm_eps=1e-6,
    )


def _pixart_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size, side = point["batch"], point["latent"]
    named = {
        "hidden_states": empty(size, 4, side, side),
        "encoder_hidden_states": empty(size, 120, 4096),
        "timestep": tokens(size),
        "added_cond_kwargs": {"resolution": empty(size, 2), "aspect_ratio": empty(size, 1)},
    }
    return (), named


def _clip_text(width: int, layers: int, heads: int, activation: str) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_act=activation,
        projection_dim=width,
        attn_implementation="sdpa",
    )
    return (CLIPTextModel if width == 768 else CLIPTextModelWithProjection)(config)


def _clip_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_ids": tokens(point["batch"], 77)}


def _t5_xxl() -> Any:
    """Sizes of google/t5-v1_1-xxl, config.json."""
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(
        T5Config(
            d_model=4096,
            d_ff=10240,
            d_kv=64,
            num_layers=24,
            num_heads=64,
            feed_forward_proj="gated-gelu",
            vocab_size=32128,
        )
    )


def _t5_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_ids": tokens(point["batch"], point["seq"])}


def _dit_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = point["batch"]
    named = {
        "hidden_states": empty(size, 4, 32, 32),
        "timestep": tokens(size),
        "class_labels": tokens(size),
    }
    return (), named
