"""Image generators that are built in: which models they run, how often, at which sizes.

Steps and sizes are the defaults of the pipelines of diffusers 0.42 (StableDiffusionPipeline,
StableDiffusionXLPipeline, StableDiffusion3Pipeline, FluxPipeline, PixArtAlphaPipeline,
DiTPipeline); the parts are entries of the embedded zoo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gambrel.errors import WorkloadError
from gambrel.llm.pipelines.compose import Part, compose, with_fixed
from gambrel.workload import Dim, Symbol, Workload


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a pipeline.

    Attributes:
        name: What reports call it.
        entry: Name in the zoo.
        sizes: Symbol of the entry → polynomial in the pipeline's symbols.
        sampled: It runs once a step; otherwise once.
    """

    name: str
    entry: str
    sizes: dict[str, Dim] = {}
    sampled: bool = False


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A generator of images.

    Attributes:
        name: Canonical name.
        aliases: Other names.
        about: One line.
        components: In the order in which they run.
        symbols: Sizes that may be chosen.
        steps: Of the sampler, when the user does not say.
        parameters: Of all parts together.
        flops: Multiply-accumulate work at the default sizes.
        assumptions: Printed with every result.
    """

    name: str
    about: str
    components: tuple[Component, ...]
    symbols: tuple[Symbol, ...]
    steps: int
    parameters: int
    flops: int
    aliases: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def steps_symbol(self) -> Symbol:
        """The sampler's steps, which the structure of the workload depends on."""
        return Symbol(
            name="steps", default=self.steps, minimum=1, maximum=10_000, about="sampler steps"
        )


def build(
    pipeline: Pipeline, sizes: Mapping[str, int | None], load: Callable[[str], Workload]
) -> Workload:
    """The workload of a pipeline.

    Args:
        pipeline: One of `PIPELINES`.
        sizes: Sizes asked for; the number of steps is taken from here.
        load: Reads an entry of the zoo.

    Raises:
        WorkloadError: A size that the pipeline does not have, or out of its range.
    """
    steps = with_fixed(pipeline.steps_symbol, sizes.get("steps"))
    symbols = (*pipeline.symbols, steps)
    _check(pipeline, symbols, sizes)
    parts = [
        Part(
            name=c.name,
            workload=load(c.entry),
            times=steps.default if c.sampled else 1,
            sizes=c.sizes,
        )
        for c in pipeline.components
    ]
    return compose(
        pipeline.name,
        parts,
        symbols=symbols,
        assumptions=(*pipeline.assumptions, *_explained(pipeline, steps.default)),
    )


def _check(
    pipeline: Pipeline, symbols: tuple[Symbol, ...], sizes: Mapping[str, int | None]
) -> None:
    """Before any part is read: the sizes are those of the pipeline, and within their ranges."""
    known = {s.name: s for s in symbols}
    for name, value in sizes.items():
        if value is None:
            continue
        if name not in known:
            raise WorkloadError(f"{pipeline.name} has no size {name!r}; it has {', '.join(known)}.")
        known[name].check(value)


def _explained(pipeline: Pipeline, steps: int) -> tuple[str, ...]:
    sampled = next(c.name for c in pipeline.components if c.sampled)
    guided = any(s.name == "guidance" for s in pipeline.symbols)
    with_pairs = (
        " With guidance 2 each image passes it twice a step (with the prompt and without), and so "
        "does the text."
        if guided
        else ""
    )
    return (
        f"{sampled} runs {steps} times (--size steps=N), everything else once.{with_pairs}",
        "all parts stay in memory; the sampler's own arithmetic on latents, some operations a "
        "value, and the search for unsafe images are not counted.",
    )


def _batch(about: str = "images at once") -> Symbol:
    return Symbol(name="batch", default=1, about=about)


def _image(default: int, least: int = 128, maximum: int | None = None) -> Symbol:
    """The side of a latent is 1/8 of it, and a multiple of 8."""
    return Symbol(
        name="image",
        default=default,
        minimum=least,
        maximum=maximum,
        multiple_of=64,
        about="image side in pixels",
    )


def _guidance(least: int = 1, default: int = 2) -> Symbol:
    return Symbol(
        name="guidance",
        default=default,
        minimum=least,
        maximum=2,
        about="2: with and without the prompt",
    )


_PAIRS: Final[Dim] = "guidance*batch"
_SIDE: Final[Dim] = "1/8*image"


def _text(name: str, entry: str, **sizes: Dim) -> Component:
    return Component(name=name, entry=entry, sizes={"batch": _PAIRS, **sizes})


def _sampler(name: str, entry: str, batch: Dim = _PAIRS) -> Component:
    return Component(name=name, entry=entry, sizes={"batch": batch, "latent": _SIDE}, sampled=True)


def _decoder(entry: str) -> Component:
    return Component(name="vae", entry=entry, sizes={"batch": "batch", "latent": _SIDE})


def _third(
    name: str,
    transformer: str,
    *,
    about: str,
    parameters: int,
    flops: int,
    aliases: tuple[str, ...],
) -> Pipeline:
    """The third generation of Stable Diffusion: sizes differ in the transformer alone."""
    return Pipeline(
        name=name,
        about=f"{about}: three text encoders, MMDiT at each step, image decoder",
        components=(
            _text("text_encoder", "clip-l-text"),
            _text("text_encoder_2", "openclip-bigg-text"),
            _text("text_encoder_3", "t5-xxl-encoder", seq=256),
            _sampler("transformer", transformer),
            _decoder("vae16-decoder"),
        ),
        symbols=(_batch(), _image(1024, maximum=3072), _guidance(least=2)),
        steps=28,
        parameters=parameters,
        flops=flops,
        aliases=aliases,
        assumptions=("the projection of the first text encoder (0.6 M parameters) is left out.",),
    )


_ALL: Final = (
    Pipeline(
        name="stable-diffusion-1.5",
        about="Stable Diffusion 1.5: text encoder, UNet at each step, image decoder",
        components=(
            _text("text_encoder", "clip-l-text"),
            _sampler("unet", "sd15-unet"),
            _decoder("sd15-vae-decoder"),
        ),
        symbols=(_batch(), _image(512), _guidance()),
        steps=50,
        parameters=1_032_071_643,
        flops=82_868_244_340_736,
        aliases=(
            "stable diffusion",
            "stable-diffusion-v1-5",
            "sd-1.5",
            "sd15",
            "sd15-pipeline",
            "sd 1.5 pipeline",
        ),
    ),
    Pipeline(
        name="stable-diffusion-xl",
        about="Stable Diffusion XL: two text encoders, UNet at each step, image decoder",
        components=(
            _text("text_encoder", "clip-l-text"),
            _text("text_encoder_2", "openclip-bigg-text"),
            _sampler("unet", "sdxl-unet"),
            _decoder("sd15-vae-decoder"),
        ),
        symbols=(_batch(), _image(1024), _guidance()),
        steps=50,
        parameters=3_434_674_203,
        flops=686_815_181_103_104,
        aliases=(
            "sdxl",
            "sd xl",
            "stable-diffusion-xl-base-1.0",
            "sdxl-base",
            "sdxl-pipeline",
        ),
        assumptions=(
            "the decoder has the architecture of Stable Diffusion 1.5's; with the original "
            "weights it has to run in fp32, which is not taken into account.",
        ),
    ),
    _third(
        "stable-diffusion-3",
        "sd3-medium-transformer",
        about="Stable Diffusion 3 medium",
        parameters=7_657_904_451,
        flops=514_129_438_400_512,
        aliases=("sd3", "sd3-medium", "stable-diffusion-3-medium"),
    ),
    _third(
        "stable-diffusion-3.5-medium",
        "sd3.5-medium-transformer",
        about="Stable Diffusion 3.5 medium",
        parameters=7_872_747_971,
        flops=645_462_663_847_936,
        aliases=("sd3.5-medium",),
    ),
    _third(
        "stable-diffusion-3.5-large",
        "sd3.5-large-transformer",
        about="Stable Diffusion 3.5 large",
        parameters=13_686_203_971,
        flops=1_758_268_971_040_768,
        aliases=("sd3.5-large", "sd3.5", "sd-3.5", "stable-diffusion-3.5"),
    ),
    Pipeline(
        name="flux-dev",
        about="FLUX.1 dev: two text encoders, transformer at each step, image decoder",
        components=(
            _text("text_encoder", "clip-l-text", batch="batch"),
            _text("text_encoder_2", "t5-xxl-encoder", batch="batch", seq=512),
            _sampler("transformer", "flux-transformer", batch="batch"),
            _decoder("vae16-decoder"),
        ),
        symbols=(_batch(), _image(1024)),
        steps=28,
        parameters=16_836_324_931,
        flops=2_098_100_413_476_864,
        aliases=("flux", "flux.1-dev", "flux1"),
        assumptions=("guidance is distilled into the weights: each image passes once a step.",),
    ),
    Pipeline(
        name="flux-schnell",
        about="FLUX.1 schnell: two text encoders, transformer at each step, image decoder",
        components=(
            _text("text_encoder", "clip-l-text", batch="batch"),
            _text("text_encoder_2", "t5-xxl-encoder", batch="batch", seq=256),
            _sampler("transformer", "flux-schnell-transformer", batch="batch"),
            _decoder("vae16-decoder"),
        ),
        symbols=(_batch(), _image(1024)),
        steps=4,
        parameters=16_826_095_171,
        flops=290_748_494_327_808,
        aliases=("flux.1-schnell",),
        assumptions=("guidance is distilled into the weights: each image passes once a step.",),
    ),
    Pipeline(
        name="pixart-alpha",
        about="PixArt-alpha XL/2 1024: text encoder, transformer at each step, image decoder",
        components=(
            _text("text_encoder", "t5-xxl-encoder", seq=120),
            _sampler("transformer", "pixart-transformer"),
            _decoder("sd15-vae-decoder"),
        ),
        symbols=(_batch(), _image(1024), _guidance()),
        steps=20,
        parameters=5_423_150_007,
        flops=273_085_305_454_592,
        aliases=("pixart", "PixArt-XL-2-1024-MS"),
    ),
    Pipeline(
        name="dit-xl-2-256-pipeline",
        about="DiT-XL/2 for 256x256 images of a class: transformer at each step, image decoder",
        components=(
            Component(name="transformer", entry="dit-xl-2", sizes={"batch": _PAIRS}, sampled=True),
            Component(name="vae", entry="sd15-vae-decoder", sizes={"batch": "batch", "latent": 32}),
        ),
        symbols=(_batch(), _guidance()),
        steps=50,
        parameters=799_316_663,
        flops=24_355_554_885_632,
        aliases=("dit pipeline",),
    ),
)

#: Canonical name → pipeline.
PIPELINES: Final[dict[str, Pipeline]] = {p.name: p for p in _ALL}
