"""Boxes: suppression of overlapping ones, and the pooling of regions."""

from __future__ import annotations

from gambrel.ops.base import (
    Cost,
    OpView,
    distinct_bytes,
    formula,
    log2,
    minimum,
    rounded,
    to_bytes,
    work,
)


@formula("nms")
def nms(op: OpView) -> Cost:
    """13 FLOP for each of boxes·(boxes - 1)/2 pairs, 3 a box for its area, and a sort.

    A pair: two maxima and two minima of corners (4), two sides (2) not below zero (2), their
    product (1), the union (2), the quotient (1), the comparison with the threshold (1). The data
    decide how many pairs can be skipped; parallel kernels skip none, and all are counted. The sort
    by score takes boxes·log2(boxes) comparisons.

    Sizes: boxes.
    """
    n = op.size("boxes")
    flops = 13 * n * (n - 1) // 2 + 3 * n + rounded(n * log2(n))
    return Cost(work=work(op.operand_dtype(1), vector=flops))


@formula("roi_align")
def roi_align(op: OpView) -> Cost:
    """outputs·10·samples: each sample a blend of four pixels (9), added up (1), the mean.

    samples blends of 9, samples - 1 additions and one division give 10·samples a result; weights of
    a sample serve all channels and are not counted. No more than four pixels a sample are read, and
    no pixel twice.

    Sizes: outputs (values), samples (per value). Inputs: features, then boxes.
    """
    outputs, samples = op.size("outputs"), op.size("samples")
    done = work(op.operand_dtype(1), vector=10 * samples * outputs)
    if not op.inputs:
        return Cost(work=done)
    features, *boxes = op.inputs
    touched = minimum(features.elements, 4 * samples * outputs)
    return Cost(
        work=done, read_bytes=to_bytes(touched, features.dtype) + distinct_bytes(tuple(boxes))
    )
