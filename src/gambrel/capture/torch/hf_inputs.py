"""Example inputs of a transformers model at given sizes, and a key-value cache for decoding."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from gambrel.capture.closed_form import DECODE, PREFILL, SYMBOLS
from gambrel.capture.torch.hf_config import Architecture, ModelTask
from gambrel.errors import CaptureError, InputError
from gambrel.workload import Symbol

#: What models call their cache: since transformers 5.24, and before.
CACHES: Final = ("cache", "past_key_values")
#: Image side where a configuration has none (convolutional networks take any), and audio samples.
DEFAULT_SIDE: Final = 224
AUDIO_SAMPLES: Final = 160_000  # 10 s at 16 kHz


def phases_of(architecture: Architecture) -> tuple[str, ...]:
    """The phases that can be captured, the default first; empty when there is one pass only."""
    if architecture.task is not ModelTask.GENERATE:
        return ()
    return (PREFILL, DECODE) if _cache_name(architecture) else (PREFILL,)


def symbols_of(architecture: Architecture, phase: str | None) -> tuple[Symbol, ...]:
    """The sizes that an architecture has in a phase, with defaults and upper limits."""
    names = ["batch"]
    if phase == DECODE:
        names.append("context")
    elif _main_input(architecture) == "input_ids":
        names.append("seq")
    if architecture.task is ModelTask.TRANSLATE:
        names.append("target")
    return tuple(_limited(SYMBOLS[n], architecture) for n in names)


def inputs_at(
    architecture: Architecture, model: Any, phase: str | None, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Keyword arguments for one call of ``model`` at these sizes.

    Raises:
        CaptureError: The model takes inputs of a kind that is not known here.
    """
    accepted = inspect.signature(architecture.model_class.forward).parameters  # type: ignore[attr-defined]
    if phase == DECODE:
        return _decode_inputs(architecture, model, sizes)
    found = _main_inputs(architecture, sizes)
    if architecture.task is ModelTask.TRANSLATE:
        found["decoder_input_ids"] = _ids(sizes["batch"], sizes["target"])
    if phase == PREFILL and "logits_to_keep" in accepted:
        found["logits_to_keep"] = 1
    if "use_cache" in accepted:
        found["use_cache"] = False
    return found


def _main_inputs(architecture: Architecture, sizes: Mapping[str, int]) -> dict[str, Any]:
    kind = _main_input(architecture)
    batch = sizes["batch"]
    config = architecture.config
    if kind == "input_ids":
        found = {"input_ids": _ids(batch, sizes["seq"])}
        if hasattr(config, "vision_config") and "pixel_values" in _parameters(architecture):
            found["pixel_values"] = _image(config.vision_config, batch)
        return found
    if kind == "pixel_values":
        return {"pixel_values": _image(config, batch)}
    if kind == "input_features" and hasattr(config, "num_mel_bins"):
        frames = 2 * config.max_source_positions  # the encoder's second convolution has stride 2
        return {"input_features": _zeros((batch, config.num_mel_bins, frames))}
    if kind == "input_values":
        return {"input_values": _zeros((batch, AUDIO_SAMPLES))}
    raise CaptureError(
        f"{architecture.model_class.__name__} takes {kind!r}, for which no example inputs are "
        "known. Give the model with inputs: gambrel.analyze(model, ..., kwargs={...})."
    )


def _image(config: Any, batch: int) -> Any:
    side = getattr(config, "image_size", None) or DEFAULT_SIDE
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return _zeros((batch, getattr(config, "num_channels", 3), height, width))


def _decode_inputs(
    architecture: Architecture, model: Any, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """One step: a token, its position, and the cache that it goes to."""
    from gambrel.capture.torch.hf_cache import allocated_cache, learned_cache

    name = _cache_name(architecture)
    learned = _LEARNED.get(model)
    if learned is None:
        learned = _LEARNED[model] = learned_cache(model, _step(architecture, 1, 0), name)
    found = _step(architecture, sizes["batch"], sizes["context"] - 1)
    found[name] = allocated_cache(learned, sizes["batch"], sizes["context"])
    return found


#: What the layers of a model keep; learned once per model.
_LEARNED: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


def _step(architecture: Architecture, batch: int, position: int) -> dict[str, Any]:
    import torch

    found = {"input_ids": _ids(batch, 1), "use_cache": True}
    if "position_ids" in _parameters(architecture):
        found["position_ids"] = torch.full((batch, 1), position)
    return found


def remarks_on_inputs(architecture: Architecture) -> list[str]:
    """What was chosen because the configuration does not say it."""
    config = architecture.config
    vision = getattr(config, "vision_config", config)
    kind = _main_input(architecture)
    if kind == "input_values":
        return ["The input is 10 seconds of audio at 16 kHz."]
    if kind == "pixel_values" and not getattr(vision, "image_size", None):
        side = DEFAULT_SIDE
        return [f"The configuration has no image size: taken as {side} x {side} pixels."]
    return []


def check_sizes(symbols: tuple[Symbol, ...], chosen: Mapping[str, int]) -> dict[str, int]:
    """All sizes: those chosen, checked, and defaults.

    Raises:
        InputError: A size that the model does not have.
        WorkloadError: A size that is out of the model's range.
    """
    known = {s.name: s for s in symbols}
    for name in chosen:
        if name not in known:
            raise InputError(f"this model has no size {name!r}; it has {', '.join(known)}.")
        known[name].check(chosen[name])
    return {s.name: chosen.get(s.name, s.default) for s in symbols}


def _limited(symbol: Symbol, architecture: Architecture) -> Symbol:
    """A symbol with the limit of learned position tables (rotary positions have none)."""
    from msgspec.structs import replace

    config = architecture.config
    text = getattr(config, "text_config", config)
    rotary = getattr(text, "rope_parameters", None) or getattr(text, "rope_theta", None)
    limit = None if rotary else getattr(text, "max_position_embeddings", None)
    if symbol.name == "target":
        limit = getattr(config, "max_target_positions", limit)
    if symbol.name == "batch" or not isinstance(limit, int) or limit < 1:
        return symbol
    return replace(symbol, maximum=limit, default=min(symbol.default, limit))


def _cache_name(architecture: Architecture) -> str:
    """What a model calls its cache; empty where it takes none."""
    taken = _parameters(architecture)
    return next((name for name in CACHES if name in taken), "")


def _main_input(architecture: Architecture) -> str:
    return str(getattr(architecture.model_class, "main_input_name", "input_ids"))


def _parameters(architecture: Architecture) -> Mapping[str, Any]:
    return inspect.signature(architecture.model_class.forward).parameters  # type: ignore[attr-defined]


def _ids(batch: int, tokens: int) -> Any:
    import torch

    return torch.zeros((batch, tokens), dtype=torch.long)


def _zeros(shape: tuple[int, ...]) -> Any:
    import torch

    return torch.empty(shape, device="meta", dtype=torch.get_default_dtype())
