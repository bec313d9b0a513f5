"""Losses, forward and backward."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described
from gambrel.capture.aten.registry import by_op, rule

#: Neutral function → ATen names; ``self`` and ``target`` come first.
FUNCTIONS: Final[dict[str, str]] = {
    "nll": "nll_loss_forward nll_loss2d_forward nll_loss nll_loss2d nll_loss_nd",
    "cross_entropy": "cross_entropy_loss",
    "mse": "mse_loss",
    "l1": "l1_loss",
    "smooth_l1": "smooth_l1_loss",
    "huber": "huber_loss",
    "bce": "binary_cross_entropy",
    "bce_with_logits": "binary_cross_entropy_with_logits",
    "kl_div": "kl_div",
}
_FUNCTION_OF: Final = by_op(FUNCTIONS)

#: ATen names of gradients: grad_output, self, target.
GRADIENTS: Final = (
    "nll_loss_backward nll_loss2d_backward mse_loss_backward smooth_l1_loss_backward"
    " huber_loss_backward binary_cross_entropy_backward"
)


@rule(*_FUNCTION_OF)
def forward(call: Call) -> Described:
    """self, target, ...: one row a sample."""
    x, target = call.tensor(0), call.tensor(1, "target")
    sizes = {"elements": x.numel, "rows": target.numel}
    return call.described("loss", sizes, {"function": _FUNCTION_OF[call.op]})


@rule(*(f"aten.{name}" for name in GRADIENTS.split()))
def gradient(call: Call) -> Described:
    """grad_output, self, target, ...; nll knows its gradient without the values of self."""
    grad, x, target = call.tensor(0, "grad_output"), call.tensor(1), call.tensor(2, "target")
    function = _loss(call.name)
    sizes = {"elements": x.numel, "rows": target.numel}
    inputs = [grad, target] if function == "nll" else [grad, x, target]
    others = [t for t in call.inputs if t not in (grad, x, target)]
    return call.described("loss_backward", sizes, {"function": function}, inputs=[*inputs, *others])


def _loss(name: str) -> str:
    forward_names = name.removesuffix("_backward")
    candidates = (forward_names, forward_names + "_forward")
    return next(_FUNCTION_OF[f"aten.{c}"] for c in candidates if f"aten.{c}" in _FUNCTION_OF)
