"""Scaled dot-product attention as one op, in forward and backward, on any device."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from gambrel.capture.torch.semantic import Node
from gambrel.workload import Sizes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


def make(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``torch.nn.functional.scaled_dot_product_attention``.

    Returns:
        None for another function of that name.
    """
    if original is not torch._C._nn.scaled_dot_product_attention:
        return None

    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        def compute(q: Any, k: Any, v: Any, mask: Any = None) -> tuple[Any, ...]:
            named = {"scale": scale, "enable_gqa": enable_gqa}
            return (original(q, k, v, mask, dropout_p, is_causal, **named),)

        query, key, value, attn_mask = session.autocast.lower((query, key, value, attn_mask))
        masked = attn_mask is not None
        node = Node(
            session=session,
            name="aten.scaled_dot_product_attention",
            kind="attention",
            sizes=attention_sizes(query, key, value, is_causal),
            attrs={"causal": bool(is_causal), "mask": masked, "dropout": dropout_p > 0},
            empty=lambda q, _, v, *__: (_empty_output(q, v),),
            compute=compute,
        )
        return node((query, key, value, attn_mask) if masked else (query, key, value))[0]

    return scaled_dot_product_attention


def attention_sizes(query: Any, key: Any, value: Any, causal: bool) -> Sizes:
    """Sizes of an attention over (..., heads, tokens, width) operands."""
    q_len, kv_len = query.shape[-2], key.shape[-2]
    return {
        "batch": prod(query.shape[:-3]),
        "heads": query.shape[-3] if query.dim() > 2 else 1,
        "kv_heads": key.shape[-3] if key.dim() > 2 else 1,
        "q_len": q_len,
        # torch aligns a causal mask at the upper left: keys after the last query are never used.
        "kv_len": min(kv_len, q_len) if causal else kv_len,
        "head_dim": query.shape[-1],
        "v_head_dim": value.shape[-1],
    }


def _empty_output(query: Any, value: Any) -> Any:
    """The result's shape in the layout that the fused kernels give it: that of the queries.

    They allocate it like the queries (``empty_like``), so that joining the heads of transposed
    projections afterwards is a view. Source: aten/src/ATen/native/transformers of torch, flash
    attention on CPU and CUDA; observed on the CPU with torch 2.13.
    """
    width = value.shape[-1]
    if width == query.shape[-1]:
        return torch.empty_like(query)
    if query.dim() != 4:
        return query.new_empty((*query.shape[:-1], width))
    batch, heads, tokens, _ = query.shape
    return query.new_empty((batch, tokens, heads, width)).transpose(1, 2)
