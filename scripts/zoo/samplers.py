"""Transformers that a sampler calls at each step: of Stable Diffusion 3.5 and of video models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.diffusion import _sd3_inputs
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject, tokens

#: Heads of 128, inner width, layers; transformer/config.json of Wan-AI/Wan2.1-T2V-*-Diffusers.
WAN = {"wan2.1-1.3b": (12, 8960, 30), "wan2.1-14b": (40, 13824, 40)}

#: Heads of 64, layers, rotary embeddings; transformer/config.json of THUDM/CogVideoX-*.
COG = {"cogvideox-2b": (30, 30, False), "cogvideox-5b": (48, 42, True)}


def entries() -> Iterator[Entry]:
    """Images by the side of their latent, videos by the frames and sides of theirs."""
    latent = Symbol(
        name="latent", default=128, minimum=16, multiple_of=8, about="side of the latent"
    )
    for size in ("medium", "large"):
        yield Entry(
            name=f"sd3.5-{size}-transformer",
            family="image generation",
            about=f"Stable Diffusion 3.5 {size} transformer, one step, 333 text tokens",
            build=partial(_subject, partial(_sd35, size), _sd3_inputs),
            symbols=(batch("latents at once"), latent),
            values={"batch": (1, 3), "latent": (16, 24, 32, 40, 48)},
            held_out=({"batch": 2, "latent": 64}, {"batch": 5, "latent": 56}),
            source="diffusers SD3Transformer2DModel",
        )
    for name, sizes in WAN.items():
        short = name.removeprefix("wan2.1-")
        yield _video(
            f"{name}-transformer",
            f"Wan 2.1 {short.upper()} text to video transformer",
            partial(_wan, *sizes),
            _wan_inputs,
            (
                name,
                f"wan-{short}",
                f"wan2.1-t2v-{short}",
                *(("wan", "wan2.1") if "14" in name else ()),
            ),
            "diffusers WanTransformer3DModel",
            512,
        )
    for name, cog in COG.items():
        yield _video(
            f"{name}-transformer",
            f"CogVideoX {name[-2:].upper()} transformer",
            partial(_cog, *cog),
            partial(_cog_inputs, cog[-1]),
            (name, *(("cogvideox",) if "5b" in name else ())),
            "diffusers CogVideoXTransformer3DModel",
            226,
            size=(13, 60, 90),
        )
    yield _video(
        "hunyuan-video-transformer",
        "HunyuanVideo transformer",
        _hunyuan,
        _hunyuan_inputs,
        ("hunyuanvideo", "hunyuan-video"),
        "diffusers HunyuanVideoTransformer3DModel",
        256,
        batches=False,
    )


def _video(
    name: str,
    about: str,
    make: Callable[[], Any],
    inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]],
    aliases: tuple[str, ...],
    source: str,
    text: int,
    *,
    batches: bool = True,
    size: tuple[int, int, int] = (21, 60, 104),
) -> Entry:
    several = {"batch": (1, 3)} if batches else {}
    frames, height, width = size
    video = f"{4 * frames - 3} frames of {8 * width}x{8 * height}"
    return Entry(
        name=name,
        family="video generation",
        about=f"{about}, one step, {text} text tokens; the default is {video}",
        build=partial(_subject, make, inputs),
        symbols=(
            *((batch("videos at once"),) if batches else ()),
            Symbol(name="frames", default=frames, minimum=3, about="frames of the latent, 1/4"),
            Symbol(
                name="height", default=height, minimum=4, multiple_of=2, about="of the latent, 1/8"
            ),
            Symbol(
                name="width", default=width, minimum=6, multiple_of=2, about="of the latent, 1/8"
            ),
        ),
        values={**several, "frames": (3, 5, 6), "height": (4, 8, 14), "width": (6, 10, 16)},
        held_out=tuple(
            {**point, **({"batch": at} if batches else {})}
            for at, point in (
                (2, {"frames": 9, "height": 20, "width": 12}),
                (5, {"frames": 4, "height": 6, "width": 18}),
            )
        ),
        aliases=aliases,
        source=source,
    )


def _subject(
    make: Callable[[], Any],
    inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]],
) -> Subject:
    return module_subject(lean(make), inputs)


def _sd35(size: str) -> Any:
    """Sizes of stabilityai/stable-diffusion-3.5-*, transformer/config.json."""
    from diffusers import SD3Transformer2DModel

    depth = 24 if size == "medium" else 38
    return SD3Transformer2DModel(
        sample_size=128,
        patch_size=2,
        in_channels=16,
        out_channels=16,
        num_layers=depth,
        attention_head_dim=64,
        num_attention_heads=depth,
        joint_attention_dim=4096,
        caption_projection_dim=64 * depth,
        pooled_projection_dim=2048,
        pos_embed_max_size=384 if size == "medium" else 192,
        qk_norm="rms_norm",
        dual_attention_layers=tuple(range(13)) if size == "medium" else (),
    )


def _wan(heads: int, inner: int, layers: int) -> Any:
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(num_attention_heads=heads, ffn_dim=inner, num_layers=layers)


def _wan_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = point["batch"]
    return (), {
        "hidden_states": _latent(point),
        "timestep": tokens(size),
        "encoder_hidden_states": empty(size, 512, 4096),
    }


def _hunyuan() -> Any:
    """The defaults are those of hunyuanvideo-community/HunyuanVideo, transformer/config.json."""
    from diffusers import HunyuanVideoTransformer3DModel

    return HunyuanVideoTransformer3DModel()


def _hunyuan_inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    size = 1
    return (), {
        "hidden_states": _latent(point),
        "timestep": tokens(size),
        "encoder_hidden_states": empty(size, 256, 4096),
        "encoder_attention_mask": torch.ones(size, 256, dtype=torch.bool),
        "pooled_projections": empty(size, 768),
        "guidance": empty(size),
    }


def _cog(heads: int, layers: int, rotary: bool) -> Any:
    from diffusers import CogVideoXTransformer3DModel

    return CogVideoXTransformer3DModel(
        num_attention_heads=heads,
        num_layers=layers,
        use_rotary_positional_embeddings=rotary,
    )


def _cog_inputs(rotary: bool, _: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size, frames = point["batch"], point["frames"]
    height, width = point["height"], point["width"]
    places = frames * height * width // 4
    turned = {"image_rotary_emb": (empty(places, 64), empty(places, 64))} if rotary else {}
    return (), {
        "hidden_states": empty(size, frames, 16, height, width),
        "encoder_hidden_states": empty(size, 226, 4096),
        "timestep": tokens(size),
        **turned,
    }


def _latent(point: Point) -> Any:
    return empty(point.get("batch", 1), 16, point["frames"], point["height"], point["width"])
