"""Attention in one call, forward or backward: its sizes, and what cuDNN's custom calls say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.onnx.lowering.attention import ATTENTION, sizes_of
from gambrel.capture.xla.lowering.numeric import ATTENTION_BACKWARD

#: Custom calls of cuDNN's attention: XLA's cublas_cudnn.h.
_FMHA: Final = "__cudnn$fmha"
_PREFIX: Final = "xla::"
FORWARD: Final = ATTENTION.removeprefix(_PREFIX)
BACKWARD: Final = ATTENTION_BACKWARD.removeprefix(_PREFIX)
PADDED: Final = "padded sequences are counted at their full length"


def mask_of(kind: str, window: int | None) -> dict[str, Any]:
    """What cuDNN's kinds of masks leave: CAUSAL and PADDING_CAUSAL begin at the upper left."""
    if not window and "CAUSAL" not in kind.upper():
        return {}
    found: dict[str, Any] = {"causal": True, "alignment": "upper_left"}
    return {**found, "window": window} if window else found


def in_order(
    queries: Sequence[Edge], grad: Edge | None, rest: Sequence[Edge], bias: Edge | None
) -> tuple[str, list[Edge], dict[str, Any]]:
    """The operation, its operands as its formula has them, and whether a bias is among them."""
    masked = [] if bias is None else [bias]
    if grad is None:
        return FORWARD, [*queries, *masked], {}
    return BACKWARD, [grad, *queries, *rest, *masked], {"mask": bias is not None}


def cudnn_call(
    target: str, config: str, inputs: Sequence[Edge]
) -> tuple[str, list[Edge], dict[str, Any]] | None:
    """Operation, operands and attributes of a custom call of cuDNN; None for any other.

    Operands: query, key, value, (bias); backward: query, key, value, the saved sums, the gradient
    of the output, (bias), the output. Lengths of padded sequences may follow.
    """
    if not target.startswith(_FMHA):
        return None
    try:
        said = json.loads(config)["cudnn_fmha_backend_config"]
        shape = said["intermediate_tensor_shape"]["dimensions"]
        batch, heads, q_len, kv_len = (int(n) for n in shape)
        kind, window = str(said["mask_type"]), int(said.get("sliding_window_length") or 0)
    except (ValueError, LookupError, TypeError):
        return None
    q, k, v = inputs[:3]
    widths = (q.shape or (0,))[-1], (v.shape or (0,))[-1]
    shared, left = divmod(k.numel, batch * kv_len * widths[0] or 1)
    if left or not shared or heads % shared:
        return None
    sizes = sizes_of(batch, heads, shared, q_len, kv_len, *widths) | mask_of(kind, window)
    backward, biased = "Backward" in target, "Bias" in target
    grad = inputs[4] if backward else None
    at = 5 if backward else 3
    bias = inputs[at] if biased else None
    rest = [inputs[3], inputs[at + biased]] if backward else []
    op, operands, attrs = in_order(inputs[:3], grad, rest, bias)
    return op, operands, sizes | attrs
