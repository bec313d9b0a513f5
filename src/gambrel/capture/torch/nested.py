"""Tensors inside arguments and results: containers, dataclasses, model outputs, caches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.overrides import TorchFunctionMode

from gambrel.capture.torch.ledger import Ledger
from gambrel.errors import CaptureError
from gambrel.workload import Role

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


#: Roles that say nothing about what a tensor is kept for.
_UNNAMED: Final = (Role.INPUT, Role.ACTIVATION, Role.CONSTANT)


class _TwinsInCopies(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped here
    """Makes ``copy.deepcopy`` put a meta twin wherever it meets a tensor."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__()
        self.session = session
        self.name = name

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        real, memo = args
        if self.session.options.execute:
            twin = real.detach().clone()
            self.session.ledger.label(twin, Role.INPUT, self.name)
        else:
            twin = self.session.twins.adopt(real, Role.INPUT, self.name)
        twin.requires_grad_(real.requires_grad)
        memo[id(real)] = twin
        return twin


def copy_inputs(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], session: Session
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of the inputs with tensors on meta; what the caller passed is not touched.

    Raises:
        CaptureError: An input that cannot be copied, or an array that is no tensor.
    """
    memo: dict[int, Any] = {}
    names = _argument_names(model, len(args))
    copied = tuple(_copy(v, n, memo, session) for n, v in zip(names, args, strict=True))
    named = {n: _copy(v, n, memo, session) for n, v in kwargs.items()}
    # A cache that grows lets go of the tensors it came with: they get their role now.
    label_tensors(session.ledger, (copied, named), [])
    return copied, named


def _copy(value: Any, name: str, memo: dict[int, Any], session: Session) -> Any:
    if type(value).__module__.partition(".")[0] in ("numpy", "PIL", "pandas", "jax", "jaxlib"):
        raise CaptureError(
            f"input {name!r} is a {type(value).__module__}.{type(value).__name__}; "
            "pass a torch.Tensor of the same shape."
        )
    try:
        with _TwinsInCopies(session, name):
            return copy.deepcopy(value, memo)
    except (TypeError, NotImplementedError, RuntimeError, copy.Error) as error:
        raise CaptureError(
            f"input {name!r} ({type(value).__name__}) cannot be copied for capture: {error}"
        ) from error


def _argument_names(model: Any, count: int) -> list[str]:
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"input{i}" for i in range(count)]


def tensors_of(value: Any, in_cache: bool = False, depth: int = 0) -> Iterator[tuple[Any, bool]]:
    """Every tensor in a nest of containers, and whether it lies in a key-value cache."""
    if isinstance(value, torch.Tensor):
        yield value, in_cache
    elif depth < 12:  # deeper nests than that are cycles
        cache = in_cache or _is_cache(value)
        for key, item in _items(value, cache):
            yield from tensors_of(item, cache or key == "past_key_values", depth + 1)


def _items(value: Any, cache: bool) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from enumerate(value)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((f.name, getattr(value, f.name, None)) for f in fields(value))
    elif cache or _is_cache_part(value):
        yield from vars(value).items() if hasattr(value, "__dict__") else ()


def _is_cache(value: Any) -> bool:
    return any(c.__name__ == "Cache" for c in type(value).__mro__[:-1])


def _is_cache_part(value: Any) -> bool:
    return any(c.__name__ == "CacheLayerMixin" for c in type(value).__mro__[:-1])


def returned_tensors(outputs: Any) -> Iterator[Any]:
    """The tensors that a model returned, nested ones included."""
    for tensor, _ in tensors_of(outputs):
        yield tensor


def label_tensors(ledger: Ledger, nests: tuple[Any, ...], returned: list[Any]) -> None:
    """Gives key-value caches and outputs their roles."""
    for tensor, in_cache in tensors_of(nests):
        if in_cache and ledger.storage(tensor).role in _UNNAMED:
            ledger.label(tensor, Role.KV_CACHE)
    for tensor in returned:
        ledger.label(tensor, Role.OUTPUT, only=Role.ACTIVATION)
