"""Scaled dot-product attention: every fused kernel of torch, forward and backward."""

from __future__ import annotations

from math import prod

from gambrel.capture.aten.call import Call, Described, TensorArg
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes, Sizes


@rule(
    "aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_flash_attention_for_cpu"
)
def flash(call: Call) -> Described:
    """q, k, v, dropout_p, is_causal, ...; the CPU kernel takes a mask by name."""
    if call.overload.startswith("quantized"):  # three scales stand before dropout_p
        return _forward(call, mask=None, dropout=6, causal=7)
    return _forward(call, mask=call.named("attn_mask"), dropout=3, causal=4)


@rule("aten.scaled_dot_product_attention")
def composite(call: Call) -> Described:
    """q, k, v, attn_mask, dropout_p, is_causal, *, scale, enable_gqa."""
    return _forward(call, mask=call.optional(3, "attn_mask"), dropout=4, causal=5)


@rule(
    "aten._scaled_dot_product_attention_math",
    "aten._scaled_dot_product_attention_math_for_mps",
)
def math(call: Call) -> Described:
    """q, k, v, attn_mask, dropout_p, is_causal, ...: several results, the first is the answer."""
    return _forward(call, mask=call.optional(3, "attn_mask"), dropout=4, causal=5)


@rule("aten._scaled_dot_product_fused_attention_overrideable")
def overrideable(call: Call) -> Described:
    """q, k, v, attn_bias, dropout_p, is_causal, ..."""
    return _forward(call, mask=call.optional(3, "attn_bias"), dropout=4, causal=5)


@rule("aten._scaled_dot_product_efficient_attention", "aten._scaled_dot_product_cudnn_attention")
def biased(call: Call) -> Described:
    """q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, ..."""
    return _forward(call, mask=call.optional(3, "attn_bias"), dropout=5, causal=6)


@rule("aten._flash_attention_forward")
def flash_tokens_first(call: Call) -> Described:
    """q, k, v (batch, tokens, heads, width), cum_seq_q, ..., dropout_p 7, is_causal 8."""
    return _forward(call, mask=None, dropout=7, causal=8, tokens_first=True)


@rule("aten._efficient_attention_forward")
def efficient_tokens_first(call: Call) -> Described:
    """q, k, v (batch, tokens, heads, width), bias, ..., dropout_p 8, custom_mask_type 9."""
    return _forward(call, mask=call.optional(3, "bias"), dropout=8, causal=9, tokens_first=True)


@rule(
    "aten._scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_fused_attention_overrideable_backward",
)
def flash_backward(call: Call) -> Described:
    """grad, q, k, v, out, logsumexp, cum_seq_q, ..., dropout_p, is_causal."""
    if "overrideable" in call.op:  # grad, q, k, v, attn_bias, mask, out, ..., is_causal 13
        return _backward(call, mask=call.optional(4, "attn_bias"), causal=13)
    return _backward(call, mask=None, causal=11)


@rule("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def cpu_backward(call: Call) -> Described:
    """grad, q, k, v, out, logsumexp, dropout_p, is_causal, *, attn_mask."""
    return _backward(call, mask=call.named("attn_mask"), causal=7)


@rule("aten._scaled_dot_product_efficient_attention_backward")
def efficient_backward(call: Call) -> Described:
    """grad, q, k, v, attn_bias, out, logsumexp, seed, offset, dropout_p, mask, is_causal."""
    return _backward(call, mask=call.optional(4, "attn_bias"), causal=11)


@rule("aten._scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(call: Call) -> Described:
    """grad, q, k, v, out, logsumexp, seed, offset, attn_bias, ..., dropout_p 13, is_causal 14."""
    return _backward(call, mask=call.optional(8, "attn_bias"), causal=14)


@rule("aten._flash_attention_backward")
def flash_tokens_first_backward(call: Call) -> Described:
    """grad, q, k, v, out, logsumexp, cum_seq_q, ..., dropout_p 10, is_causal 11."""
    return _backward(call, mask=None, causal=11, tokens_first=True)


@rule("aten._efficient_attention_backward")
def efficient_tokens_first_backward(call: Call) -> Described:
    """grad, q, k, v, bias, out, ..., dropout_p 11, seed, offset, custom_mask_type 14."""
    return _backward(call, mask=call.optional(4, "bias"), causal=14, tokens_first=True)


def attention_sizes(q: TensorArg, k: TensorArg, v: TensorArg, tokens_first: bool) -> Sizes:
    """Sizes of (batch, heads, tokens, width) operands, or of (batch, tokens, heads, width)."""
    token, head = (-3, -2) if tokens_first else (-2, -3)
    return {
        "batch": prod(q.shape[:-3]),
        "heads": q.shape[head] if len(q.shape) > 2 else 1,
        "kv_heads": k.shape[head] if len(k.shape) > 2 else 1,
        "q_len": q.shape[token],
        "kv_len": k.shape[token],
        "head_dim": q.shape[-1],
        "v_head_dim": v.shape[-1],
    }


def _forward(
    call: Call, *, mask: TensorArg | None, dropout: int, causal: int, tokens_first: bool = False
) -> Described:
    q, k, v = (call.tensor(i) for i in range(3))
    attrs = _attrs(call, mask, causal)
    attrs["dropout"] = float(call.arg(dropout, "dropout_p", 0.0)) > 0
    sizes = attention_sizes(q, k, v, tokens_first)
    return call.described("attention", sizes, attrs, inputs=[q, k, v, mask])


def _backward(
    call: Call, *, mask: TensorArg | None, causal: int, tokens_first: bool = False
) -> Described:
    grad, q, k, v = (call.tensor(i) for i in range(4))
    attrs = _attrs(call, mask, causal)
    sizes = attention_sizes(q, k, v, tokens_first)
    saved = [t for t in call.inputs if t not in (grad, q, k, v, mask)]
    return call.described("attention_backward", sizes, attrs, inputs=[grad, q, k, v, *saved, mask])


def _attrs(call: Call, mask: TensorArg | None, causal: int) -> Attributes:
    """With fewer queries than keys, torch lets the first query see the first key only."""
    typed = call.name.startswith("_efficient_attention")
    # custom_mask_type: 0 none, 1 causal from the upper left, 2 from the lower right.
    kind = int(call.arg(causal, "custom_mask_type" if typed else "is_causal", 0))
    attrs: Attributes = {"causal": kind > 0, "mask": mask is not None}
    if kind:
        attrs["causal_alignment"] = "lower_right" if typed and kind == 2 else "upper_left"
    return attrs
