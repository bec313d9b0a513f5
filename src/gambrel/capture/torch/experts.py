"""Mixtures of experts in transformers: always as grouped products over all experts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from gambrel.capture.torch.patching import put

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_SENTENCE: Final = (
    "experts run as grouped matrix products, and tokens choose experts evenly and independently"
)


def grouped_experts(stack: ExitStack, session: Session) -> None:
    """Makes every expert layer of transformers take its grouped implementation.

    The eager one loops over the experts that were hit, which depends on data; the grouped one has
    static shapes. How many experts a token goes to is told to the recorder on the way.
    """
    module = sys.modules.get("transformers.integrations.moe")
    if module is None or not hasattr(module, "grouped_mm_experts_forward"):
        return
    forward = _routed(module.grouped_mm_experts_forward, session)
    put(stack, module.ExpertsInterface, "get_interface", lambda *_, **__: forward)


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
