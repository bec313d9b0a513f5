"""The models that diffusers pipelines are made of: how each is called at given sizes.

A part that is not listed is refused by name: what it would be called with is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShape:
    """What one run works on.

    Attributes:
        batch: Items that pass this part at once.
        height: Side of the latent.
        width: Other side of the latent.
        frames: Frames of the latent; 1 for images.
        tokens: Tokens of text that the denoiser reads.
    """

    batch: int
    height: int
    width: int
    frames: int = 1
    tokens: int = 77


def empty(*shape: int) -> Any:
    """A tensor without memory."""
    import torch

    return torch.empty(shape, device="meta")


def zeros(*shape: int) -> Any:
    """Whole numbers, such as token ids and time steps."""
    import torch

    return torch.zeros(shape, dtype=torch.long)


def _unet(config: Any, s: SampleShape) -> Call:
    named: dict[str, Any] = {
        "sample": empty(s.batch, config.in_channels, s.height, s.width),
        "timestep": zeros(s.batch),
        "encoder_hidden_states": empty(s.batch, s.tokens, _last(config.cross_attention_dim)),
    }
    if config.addition_embed_type == "text_time":
        text = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        named["added_cond_kwargs"] = {
            "text_embeds": empty(s.batch, text),
            "time_ids": empty(s.batch, 6),
        }
    return (), named


def _last(value: Any) -> int:
    return int(value[-1] if isinstance(value, (list, tuple)) else value)


def _sd3(config: Any, s: SampleShape) -> Call:
    return (), {
        "hidden_states": empty(s.batch, config.in_channels, s.height, s.width),
        "encoder_hidden_states": empty(s.batch, s.tokens, config.joint_attention_dim),
        "pooled_projections": empty(s.batch, config.pooled_projection_dim),
        "timestep": zeros(s.batch),
    }


def _flux(config: Any, s: SampleShape) -> Call:
    """Four neighbours of the latent are one token."""
    patches = (s.height // 2) * (s.width // 2)
    named = {
        "hidden_states": empty(s.batch, patches, config.in_channels),
        "encoder_hidden_states": empty(s.batch, s.tokens, config.joint_attention_dim),
        "pooled_projections": empty(s.batch, config.pooled_projection_dim),
        "timestep": empty(s.batch),
        "img_ids": empty(patches, 3),
        "txt_ids": empty(s.tokens, 3),
    }
    if config.guidance_embeds:
        named["guidance"] = empty(s.batch)
    return (), named


def _pixart(config: Any, s: SampleShape) -> Call:
    sized = config.use_additional_conditions
    if sized is None:
        sized = config.sample_size == 128
    return (), {
        "hidden_states": empty(s.batch, config.in_channels, s.height, s.width),
        "encoder_hidden_states": empty(s.batch, s.tokens, config.caption_channels),
        "timestep": zeros(s.batch),
        "added_cond_kwargs": {
            "resolution": empty(s.batch, 2) if sized else None,
            "aspect_ratio": empty(s.batch, 1) if sized else None,
        },
    }


def _dit(config: Any, s: SampleShape) -> Call:
    return (), {
        "hidden_states": empty(s.batch, config.in_channels, s.height, s.width),
        "timestep": zeros(s.batch),
        "class_labels": zeros(s.batch),
    }


def _wan(config: Any, s: SampleShape) -> Call:
    return (), {
        "hidden_states": empty(s.batch, config.in_channels, s.frames, s.height, s.width),
        "timestep": zeros(s.batch),
        "encoder_hidden_states": empty(s.batch, s.tokens, config.text_dim),
    }


def _cogvideo(config: Any, s: SampleShape) -> Call:
    named: dict[str, Any] = {
        "hidden_states": empty(s.batch, s.frames, config.in_channels, s.height, s.width),
        "encoder_hidden_states": empty(s.batch, s.tokens, config.text_embed_dim),
        "timestep": zeros(s.batch),
    }
    if config.use_rotary_positional_embeddings:
        patches = s.frames * (s.height // config.patch_size) * (s.width // config.patch_size)
        angles = empty(patches, config.attention_head_dim)
        named["image_rotary_emb"] = (angles, angles)
    return (), named


@dataclass(frozen=True, slots=True, kw_only=True)
class Denoiser:
    """A network that the sampler calls at each step.

    Attributes:
        call: Its arguments.
        tokens: Tokens of text that its pipeline gives it.
        guided: Each item passes twice a step, with the prompt and without.
        video: The latent has frames.
    """

    call: Callable[[Any, SampleShape], Call]
    tokens: int = 77
    guided: bool = True
    video: bool = False


#: Class of diffusers → how it is called. Tokens are the defaults of the pipelines.
DENOISERS: Final[Mapping[str, Denoiser]] = {
    "UNet2DConditionModel": Denoiser(call=_unet),
    "SD3Transformer2DModel": Denoiser(call=_sd3, tokens=77 + 256),
    "FluxTransformer2DModel": Denoiser(call=_flux, tokens=512, guided=False),
    "PixArtTransformer2DModel": Denoiser(call=_pixart, tokens=120),
    "DiTTransformer2DModel": Denoiser(call=_dit, tokens=1),
    "WanTransformer3DModel": Denoiser(call=_wan, tokens=512, video=True),
    "CogVideoXTransformer3DModel": Denoiser(call=_cogvideo, tokens=226, video=True),
}

#: Class of transformers → class of its configuration.
TEXT_ENCODERS: Final[Mapping[str, str]] = {
    "CLIPTextModel": "CLIPTextConfig",
    "CLIPTextModelWithProjection": "CLIPTextConfig",
    "T5EncoderModel": "T5Config",
    "UMT5EncoderModel": "UMT5Config",
}

#: Class of diffusers → how many times smaller a latent is along time.
DECODERS: Final[Mapping[str, int]] = {
    "AutoencoderKL": 1,
    "AutoencoderTiny": 1,
    "AutoencoderKLWan": 4,
    "AutoencoderKLCogVideoX": 4,
}


def latent_of(config: Any, shape: SampleShape, kind: str) -> Any:
    """The input of a decoder."""
    channels = getattr(config, "latent_channels", None) or getattr(config, "z_dim", None) or 4
    if DECODERS[kind] > 1:
        return empty(shape.batch, channels, shape.frames, shape.height, shape.width)
    return empty(shape.batch, channels, shape.height, shape.width)
