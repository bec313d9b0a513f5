"""A diffusers folder (``model_index.json`` and the parts' configurations) as one workload.

Only classes of the installed diffusers and transformers are built, from their configurations alone,
without weights; code of a repository is never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.torch.diffusion_parts import (
    DECODERS,
    DENOISERS,
    TEXT_ENCODERS,
    SampleShape,
    latent_of,
    zeros,
)
from gambrel.errors import CaptureError, FileFormatError, MissingExtraError
from gambrel.fileio import read_json
from gambrel.llm.pipelines import Part, compose, with_fixed
from gambrel.workload import Symbol, Workload

#: Largest configuration of a part, byte.
MAX_CONFIG_BYTES: Final = 10 * 2**20
#: Beyond these a configuration is wrong or hostile.
MAX_NUMBER: Final = 10_000_000
MAX_LAYERS: Final = 1000

_DENOISER_NAMES: Final = ("unet", "transformer")


def workload_from_folder(
    folder: str | Path, sizes: Mapping[str, int | None] | None = None
) -> Workload:
    """The workload of a pipeline for one batch of images or videos.

    Args:
        folder: With a ``model_index.json``, or that file.
        sizes: ``batch`` (1), ``steps`` (30), ``guidance`` (2 where the pipeline guides), ``image``
            or ``height`` and ``width`` in pixels, and ``frames`` for videos.

    Raises:
        MissingExtraError: diffusers is not installed.
        FileFormatError: A file is missing, damaged or absurd.
        CaptureError: A part of a class that is not known here.
        WorkloadError: A size out of range.
    """
    path = Path(folder)
    path = path.parent if path.is_file() else path
    index = _read(path / "model_index.json")
    _require_diffusers()
    named = _components(path, index)
    return _Pipeline(path, index, named).workload(dict(sizes or {}))


def _require_diffusers() -> None:
    for package in ("torch", "transformers", "diffusers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "diffusion", "A diffusers pipeline")
    from gambrel.capture.torch.shim import ensure_torchvision

    ensure_torchvision()


def _read(path: Path) -> dict[str, Any]:
    """A configuration, with limits."""
    data = read_json(path, MAX_CONFIG_BYTES, "a configuration", "it is damaged or truncated")
    if not isinstance(data, dict):
        raise FileFormatError(f"{path} holds no JSON object; it is no configuration.")
    _check(path, data)
    return data


def _check(path: Path, data: Any, name: str = "", depth: int = 0) -> None:
    """Refuses numbers that no model has, before anything is built from them."""
    if depth > 20 or (isinstance(data, (dict, list)) and len(data) > 10_000):
        raise FileFormatError(f"{path}: {name or 'it'} is nested or long beyond any model.")
    if isinstance(data, dict):
        for key, value in data.items():
            _check(path, value, str(key)[:60], depth + 1)
    elif isinstance(data, list):
        for value in data:
            _check(path, value, name, depth + 1)
    elif isinstance(data, int) and not isinstance(data, bool):
        limit = MAX_LAYERS if "layers" in name else MAX_NUMBER
        if abs(data) > limit:
            raise FileFormatError(f"{path}: {name}={data} is beyond any model; refused.")


def _components(path: Path, index: Mapping[str, Any]) -> dict[str, str]:
    """Part → class, in the order in which parts run; tokenizers, schedulers and checkers apart."""
    found: dict[str, str] = {}
    for name, entry in index.items():
        if name.startswith("_") or not isinstance(entry, list) or len(entry) != 2:
            continue
        if isinstance(entry[1], str):
            found[name] = entry[1]
    texts = sorted(n for n in found if n.startswith("text_encoder"))
    denoiser = next((n for n in _DENOISER_NAMES if n in found), None)
    if denoiser is None:
        listed = ", ".join(found)[:200] or "none"
        raise CaptureError(f"{path}: no unet and no transformer among its parts ({listed}).")
    ordered = {n: found[n] for n in (*texts, denoiser)}
    if "vae" in found:
        ordered["vae"] = found["vae"]
    for name, kind in ordered.items():
        known = _known(name)
        if kind not in known:
            raise CaptureError(
                f"{path}: the part {name} is a {kind[:60]}, which is not known here; known: "
                f"{', '.join(known)}."
            )
    return ordered


def _known(name: str) -> Mapping[str, object]:
    if name.startswith("text_encoder"):
        return TEXT_ENCODERS
    return DECODERS if name == "vae" else DENOISERS


class _Pipeline:
    """A folder that was read: builds its parts and captures them at sizes.

    Args:
        path: The folder.
        index: Its index.
        named: Part → class, in the order in which they run.
    """

    def __init__(self, path: Path, index: Mapping[str, Any], named: Mapping[str, str]) -> None:
        self._path, self._index, self._named = path, index, named
        self._configs = {n: _read(path / n / "config.json") for n in named}
        self._denoiser = next(n for n in named if n in _DENOISER_NAMES)
        self._rules = DENOISERS[named[self._denoiser]]

    def workload(self, sizes: dict[str, int | None]) -> Workload:
        symbols = self._symbols(sizes)
        at = {s.name: s.default for s in symbols}
        shape = self._shape(at)
        pairs = at["batch"] * at.get("guidance", 1)
        parts = [
            self._part(name, kind, shape, pairs, at["steps"]) for name, kind in self._named.items()
        ]
        from diffusers import __version__

        kind = str(self._index.get("_class_name", "pipeline"))[:60]
        done = compose(
            self._path.resolve().name,
            parts,
            symbols=symbols,
            origin=f"diffusers {__version__} {kind}",
            assumptions=(
                f"{self._denoiser} runs {at['steps']} times (--size steps=N), everything else "
                "once.",
                "all parts stay in memory; the sampler's own arithmetic and safety checkers are "
                "not counted.",
            ),
        )
        return replace(done, chosen_dtype=False)

    def _symbols(self, sizes: Mapping[str, int | None]) -> tuple[Symbol, ...]:
        """Every size has one value: the capture's."""
        step = self._scale * 2
        side = Symbol(
            name="height",
            default=self._default_side(),
            minimum=step,
            maximum=8192,
            multiple_of=step,
            about="pixels",
        )
        open_ = [
            Symbol(name="batch", default=1, maximum=4096, about="items at once"),
            side,
            replace(side, name="width"),
            Symbol(name="steps", default=30, maximum=10_000, about="sampler steps"),
        ]
        if self._rules.guided:
            open_.append(Symbol(name="guidance", default=2, maximum=2, about="2: with and without"))
        if self._rules.video:
            open_.append(Symbol(name="frames", default=49, maximum=2000, about="of a video"))
        both = sizes.get("image")
        given = {"height": both, "width": both, **{k: v for k, v in sizes.items() if v is not None}}
        known = {s.name for s in open_} | {"image"}
        for name in given:
            if name not in known:
                raise CaptureError(f"this pipeline has no size {name!r}; it has {_listed(known)}.")
        chosen = [with_fixed(s, given.get(s.name)) for s in open_]
        if both is not None:
            fixed = Symbol(name="image", default=both, minimum=both, maximum=both, about="pixels")
            chosen = [s for s in chosen if s.name not in {"height", "width"}] + [fixed]
        return tuple(chosen)

    @property
    def _scale(self) -> int:
        """How many times smaller a latent is than the image: one halving a level."""
        levels = self._configs.get("vae", {}).get("block_out_channels")
        return 2 ** (len(levels) - 1) if isinstance(levels, list) and levels else 8

    def _default_side(self) -> int:
        sample = self._configs[self._denoiser].get("sample_size")
        side = sample if isinstance(sample, int) and 0 < sample <= 1024 else 64
        return side * self._scale

    def _shape(self, at: Mapping[str, int]) -> SampleShape:
        height = at.get("height", at.get("image", 0)) // self._scale
        width = at.get("width", at.get("image", 0)) // self._scale
        shrink = DECODERS[self._named["vae"]] if "vae" in self._named else 1
        frames = 1 + (at["frames"] - 1) // max(shrink, 1) if "frames" in at else 1
        return SampleShape(
            batch=at["batch"], height=height, width=width, frames=frames, tokens=self._rules.tokens
        )

    def _part(self, name: str, kind: str, shape: SampleShape, pairs: int, steps: int) -> Part:
        if name == "vae":
            return Part(name=name, workload=self._decoder(kind, shape))
        if name.startswith("text_encoder"):
            return Part(name=name, workload=self._text(name, kind, pairs))
        model = self._build(name, "diffusers", kind)
        own = SampleShape(
            batch=pairs,
            height=shape.height,
            width=shape.width,
            frames=shape.frames,
            tokens=shape.tokens,
        )
        args, kwargs = self._rules.call(model.config, own)
        return Part(name=name, workload=self._capture(name, model, args, kwargs), times=steps)

    def _text(self, name: str, kind: str, batch: int) -> Workload:
        model = self._build(name, "transformers", kind)
        limit = getattr(model.config, "max_position_embeddings", None)
        tokens = limit if kind.startswith("CLIP") and limit else min(self._rules.tokens, 512)
        if (
            kind.startswith("T5")
            and self._rules.tokens > 77
            and "SD3" in self._named[self._denoiser]
        ):
            tokens = self._rules.tokens - 77
        return self._capture(name, model, (), {"input_ids": zeros(batch, tokens)})

    def _decoder(self, kind: str, shape: SampleShape) -> Workload:
        import torch

        whole = self._build("vae", "diffusers", kind)

        class Decoder(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
            def __init__(self) -> None:
                super().__init__()
                self.vae = whole

            def forward(self, latent: Any) -> Any:
                return self.vae.decode(latent, return_dict=False)[0]

        latent = latent_of(whole.config, shape, kind)
        return self._capture("vae", Decoder().eval(), (latent,), {})

    def _build(self, name: str, package: str, kind: str) -> Any:
        """A part without weights."""
        from gambrel.capture.torch import lean_init

        config = {k: v for k, v in self._configs[name].items() if k != "_class_name"}
        try:
            with lean_init():
                if package == "transformers":
                    import transformers

                    settings = getattr(transformers, TEXT_ENCODERS[kind])(**config)
                    return getattr(transformers, kind)(settings).eval()
                import diffusers

                return getattr(diffusers, kind).from_config(config).eval()
        except AttributeError as error:
            raise CaptureError(
                f"{self._path / name}: the installed {package} has no {kind}: {error}."
            ) from None
        except Exception as error:  # a library's own refusal of a configuration
            raise CaptureError(
                f"{self._path / name / 'config.json'}: {kind} cannot be built: {_short(error)}"
            ) from None

    def _capture(
        self, name: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Workload:
        from gambrel.capture.torch import capture

        return capture(model, args, kwargs, source=False, name=name)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
