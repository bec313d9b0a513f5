"""Losses: n values in r rows compared with targets, then added to one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, distinct_bytes, formula, minimum, to_bytes, work

_Counts = tuple[Size, Size]

#: Function → (vector FLOP, function evaluations) of n values in r rows, mean over all included.
_FORWARD: Final[Mapping[str, Callable[[Size, Size], _Counts]]] = {
    # Per row a change of sign and an addition to the sum (r - 1), then one division.
    "nll": lambda _n, r: (2 * r, 0),
    # log-softmax (4n - 2r; n + r evaluations), then nll.
    "cross_entropy": lambda n, r: (4 * n, n + r),
    "mse": lambda n, _r: (3 * n, 0),  # difference, square, n - 1 additions, one division
    "l1": lambda n, _r: (3 * n, 0),  # difference, absolute value, sum and division
    # abs(d) < b ? 0.5 * d * d / b : abs(d) - 0.5 * b: difference, absolute value, comparison,
    # two products, subtraction, selection; sum and division.
    "smooth_l1": lambda n, _r: (8 * n, 0),
    "huber": lambda n, _r: (9 * n, 0),  # the linear part times delta
    # -(t * log(p) + (1 - t) * log(1 - p)): 1 - p, 1 - t, two products, addition, sign; sum.
    "bce": lambda n, _r: (7 * n, 2 * n),
    # max(x, 0) - x * t + log1p(exp(-abs(x))): six; sum.
    "bce_with_logits": lambda n, _r: (7 * n, 2 * n),
    "kl_div": lambda n, _r: (3 * n, n),  # t * (log(t) - x); sum
    "soft_margin": lambda n, _r: (3 * n, 2 * n),  # log1p(exp(-(t * x))); sum
    "multi_margin": lambda n, _r: (4 * n, 0),  # max(margin - x[t] + x, 0); sum
}

#: Function → (vector FLOP, function evaluations) of the gradient; constants are folded.
_BACKWARD: Final[Mapping[str, Callable[[Size, Size], _Counts]]] = {
    "nll": lambda _n, r: (r, 0),  # one value a row is -g; the rest is zero
    # softmax from the saved log-softmax: exp n; minus the target r; times g n.
    "cross_entropy": lambda n, r: (n + r, n),
    "mse": lambda n, _r: (2 * n, 0),  # (x - t) * g
    "l1": lambda n, _r: (3 * n, 0),  # sign(x - t) * g
    "smooth_l1": lambda n, _r: (5 * n, 0),  # clamp((x - t) / b, -1, 1) * g
    "huber": lambda n, _r: (4 * n, 0),  # clamp(x - t, -d, d) * g
    "bce": lambda n, _r: (5 * n, 0),  # (p - t) / (p * (1 - p)) * g
    "bce_with_logits": lambda n, _r: (5 * n, n),  # (sigmoid(x) - t) * g
    "kl_div": lambda n, _r: (2 * n, 0),  # -t * g
    "soft_margin": lambda n, _r: (4 * n, n),  # g * t / (1 + exp(t * x)), the sign within g
    "multi_margin": lambda n, _r: (3 * n, 0),  # comparison, selection, addition at the target
}


@formula("loss")
def loss(op: OpView) -> Cost | None:
    """Operations per value or row by function, reduction to the mean included.

    nll reads one value a row, not the row. Sizes: elements, rows. Attrs: function.
    Inputs: prediction, then target and weights.
    """
    found = _counted(op, _FORWARD)
    if found is None or op.attrs.get("function") != "nll" or not op.inputs:
        return found
    prediction, *rest = op.inputs
    picked = to_bytes(minimum(op.size("rows"), prediction.elements), prediction.dtype)
    return Cost(work=found.work, read_bytes=picked + distinct_bytes(tuple(rest)))


@formula("loss_backward")
def loss_backward(op: OpView) -> Cost | None:
    """Operations per value or row of the gradient with respect to the prediction.

    Sizes: elements, rows. Attrs: function. Inputs: grad_output, prediction (not for nll, which does
    not read it), target, weights.
    """
    return _counted(op, _BACKWARD)


def _counted(op: OpView, table: Mapping[str, Callable[[Size, Size], _Counts]]) -> Cost | None:
    counter = table.get(str(op.attrs.get("function")))
    if counter is None:
        return None
    vector, special = counter(op.size("elements"), op.size("rows", 1))
    return Cost(work=work(op.operand_dtype(1), vector=vector, special=special))
