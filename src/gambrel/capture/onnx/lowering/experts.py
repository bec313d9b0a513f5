"""Mixtures of experts of onnxruntime: a router's choice, then two or three grouped products."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten import Described, TensorArg
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

#: Function of the hidden results; a gated one joins two of them.
_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu"}


@lowers("com.microsoft::MoE")
def experts(op: NodeOperands) -> Lowered:
    """x, router, then weight and bias of the first, second and third product."""
    return _mixture(op, (2, 4, 6), (3, 5, 7), ())


@lowers("com.microsoft::QMoE")
def narrow_experts(op: NodeOperands) -> Lowered:
    """x, router, then weight, scale and bias of the first, second and third product."""
    return _mixture(op, (2, 5, 8), (4, 7, 10), (3, 6, 9))


def _mixture(
    op: NodeOperands, weights: tuple[int, ...], biases: tuple[int, ...], scales: tuple[int, ...]
) -> Lowered:
    """Each token goes through ``k`` experts, weighed by the router and added.

    The weights are (experts, out, in); those of a gated function hold both halves of the hidden
    width, one after another or interleaved.
    """
    x, router, first = op.x(0), op.x(1), op.x(weights[0])
    width, count = x.shape[-1], first.shape[0]
    tokens, chosen = x.numel // width, int(op.attr("k", 1))
    rows = tokens * chosen
    made = first.numel // (count * width)
    name = str(op.attr("activation_type", "relu"))
    second, third = op.x(weights[1]), op.optional(weights[2])
    hidden = second.numel // (count * width)
    gated = made == 2 * hidden
    if made not in (hidden, 2 * hidden) or (name != "identity" and name not in _ACTIVATIONS):
        raise ValueError("experts of an unknown form")
    routed: Sizes = {"experts": count, "top_k": chosen, "tokens": tokens}

    def product(
        place: int, given: TensorArg, sizes: Sizes, attrs: Attributes, out: TensorArg
    ) -> Described:
        weight = op.x(weights[place])
        bias = op.optional(biases[place])
        scale = op.optional(scales[place]) if scales else None
        held = [t for t in (weight, scale, bias) if t is not None]
        more: Attributes = {"bias": bias is not None, "expert_inputs": len(held)}
        if scale is not None:
            more |= {"dequantize": True, "compute_dtype": x.dtype}
        own: Sizes = {"rows": rows, **sizes, **routed}
        return op.described(
            "grouped_matmul", own, {**more, **attrs}, inputs=(given, *held), outputs=(out,)
        )

    bend: Attributes = {} if name == "identity" else {"activation": _ACTIVATIONS[name]}
    inner = op.temporary((rows, hidden), x.dtype)
    picked = op.temporary((tokens, chosen), router.dtype)
    choice: Sizes = {"elements": router.numel, "rows": tokens, "k": chosen}
    found = [
        op.described("sort", choice, {"function": "topk"}, inputs=(router,), outputs=(picked,)),
        product(0, x, {"n": made, "k": width}, {**bend, "gated": gated}, inner),
    ]
    if third is not None:
        other, joined = op.temporary(inner.shape, x.dtype), op.temporary(inner.shape, x.dtype)
        found.append(product(2, x, {"n": hidden, "k": width}, {}, other))
        times: Sizes = {"elements": inner.numel}
        found.append(
            op.described(
                "elementwise", times, {"function": "mul"}, inputs=(inner, other), outputs=(joined,)
            )
        )
        inner = joined
    last: Sizes = {"n": width, "k": hidden}
    found.append(product(1, inner, last, {"combine": True}, op.out))
    return found
