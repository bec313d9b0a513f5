"""Building models without memory for their parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gambrel.capture.torch.patching import put
from gambrel.capture.torch.signature import overload_of, replace_tensors, tensors_in
from gambrel.capture.torch.twins import KNOWN_ELEMENTS

_META: Final = torch.device("meta")


class _LargeToMeta(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Sends large tensors to meta as they are made: even untouched memory can be refused."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if overload_of(func).takes_device and args and _is_large(args[0]):
            kwargs = {**kwargs, "device": _META, "pin_memory": False}
        found = list(tensors_in([*args, *kwargs.values()]))
        if len(found) > 1 and len({t.is_meta for t in found}) > 1:
            # A constructor that runs a part of the model: that goes on where the weights are.
            args = [replace_tensors(v, _on_meta) for v in args]
            kwargs = {k: replace_tensors(v, _on_meta) for k, v in kwargs.items()}
        return func(*args, **kwargs)


def _on_meta(tensor: Any) -> Any:
    return tensor if tensor.is_meta or not tensor.dim() else tensor.to(_META)


def _is_large(shape: Any) -> bool:
    if isinstance(shape, torch.Tensor):  # zeros_like and the like
        return bool(shape.numel() > KNOWN_ELEMENTS)
    if isinstance(shape, (list, tuple)) and all(isinstance(n, int) for n in shape):
        return prod(shape) > KNOWN_ELEMENTS
    return False


@contextmanager
def lean(dtype: Any = None) -> Iterator[None]:
    """See `gambrel.capture.torch.lean_init`."""
    original = torch.nn.Module.register_parameter
    before = torch.get_default_dtype()

    def register(module: Any, name: str, param: Any) -> None:
        original(module, name, param)
        kept = module._parameters[name]
        if kept is not None and not kept.is_meta:
            module._parameters[name] = torch.nn.Parameter(
                torch.empty_like(kept, device=_META), requires_grad=kept.requires_grad
            )

    with ExitStack() as stack:
        _without_transformers_init(stack)
        stack.enter_context(_LargeToMeta())
        stack.callback(torch.set_default_dtype, before)
        put(stack, torch.nn.Module, "register_parameter", register)
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield


def _without_transformers_init(stack: ExitStack) -> None:
    """Skips the pass in which transformers fills the weights (tying them still happens)."""
    module = sys.modules.get("transformers.modeling_utils")
    base = getattr(module, "PreTrainedModel", None)
    if base is not None and hasattr(base, "initialize_weights"):
        put(stack, base, "initialize_weights", lambda *_, **__: None)
