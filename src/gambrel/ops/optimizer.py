"""Optimizer steps: (vector FLOP, function evaluations) per parameter, one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, formula, work

#: Update rules with p parameter, g gradient, m and v moving averages; factors that depend on the
#: step only are known. A moving average b * m + (1 - b) * x is 3, of a square 4. Rules as stated
#: in the documentation of torch.optim.
RULES: Final[Mapping[str, tuple[int, int]]] = {
    "sgd": (2, 0),  # p - lr * g
    "sgd_momentum": (4, 0),  # m = b * m + g; p - lr * m
    "sgd_nesterov": (6, 0),  # and g + b * m
    "adam": (12, 1),  # m 3, v 4; sqrt(v) * c + eps: 2; p - a * m / that: 3
    "adamw": (13, 1),  # and p * (1 - lr * decay)
    "adam_amsgrad": (13, 1),  # and max(v, old v)
    "nadam": (15, 1),  # m 3, v 4; denominator 2; p - a * g / d - c * m / d: 6
    "radam": (13, 1),  # as adam, times the rectification
    "adamax": (10, 0),  # m 3; max(b * u, abs(g) + eps): 4; p - a * m / u: 3
    "adagrad": (6, 1),  # s + g * g: 2; p - lr * g / (sqrt(s) + eps): 4
    "rmsprop": (8, 1),  # v 4; p - lr * g / (sqrt(v) + eps): 4
    # v 4; sqrt(v + eps): 1; sqrt(a + eps) / that * g: 3; a 4; p - lr * step: 2.
    "adadelta": (14, 2),
    "lion": (9, 0),  # sign(b * m + (1 - b) * g): 4; p - lr * that: 2; m 3
}


@formula("optimizer")
def optimizer(op: OpView) -> Cost | None:
    """Operations per parameter by rule; one fused pass: parameter, gradient, state read once.

    ``weight_decay`` adds decay·p to the gradient: 2 more. Parameters and state are written once.
    A step made of separate element-wise ops is not this kind: its parts are ops of their own.

    Sizes: elements (parameters). Attrs: function, weight_decay. Inputs: parameters, gradients,
    state. Outputs: parameters, state.
    """
    rule = RULES.get(str(op.attrs.get("function")))
    if rule is None:
        return None
    vector, special = rule[0] + 2 * bool(op.attrs.get("weight_decay")), rule[1]
    n = op.size("elements")
    return Cost(work=work(op.dtype, vector=vector * n, special=special * n if special else 0))
