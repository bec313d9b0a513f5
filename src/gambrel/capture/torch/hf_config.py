"""From the ``config.json`` of a transformers model to a known architecture, never to its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, Final

from gambrel.capture.torch.shim import ensure_torchvision
from gambrel.closest import closest
from gambrel.errors import CaptureError, MissingExtraError, UnknownNameError


class ModelTask(StrEnum):
    """What a model takes and gives, which decides its phases and inputs."""

    GENERATE = "generate"  # decoder-only: prompt in, next token out
    TRANSLATE = "translate"  # encoder and decoder
    ENCODE = "encode"  # one pass over its inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model class of transformers and its configuration.

    Attributes:
        config: The configuration object.
        model_class: The class that builds the model.
        task: What it does.
        assumptions: What had to be chosen, one sentence each.
    """

    config: Any
    model_class: type
    task: ModelTask
    assumptions: tuple[str, ...] = ()


#: Without these a configuration would silently describe the defaults of its family.
_ESSENTIAL: Final = ("hidden_size", "num_hidden_layers", "num_attention_heads")

#: Upper limits of plausible configurations; beyond them a file is wrong or hostile.
_LIMITS: Final = {"num_hidden_layers": 2_000, "hidden_size": 1_000_000, "vocab_size": 100_000_000}


def architecture_of(config: Any) -> Architecture:
    """The architecture that a configuration describes.

    Args:
        config: The content of a ``config.json`` as a dict, or a configuration object of
            transformers.

    Raises:
        MissingExtraError: transformers is not installed.
        UnknownNameError: transformers does not know this ``model_type``.
        CaptureError: Fields are missing or contradict each other, or the model is defined by code
            that comes with the checkpoint (which is never run).
    """
    require_transformers()
    given = config if isinstance(config, Mapping) else None
    parsed = config if given is None else _parse(given)
    _check_limits(parsed)
    names = getattr(parsed, "architectures", None) or ()
    model_class = _named_class(parsed, names) or _default_class(parsed)
    return Architecture(
        config=parsed,
        model_class=model_class,
        task=_task(parsed, model_class),
        assumptions=tuple(_remarks(parsed, model_class)),
    )


def require_transformers() -> None:
    """Raises MissingExtraError without transformers; makes a broken torchvision importable."""
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "huggingface", "reading a config.json")
    ensure_torchvision()


def _parse(given: Mapping[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING

    model_type = given.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise CaptureError(
            "the configuration has no 'model_type'; is it the config.json of a transformers model?"
        )
    if model_type not in CONFIG_MAPPING:
        raise _unknown_type(model_type, remote="auto_map" in given)
    kind = CONFIG_MAPPING[model_type]
    _check_essential(given, kind)
    content = {k: v for k, v in given.items() if k not in ("auto_map", "quantization_config")}
    try:
        parsed = kind.from_dict(content)
    except Exception as error:  # whatever a library's validation raises on a user's file
        raise CaptureError(
            f"transformers refuses this {model_type} configuration: {_one_line(error)}."
        ) from None
    if "quantization_config" in given:
        parsed.gambrel_quantized = True
    return parsed


def _unknown_type(model_type: str, *, remote: bool) -> Exception:
    from transformers import CONFIG_MAPPING, __version__

    if remote:
        return CaptureError(
            f"model type {model_type!r} is defined by code in its own repository, which is not "
            f"run, and transformers {__version__} does not know it. Build the model yourself and "
            "give it as file.py:function."
        )
    near = closest(model_type, list(CONFIG_MAPPING.keys()), 3, 60)
    return UnknownNameError(
        "model type", model_type, near, f"transformers {__version__} does not have it."
    )


#: What no field of a configuration is.
_ABSENT: Final = object()


def field_of(config: Any, name: str, otherwise: Any = None) -> Any:
    """A field of a configuration; ``otherwise`` where it has none, or another in each layer."""
    try:
        return getattr(config, name, otherwise)
    except Exception:  # whatever transformers raises of a field that differs between layers
        return otherwise


def _check_essential(given: Mapping[str, Any], kind: Any) -> None:
    if getattr(kind, "sub_configs", None):
        return  # sizes live in the parts
    spelled = getattr(kind, "attribute_map", {})
    default = kind()
    for name in _ESSENTIAL:
        own = spelled.get(name, name)
        known = field_of(default, own, _ABSENT) is not _ABSENT
        if known and name not in given and own not in given:
            raise CaptureError(
                f"the configuration of this {given['model_type']} model lacks {own!r}."
            )


def _check_limits(config: Any) -> None:
    for name, limit in _LIMITS.items():
        value = field_of(config, name)
        if isinstance(value, int) and not 0 < value <= limit:
            raise CaptureError(f"the configuration has {name}={value}; at most {limit} is taken.")


def _named_class(config: Any, names: Any) -> type | None:
    """The class that the file names, if it is transformers' own and made for this config."""
    import transformers

    for name in names:
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and getattr(found, "config_class", None) is type(config):
            return found
    return None


def _default_class(config: Any) -> type:
    from transformers.models.auto import modeling_auto as auto

    if getattr(config, "is_encoder_decoder", False):
        order = [
            auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
            auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
            auto.MODEL_MAPPING,
        ]
    elif type(config) in auto.MODEL_FOR_MASKED_LM_MAPPING:
        order = [auto.MODEL_MAPPING]
    else:
        order = [auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_MAPPING]
    for mapping in order:
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found  # type: ignore[no-any-return]
    raise CaptureError(f"transformers has no model for the type {config.model_type!r}.")


def _task(config: Any, model_class: type) -> ModelTask:
    from transformers.models.auto import modeling_auto as auto

    if getattr(config, "is_encoder_decoder", False):
        return ModelTask.TRANSLATE
    causal = auto.MODEL_FOR_CAUSAL_LM_MAPPING
    if type(config) in causal and causal[type(config)] is model_class:
        return ModelTask.GENERATE
    return ModelTask.ENCODE


def _remarks(config: Any, model_class: type) -> list[str]:
    remarks = []
    if not getattr(config, "architectures", None):
        remarks.append(f"The configuration names no architecture: taken as {model_class.__name__}.")
    if getattr(config, "gambrel_quantized", False):
        remarks.append(
            "The configuration's quantization is not applied: weights are counted in the model's "
            "floating format; choose another with --precision."
        )
    return remarks


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300]
