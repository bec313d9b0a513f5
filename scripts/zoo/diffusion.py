"""Image generation: the networks that a sampler calls at each step, and the image decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens

FAMILY = "image generation"


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
        aliases=("sd-1.5", "stable-diffusion-v1-5", "stable diffusion", "sd unet", "sd 1.5 unet"),
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
        aliases=("sdxl", "stable-diffusion-xl-base-1.0"),
        source="diffusers UNet2DConditionModel",
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


def _vae() -> Any:
    import torch
    from diffusers import AutoencoderKL

    class Decoder(torch.nn.Module):
        def __init__(self, whole: Any) -> None:
            super().__init__()
            self.post_quant_conv = whole.post_quant_conv
            self.decoder = whole.decoder

        def forward(self, latent: Any) -> Any:
            return self.decoder(self.post_quant_conv(latent))

    return Decoder(
        AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=4,
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


def _vae_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (empty(point["batch"], 4, point["latent"], point["latent"]),), {}


def _dit_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = point["batch"]
    named = {
        "hidden_states": empty(size, 4, 32, 32),
        "timestep": tokens(size),
        "class_labels": tokens(size),
    }
    return (), named
