"""Functions that are replaced while a model is captured, and put back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch import attention, autocast, casts, control, delta, scans
from gambrel.capture.torch.chance import CHANCE_SENTENCE, mean_of_host_draws
from gambrel.capture.torch.detection import detection
from gambrel.capture.torch.experts import grouped_experts
from gambrel.capture.torch.layers import recurrent_layers
from gambrel.capture.torch.ledger import FROM_CHANCE, FROM_INPUTS, FROM_WEIGHTS
from gambrel.capture.torch.norms import fused_norms
from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import muted
from gambrel.capture.torch.unknowns import unknown_number

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


@contextmanager
def replacements(session: Session) -> Iterator[None]:
    """Puts semantic ops in place of what libraries spell out, and reads in place of copies."""
    with ExitStack() as stack:
        fast_path = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        torch.backends.mha.set_fastpath_enabled(False)
        _replace_everywhere(stack, _everywhere(), session)
        grouped_experts(stack, session)
        recurrent_layers(stack, session)
        fused_norms(stack, session)
        autocast.follow(stack, session)
        detection(stack, session)
        mean_of_host_draws(stack, session)
        if not session.options.execute:
            casts.notice(stack, session)
            for name, method in _reads(session).items():
                put(stack, torch.Tensor, name, method)
            _keep_given_values(stack, session)
            put(stack, torch.Tensor, "cuda", lambda self, *_, **__: self)
        yield


def _everywhere() -> dict[str, Callable[[Any, Session], Any]]:
    """Functions to be replaced under every name they were imported as: name → maker."""
    return {
        "scaled_dot_product_attention": attention.make,
        "mamba_selective_scan": scans.make_selective_scan,
        "mamba2_chunk_scan": scans.make_chunk_scan,
        **dict.fromkeys(delta.NAMES, delta.make_delta_rule),
        **control.MAKERS,
    }


def _replace_everywhere(
    stack: ExitStack, makers: dict[str, Callable[[Any, Session], Any]], session: Session
) -> None:
    made: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name in makers.keys() & names.keys():
            held = names[name]
            if not callable(held) or isinstance(held, type):
                continue
            if id(held) not in made:
                made[id(held)] = makers[name](held, session)
            if made[id(held)] is not None:
                put(stack, module, name, made[id(held)])


def _reads(session: Session) -> dict[str, Callable[..., Any]]:
    """Methods of tensors that hand out values: they answer from the known ones."""
    twins = session.twins

    def reader(original: Any) -> Callable[..., Any]:
        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.is_meta:
                return original(self, *args, **kwargs)
            with muted(session):
                value = twins.value(self.detach())
            if value is None:
                raise unknown_number()
            sources = twins.sources([self])
            if sources & FROM_CHANCE:
                session.assumptions.add(CHANCE_SENTENCE, session.scopes.path)
            if original.__name__ != "tolist" and sources & (FROM_INPUTS | FROM_WEIGHTS):
                session.recorder.semantic("numpy", ("numpy", {}, {}), [self], [])
                session.assumptions.add(_NUMPY_SENTENCE, session.scopes.path)
            with muted(session):
                return original(value.clone(), *args, **kwargs)

        return read

    return {n: reader(getattr(torch.Tensor, n)) for n in ("tolist", "numpy", "__array__")}


_NUMPY_SENTENCE: Final = (
    "what numpy computes inside the model costs nothing: its work is unknown and lowers the "
    "coverage"
)


def _keep_given_values(stack: ExitStack, session: Session) -> None:
    """Makes tensors of Python numbers on the CPU first: made on meta they would lose their values.

    The recorder moves them to meta and remembers what they hold.
    """
    for name in ("tensor", "as_tensor", "asarray"):
        put(stack, torch, name, _on_host(getattr(torch, name), session))

    def new_tensor(self: Any, data: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("dtype", self.dtype)
        return torch.tensor(data, **kwargs)

    put(stack, torch.Tensor, "new_tensor", new_tensor)


def _on_host(original: Any, session: Session) -> Callable[..., Any]:
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, (list, tuple)):
            data = _numbers(data, session)
            if data is None:
                raise unknown_number()
        if isinstance(data, torch.Tensor) or str(kwargs.get("device")) != "meta":
            return original(data, *args, **kwargs)
        return original(data, *args, **{**kwargs, "device": "cpu"})

    return make


def _numbers(data: Any, session: Session) -> Any:
    """Nested lists with the values of the meta tensors in them; None where one is not known."""
    if isinstance(data, (list, tuple)):
        found = [_numbers(item, session) for item in data]
        return None if any(item is None for item in found) else found
    if not isinstance(data, torch.Tensor) or not data.is_meta:
        return data
    with muted(session):
        value = session.twins.value(data.detach())
        return None if value is None else value.tolist()
