"""Delta-rule attention of transformers (Qwen3-Next, Kimi Linear, ...) as one op a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.semantic import Node

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

#: Functions that spell the rule out in torch, chunk by chunk or token by token, where servers run
#: one kernel. All take query, key, value, g, beta and the rest by name.
NAMES: Final = (
    "torch_chunk_gated_delta_rule",
    "torch_recurrent_gated_delta_rule",
    "chunk_kimi_delta_attention",
    "recurrent_kimi_delta_attention",
)


def make_delta_rule(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for one of `NAMES`; None for another library's function of that name."""
    if not str(getattr(original, "__module__", "")).startswith("transformers."):
        return None

    def delta_rule(
        query: Any,
        key: Any,
        value: Any,
        g: Any,
        beta: Any,
        *,
        initial_state: Any = None,
        output_final_state: bool = False,
        **kwargs: Any,
    ) -> Any:
        batch, seq, heads, value_dim = value.shape
        key_dim = key.shape[-1]
        given = (query, key, value, g, beta)
        operands = given if initial_state is None else (*given, initial_state)

        def empty(_query: Any, _key: Any, value: Any, *_: Any) -> tuple[Any, ...]:
            out = value.new_empty(value.shape)
            if not output_final_state:
                return (out,)
            # The torch versions keep the state in fp32, as kernels do.
            state = value.new_empty((batch, heads, key_dim, value_dim), dtype=torch.float32)
            return out, state

        def compute(*tensors: Any) -> tuple[Any, ...]:
            state = tensors[5] if len(tensors) > 5 else None
            named = {"initial_state": state, "output_final_state": output_final_state}
            out, final = original(*tensors[:5], **named, **kwargs)
            return (out, final) if output_final_state else (out,)

        results = Node(
            session=session,
            name=f"transformers.{original.__name__}",
            kind="delta_scan",
            sizes={
                "batch": batch,
                "seq": seq,
                "heads": heads,
                "key_dim": key_dim,
                "value_dim": value_dim,
            },
            # Decay and beta come in ready: the model's own ops have made them.
            attrs={"correct": True, "rates": False},
            empty=empty,
            compute=compute,
        )(operands)
        return results[0], (results[1] if output_final_state else None)

    return delta_rule
