"""The one entrance: a parsed ``config.json`` → `ModelSpec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from gambrel.closest import closest
from gambrel.errors import CaptureError
from gambrel.llm.config import (  # noqa: F401  # register
    dense,
    encoders,
    gpt,
    hybrids,
    mixtures,
    towers,
    vision,
)
from gambrel.llm.config.families import READERS
from gambrel.llm.config.fields import Fields
from gambrel.llm.config.original import is_original, translated
from gambrel.llm.config.quantization import quantization
from gambrel.llm.config.tensorrt_llm import from_tensorrt_llm, is_tensorrt_llm
from gambrel.llm.spec import ModelSpec


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether the configuration's ``model_type`` has a closed form here."""
    model_type = config.get("model_type")
    return _translator(config) is not None or (
        isinstance(model_type, str) and model_type in READERS
    )


def _translator(config: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]] | None:
    """What puts the configuration of another tool into the fields of transformers."""
    if is_original(config):
        return translated
    return from_tensorrt_llm if is_tensorrt_llm(config) else None


def known_types() -> tuple[str, ...]:
    """Every ``model_type`` that is read here."""
    return tuple(sorted(READERS))


def read_config(config: Mapping[str, Any], name: str = "") -> ModelSpec:
    """The model that a configuration describes; no code of the file is ever run.

    Args:
        config: The content of a ``config.json``.
        name: What to call the model; its ``model_type`` when empty.

    Raises:
        CaptureError: No ``model_type``, one without a closed form, or fields that are missing,
            contradictory or absurd.
    """
    translate = _translator(config)
    if translate is not None:
        config = translate(config)
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise CaptureError(without_type(model_type))
    reader = READERS.get(model_type)
    if reader is None:
        raise CaptureError(unknown_type(model_type))
    fields = Fields(config, model_type)
    try:
        spec = _with_head(reader(fields), fields)
    except (OverflowError, RecursionError) as error:
        raise CaptureError(f"the configuration cannot be read: {error}.") from None
    found = quantization(fields)
    notes = spec.notes + ((found.note,) if found and found.note else ())
    return replace(
        spec, name=name or model_type, family=model_type, quantization=found, notes=notes
    )


def _with_head(spec: ModelSpec, f: Fields) -> ModelSpec:
    """A decoder without its LM head where ``architectures`` says so: embedding models, classifiers.

    Such a model passes its whole input once: it has no phases.
    """
    names = f.names("architectures") or ()
    if spec.head != "lm" or not names or spec.encoders:
        return spec
    if all(n.endswith("ForSequenceClassification") for n in names):
        labels = len(f.raw("id2label") or ()) or f.whole("num_labels", default=2)
        return replace(spec, head="classifier", labels=labels, tied=False)
    if all(n.endswith("Model") and not n.endswith("LMHeadModel") for n in names):
        return replace(spec, head="none", tied=False)
    return spec


def without_type(given: object) -> str:
    """What to say where ``model_type`` is no name."""
    if given is None:
        return (
            "the configuration has no 'model_type'; is it the config.json of a transformers model?"
        )
    return f"the configuration has model_type={given!r:.60}; it takes a name such as 'llama'."


def unknown_type(model_type: str) -> str:
    """What to say of a ``model_type`` that has no closed form."""
    near = closest(model_type, READERS, 3, 60)
    listed = f"; closest: {', '.join(near)}" if near else ""
    return f"model type {model_type!r} has no closed form here{listed}."
