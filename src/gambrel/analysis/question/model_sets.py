"""Sets of models that one name stands for, wherever several models are taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gambrel.errors import InputError, UnknownNameError
from gambrel.views import view

#: One or a few models of each kind that people run: classifiers with and without attention,
#: detectors, segmentation, encoders, language models in both phases, speech, an image generator.
MODEL_SETS: Final[dict[str, tuple[str, ...]]] = {
    "zoo-set": (
        *("resnet50", "mobilenet-v2", "mobilenet-v3-large", "efficientnet-b0", "convnext-tiny"),
        *("vit-b-16", "swin-t", "yolov8n", "yolo11s", "detr-resnet50", "deeplabv3-resnet50"),
        *("unet", "bert-base", "t5-small", "gpt2-prefill", "llama-3.2-1b-prefill"),
        *("llama-3.2-1b-decode", "whisper-base-encoder", "clip-vit-b-32", "sd15-unet"),
    ),
}
_FAMILY: Final = "family="


def is_set(model: Any) -> bool:
    """Whether a text stands for several models."""
    return isinstance(model, str) and (model in MODEL_SETS or model.startswith(_FAMILY))


def members(models: Any, verb: str) -> Any:
    """Models with every set replaced by its members, each name once.

    Args:
        models: As given: a name, a file or an object; several of them where the verb takes them.
        verb: The question.

    Raises:
        InputError: A set where one model is asked about.
        UnknownNameError: A family that the zoo does not have.
    """
    if is_set(models):
        raise InputError(
            f"{models} is a set of models, and {verb} takes one; sweep, design and compare take "
            "sets."
        )
    if not isinstance(models, tuple) or not any(is_set(one) for one in models):
        return models
    every = [one for model in models for one in (_members(model) if is_set(model) else (model,))]
    return tuple(dict.fromkeys(every)) if all(isinstance(m, str) for m in every) else tuple(every)


def _members(name: str) -> Iterator[str]:
    if name in MODEL_SETS:
        yield from MODEL_SETS[name]
        return
    family = name.removeprefix(_FAMILY).strip()
    entries = view("models")
    known = dict.fromkeys(entry.family for entry in entries)
    if family.lower() not in {one.lower() for one in known}:
        raise UnknownNameError("family of models", family, tuple(known))
    yield from (entry.name for entry in entries if entry.family.lower() == family.lower())
