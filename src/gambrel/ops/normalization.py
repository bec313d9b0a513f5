"""Normalizations and softmax, forward and backward. n values in r groups or rows."""

from __future__ import annotations

from gambrel.ops.base import Cost, OpView, Size, formula, work


@formula("normalization")
def normalization(op: OpView) -> Cost:
    """Layer, batch, group, instance norm: 5n + r (+ 2n affine); RMS norm: 3n + r (+ n).

    Mean: n - r additions, r divisions. Variance (two passes, as it is defined): n subtractions, n
    squares, n - r additions, r divisions. Then r additions of epsilon, r evaluations of rsqrt, n
    multiplications by it. RMS norm has no mean to find and subtract. Affine: a multiplication by
    the weight and (not RMS norm) an addition of the bias per value.

    With ``statistics=False`` (batch norm at inference) the stored mean and variance fold into a
    scale and a shift: 2n, and per channel epsilon, rsqrt, mean·scale, its subtraction: 2r, or 4r
    with weight and bias to fold in. ``running`` (training): both running averages are moved,
    (1 - f)·old + f·new: 3 each a channel. ``residual``: the input is a sum that the same kernel
    forms first: n additions.

    Sizes: elements, groups (number of statistics: rows, channels, ...).
    Attrs: function, statistics (True), affine, running, residual.
    """
    n, r = op.size("elements"), op.size("groups")
    affine = bool(op.attrs.get("affine"))
    if not op.attrs.get("statistics", True):
        vector = 2 * n + (4 * r if affine else 2 * r)
    elif _is_rms(op):
        vector = 3 * n + r + affine * n
    else:
        vector = 5 * n + r + affine * 2 * n
    running = 6 * r if op.attrs.get("running") else 0
    residual = n if op.attrs.get("residual") else 0
    return Cost(work=work(op.dtype, vector=vector + running + residual, special=r))


@formula("normalization_backward")
def normalization_backward(op: OpView) -> Cost:
    """Layer and group norm: 9n (+ 4n - 2p affine); batch norm: 9n + r; RMS norm: 6n (+ 3n - p).

    With x̂ = (x - mean)·rstd formed again (2n) and g = dy·weight (n if affine):
    dx = rstd·(g - mean(g) - x̂·mean(g·x̂)). mean(g): n - r additions, r divisions; mean(g·x̂): n
    products, n - r additions, r divisions; dx: n products, 2n subtractions, n products. Affine,
    with p weights: sum(dy·x̂) n products and n - p additions, sum(dy) n - p additions.

    Batch norm has one weight a channel, and its two means are the gradients of bias and weight
    divided by the count: nothing to do twice, rstd·weight once a channel. RMS norm has no mean(g)
    and no mean to subtract from x. Without ``statistics``, dx = dy·scale: n + r, affine 5n - 2r.

    Sizes: elements, groups, parameters (of the weight; by default n/r: one per value of a group).
    """
    n, r = op.size("elements"), op.size("groups")
    affine = bool(op.attrs.get("affine"))
    p = op.size("parameters", n // r)
    if not op.attrs.get("statistics", True):
        vector = n + r + affine * (5 * n - 2 * r)
    elif _is_rms(op):
        vector = 6 * n + affine * (3 * n - p)
    elif op.attrs.get("function") == "batch_norm":
        vector = 9 * n + affine * r
    else:
        vector = 9 * n + affine * (4 * n - 2 * p)
    return Cost(work=work(op.dtype, vector=vector))


@formula("softmax")
def softmax(op: OpView) -> Cost:
    """4n - 2r, and n exponentials; log-softmax takes r logarithms more.

    Per row: the maximum (n - r comparisons in all), its subtraction (n), exp (n evaluations), the
    sum (n - r additions), n divisions. Log-softmax subtracts the logarithm of the sum instead of
    dividing.

    Sizes: elements, rows. Attrs: function (softmax or log_softmax).
    """
    n, r = op.size("elements"), op.size("rows")
    return Cost(work=work(op.dtype, vector=4 * n - 2 * r, special=n + _logarithms(op, r)))


@formula("softmax_backward")
def softmax_backward(op: OpView) -> Cost:
    """Softmax: y·(dy - sum(dy·y)), 4n - r. Log-softmax: dy - exp(y)·sum(dy), 3n - r, n evaluations.

    Softmax: n products, n - r additions, n subtractions, n products. Log-softmax: n - r additions,
    n exponentials, n products, n subtractions.

    Sizes: elements, rows. Attrs: function.
    """
    n, r = op.size("elements"), op.size("rows")
    if op.attrs.get("function") == "log_softmax":
        return Cost(work=work(op.dtype, vector=3 * n - r, special=n))
    return Cost(work=work(op.dtype, vector=4 * n - r))


def _is_rms(op: OpView) -> bool:
    return op.attrs.get("function") == "rms_norm"


def _logarithms(op: OpView, rows: Size) -> Size:
    return rows if op.attrs.get("function") == "log_softmax" else 0
