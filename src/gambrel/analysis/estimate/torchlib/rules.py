"""Which formula serves an op under PyTorch on a GPU."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.estimate.features import Rule, Seconds, decodes
from gambrel.analysis.estimate.torchlib import (
    attention,
    convolutions,
    products,
    recurrence,
    rows,
    streams,
    windows,
)
from gambrel.ops import OpView
from gambrel.ops.base import holds

#: Constants of 16 bits and less.
HALF: Final = "half"


def _any(_view: OpView) -> str:
    return "any"


def _product_scheme(view: OpView) -> str:
    """Libraries have other kernels for a batch of products than for one."""
    return "linear" if holds(view.size("b", 1) == 1) else "bmm"


def _half(_view: OpView) -> str:
    """Narrow ones have constants of their own where whole models gave them."""
    return HALF


def _half_product_scheme(view: OpView) -> str:
    return f"{_product_scheme(view)}_{HALF}"


def _rule(form: str, seconds: Seconds, least: str = "high", share: Seconds | None = None) -> Rule:
    return Rule(form=f"torch_{form}", seconds=seconds, scheme=_any, least=least, share=share)


def _convolution(least: str) -> Rule:
    return _rule("convolution", convolutions.convolution, least, convolutions.least_share)


_ELEMENTWISE: Final = _rule("elementwise", streams.elementwise)
_COPY: Final = _rule("copy", streams.copy, "medium")
_GATHER: Final = _rule("copy", streams.copy, "low")
#: Convolutions and their gradients in 16 bits and less.
_HALF: Final = Rule(
    form="torch_convolution", seconds=convolutions.convolution, scheme=_half, least="medium"
)
_CONVOLUTIONS: Final = frozenset({"convolution", "convolution_backward"})
_MATMUL: Final = Rule(form="torch_matmul", seconds=products.matmul, scheme=_product_scheme)
#: Of 16 bits and less, where only fp32 ones were measured.
_HALF_MATMUL: Final = Rule(
    form="torch_matmul", seconds=products.matmul, scheme=_half_product_scheme, least="medium"
)

#: Of many queries, where no fused kernels were measured.
_ATTENTION: Final = _rule("attention", attention.attention, "low")
_ATTENTIONS: Final = frozenset({"attention", "attention_backward"})

#: Kinds of ops whose rule depends on `wide_products`.
WIDE: Final = _ATTENTIONS | {"matmul"}

RULES: Final[dict[str, Rule]] = {
    "elementwise": _ELEMENTWISE,
    "elementwise_backward": _ELEMENTWISE,
    "fill": _ELEMENTWISE,
    "random": _rule("elementwise", streams.elementwise, "medium"),
    "optimizer": _rule("elementwise", streams.elementwise, "medium"),
    "softmax_backward": _rule("elementwise", streams.elementwise, "medium"),
    "normalization_backward": _rule("normalization", rows.normalization_backward, "medium"),
    "reduction": _rule("reduction", streams.reduction),
    "loss": _rule("reduction", streams.loss, "medium"),
    "cumulative": _rule("reduction", streams.scan, "medium"),
    "copy": _COPY,
    **dict.fromkeys(("embedding", "gather", "scatter", "embedding_backward"), _GATHER),
    "normalization": _rule("normalization", rows.normalization),
    "softmax": _rule("softmax", rows.softmax),
    "pooling": _rule("pooling", windows.pooling),
    "convolution": _convolution("high"),
    "convolution_backward": _convolution("medium"),
    "recurrent": _rule("recurrent", recurrence.recurrent, "medium"),
}


def rule_of(view: OpView, *, wide_products: bool) -> Rule | None:
    """The rule for an op; None where the kernels of other frameworks describe it as well.

    Args:
        view: The op.
        wide_products: Products of every format, and attention with them, were fitted as fp32
            products were, for want of others.
    """
    if view.kind in _ATTENTIONS:
        return _ATTENTION if wide_products and not decodes(view) else None
    if view.kind == "matmul":
        if view.operand_dtype(2) == "fp32":
            return _MATMUL
        return _HALF_MATMUL if wide_products else None
    if view.kind in _CONVOLUTIONS and view.operand_dtype(2) != "fp32":
        return _HALF
    return RULES.get(view.kind)
