"""What a model is called with: tensors made after a description, or those that the user gave."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gambrel.errors import CaptureError, InputError
from gambrel.workload.inputs import ExampleInput, parse_input

__all__ = ["Arguments", "ExampleInput", "example_call", "given_call", "parse_input"]

#: Positional and keyword arguments of one call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_TORCH: Final[dict[str, str]] = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8": "float8_e4m3fn",
    "complex64": "complex64",
    "complex128": "complex128",
    **{n: n for n in ("bool", "uint8", "int8", "int16", "int32", "int64")},
}


def example_call(
    model: Any,
    described: Iterable[str | Sequence[int] | ExampleInput],
    *,
    device: str = "meta",
) -> Arguments:
    """Arguments after a description.

    Args:
        model: A ``torch.nn.Module``, or a function of JAX; inputs without a format take its
            floating one, of a function fp32.
        described: One entry an input; the named ones become keyword arguments.
        device: ``"meta"``, where floating inputs have no values, or a real one, where they are
            random. Whole numbers are zeros: the first token, the first class.

    Raises:
        InputError: An entry of another form, or an argument named twice.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for entry in map(parse_input, described):
        if entry.name in kwargs:
            raise InputError(f"--input: {entry.name!r} is given twice; give it once.")
        tensor = _tensor(entry, model, device)
        if entry.name:
            kwargs[entry.name] = tensor
        else:
            args.append(tensor)
    return tuple(args), kwargs


def holds_tensors(inputs: Any) -> bool:
    """Whether example inputs are of torch, so that what takes them is no function of JAX."""
    torch = sys.modules.get("torch")
    given = inputs.values() if isinstance(inputs, Mapping) else inputs
    given = given if isinstance(inputs, (tuple, list, Mapping)) else (inputs,)
    return torch is not None and any(isinstance(one, torch.Tensor) for one in given)


def _tensor(entry: ExampleInput, model: Any, device: str) -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return _struct(entry)
    dtype = _format(entry.dtype, model)
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.zeros(entry.shape, dtype=dtype, device="cpu" if device == "meta" else device)
    if device == "meta":
        return torch.empty(entry.shape, dtype=dtype, device="meta")
    return torch.randn(entry.shape, device=device).to(dtype)


def _struct(entry: ExampleInput) -> Any:
    """The form of an argument of a function of JAX."""
    import jax

    if entry.dtype and entry.dtype not in _TORCH:
        raise InputError(f"--input: JAX has no arrays of {entry.dtype}; use {', '.join(_TORCH)}.")
    return jax.ShapeDtypeStruct(entry.shape, _TORCH.get(entry.dtype, "float32"))


def _format(name: str, model: Any) -> Any:
    import torch

    if not name:
        floating = (p.dtype for p in model.parameters() if p.dtype.is_floating_point)
        return next(floating, torch.float32)
    if name not in _TORCH:
        raise InputError(f"--input: torch has no tensors of {name}; use {', '.join(_TORCH)}.")
    return getattr(torch, _TORCH[name])


def given_call(model: Any, inputs: Any, kwargs: Mapping[str, Any] | None) -> Arguments:
    """Arguments from what a user gave as ``inputs=`` and ``kwargs=``.

    A dict is a dict of keyword arguments where the model's forward takes those names.
    """
    named = dict(kwargs or {})
    if inputs is None:
        return (), named
    if isinstance(inputs, Mapping) and _are_keywords(model, inputs):
        return (), {**inputs, **named}
    if isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):
        return tuple(inputs), named
    return (inputs,), named


def _are_keywords(model: Any, names: Iterable[Any]) -> bool:
    try:
        accepted = inspect.signature(getattr(model, "forward", model)).parameters
    except (TypeError, ValueError):
        return False
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    return all(isinstance(n, str) and (takes_any or n in accepted) for n in names)


def need_inputs(what: str) -> CaptureError:
    """The error where a model comes without example inputs."""
    return CaptureError(
        f"{what}: the model needs example inputs; return (model, inputs) from code, or say "
        "--input 1x3x224x224 or --input input_ids:1x128:int64 (in Python inputs=)."
    )
