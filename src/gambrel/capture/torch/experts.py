"""Mixtures of experts in transformers: always as grouped products over all experts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.patching import put

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_SENTENCE: Final = (
    "experts run as grouped GEMMs, and tokens choose experts evenly and independently"
)


def grouped_experts(stack: ExitStack, session: Session) -> None:
    """Makes every expert layer of transformers take its grouped implementation.

    The eager one loops over the experts that were hit, which depends on data; the grouped one has
    static shapes. How many experts a token goes to is told to the recorder on the way.
    """
    module = sys.modules.get("transformers.integrations.moe")
    if module is not None and hasattr(module, "grouped_mm_experts_forward"):
        forward = _routed(module.grouped_mm_experts_forward, session)
        put(stack, module.ExpertsInterface, "get_interface", lambda *_, **__: forward)


def static_forward(module: Any, session: Session) -> Callable[..., Any]:
    """The forward of a module, or one of static shapes where its own follows the routing."""
    make = _SPELLED_OUT.get(f"{type(module).__module__}.{type(module).__name__}")
    return module.forward if make is None else partial(make(session), module)


def _routed(original: Callable[..., Any], session: Session) -> Callable[..., Any]:
    recorder = session.recorder

    def experts(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        before, recorder.top_k = recorder.top_k, int(top_k_index.shape[-1])
        session.assumptions.add(_SENTENCE)
        try:
            return original(module, hidden_states, top_k_index, top_k_weights)
        finally:
            recorder.top_k = before

    return experts


def _evenly(total: int, parts: int) -> list[int]:
    """Tokens of each expert: as even as whole numbers are."""
    return [total // parts + (i < total % parts) for i in range(parts)]


def _counted_evenly(session: Session) -> Callable[..., Any]:
    """JetMoE's router, which reads how many tokens each expert got."""

    def route(module: Any, hidden_states: Any) -> Any:
        session.assumptions.add(_SENTENCE)
        chosen = hidden_states.shape[0] * module.top_k
        with ExitStack() as inner:
            put(inner, torch.Tensor, "tolist", lambda counts: _evenly(chosen, len(counts)))
            return type(module).forward(module, hidden_states)

    return route


def _looped_evenly(session: Session) -> Callable[..., Any]:
    """NLLB's experts, a dictionary of modules: each gets its share of the two of a token."""

    def experts(module: Any, hidden_states: Any, _: Any, router_probs: Any) -> Any:
        session.assumptions.add(_SENTENCE)
        result = torch.zeros_like(hidden_states)
        shares = _evenly(hidden_states.shape[0] * _NLLB_TOP_K, module.num_experts)
        for number, share in enumerate(shares):
            if share:
                expert = module[f"expert_{number}"]
                rows = torch.empty(share, dtype=torch.int64, device=hidden_states.device)
                weight = router_probs[rows, 0, None]
                result.index_add_(0, rows, (expert(hidden_states[rows]) * weight).to(result.dtype))
        return result

    return experts


#: Its router is `NllbMoeTop2Router`: two experts a token.
_NLLB_TOP_K: Final = 2
_MODELS: Final = "transformers.models"
#: Class → what its forward becomes.
_SPELLED_OUT: Final[dict[str, Callable[[Session], Callable[..., Any]]]] = {
    f"{_MODELS}.jetmoe.modeling_jetmoe.JetMoeTopKGating": _counted_evenly,
    f"{_MODELS}.nllb_moe.modeling_nllb_moe.NllbMoeExperts": _looped_evenly,
}
