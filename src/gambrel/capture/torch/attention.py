"""Scaled dot-product attention as one op, in forward and backward, on any device."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.semantic import muted, needs_gradient
from gambrel.workload import Attributes, Sizes

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_NAME: Final = "aten.scaled_dot_product_attention"


def make(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``torch.nn.functional.scaled_dot_product_attention``.

    Returns:
        None for another function of that name.
    """
    if original is not torch.nn.functional.scaled_dot_product_attention and (
        original is not torch._C._nn.scaled_dot_product_attention
    ):
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
        operands = (query, key, value, attn_mask)

        def compute(q: Any, k: Any, v: Any, mask: Any) -> Any:
            if session.options.execute:
                return original(
                    q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
                )
            return _empty_output(q, v)

        call = _Call(session, compute, is_causal, dropout_p)
        if needs_gradient(operands):
            return _Attention.apply(call, *operands)
        return call.forward(*operands)

    return scaled_dot_product_attention


class _Call:
    """One call: how to compute it and how to record it."""

    def __init__(
        self, session: Session, compute: Callable[..., Any], causal: bool, dropout: float
    ) -> None:
        self.session = session
        self.compute = compute
        self.causal = causal
        self.dropout = dropout

    def described(self, kind: str, operands: Any) -> tuple[str, Sizes, Attributes]:
        query, key, value, mask = operands
        q_len, kv_len = query.shape[-2], key.shape[-2]
        sizes: Sizes = {
            "batch": prod(query.shape[:-3]),
            "heads": query.shape[-3] if query.dim() > 2 else 1,
            "kv_heads": key.shape[-3] if key.dim() > 2 else 1,
            "q_len": q_len,
            # torch aligns the causal mask at the upper left: later keys are never attended to.
            "kv_len": min(kv_len, q_len) if self.causal else kv_len,
            "head_dim": query.shape[-1],
            "v_head_dim": value.shape[-1],
        }
        attrs: Attributes = {"causal": bool(self.causal), "mask": mask is not None}
        if kind == "attention":
            attrs["dropout"] = self.dropout > 0
        return kind, sizes, attrs

    def forward(self, *operands: Any) -> Any:
        with muted(self.session):
            out = self.compute(*operands)
        described = self.described("attention", operands)
        self.session.recorder.semantic(_NAME, described, operands, [out])
        return out

    def backward(self, grad: Any, out: Any, operands: Any, wanted: Any) -> list[Any]:
        with muted(self.session):
            if self.session.options.execute:
                grads = _real_gradients(self.compute, grad, operands, wanted)
            else:
                pairs = zip(operands, wanted, strict=True)
                grads = [torch.empty_like(t) if w else None for t, w in pairs]
        described = self.described("attention_backward", operands)
        reads = [grad, *operands, out]
        self.session.recorder.semantic(f"{_NAME}_backward", described, reads, grads)
        return grads


def _empty_output(query: Any, value: Any) -> Any:
    width = value.shape[-1]
    if query.dim() != 4:
        return query.new_empty((*query.shape[:-1], width))
    # The fused kernels return (batch, tokens, heads, width) memory, seen as (batch, heads, ...),
    # so that joining the heads afterwards is a view.
    batch, heads, tokens, _ = query.shape
    return query.new_empty((batch, tokens, heads, width)).transpose(1, 2)


def _real_gradients(compute: Any, grad: Any, operands: Any, wanted: Any) -> list[Any]:
    with torch.enable_grad():
        leaves = [
            t.detach().requires_grad_(bool(w)) if isinstance(t, torch.Tensor) else t
            for t, w in zip(operands, wanted, strict=True)
        ]
        inputs = [t for t, w in zip(leaves, wanted, strict=True) if w]
        found = iter(torch.autograd.grad(compute(*leaves), inputs, grad))
    return [next(found) if w else None for w in wanted]


class _Attention(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """Attention with its backward as one op."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *operands: Any) -> Any:
        """Runs the call and saves what its backward reads."""
        out = call.forward(*operands)
        ctx.call = call
        ctx.save_for_backward(*operands, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Gradients of query, key, value and, where asked for, of an additive mask."""
        *operands, out = ctx.saved_tensors
        return (None, *ctx.call.backward(grad, out, operands, ctx.needs_input_grad[1:]))
