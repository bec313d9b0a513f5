"""Kernels whose authors state what they cost."""

from __future__ import annotations

from gambrel.ops.base import Cost, OpView, distinct_bytes, formula, work
from gambrel.roofline import maximum


@formula("kernel")
def kernel(op: OpView) -> Cost:
    """As stated: FLOP, function evaluations, bytes; never more bytes written than results have.

    A statement does not say which unit computes: FLOP count as matrix work, whose roof is the
    higher one, so that limits stay limits.

    Sizes: flops, transcendentals, traffic_bytes.
    """
    traffic = op.size("traffic_bytes")
    written = distinct_bytes(op.outputs)
    read = maximum(traffic - written, 0)
    return Cost(
        work=work(op.dtype, matrix=op.size("flops"), special=op.size("transcendentals")),
        read_bytes=read,
        write_bytes=traffic - read,
    )
