"""Fourier transforms and dense linear algebra."""

from __future__ import annotations

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Sizes


@lowers("DFT")
def transform(op: NodeOperands) -> Lowered:
    """X (..., points, 1 or 2): real or complex numbers, transformed along an axis."""
    x, out = op.x(), op.out
    place = op.step.input(2)
    default = 1 if op.step.version < 20 else -2
    axis = int(op.attr("axis", default))
    if place is not None:
        if place.scalar is None:
            raise ValueError("an axis that depends on data")
        axis = int(place.scalar)
    inverse, onesided = bool(op.attr("inverse", 0)), bool(op.attr("onesided", 0))
    length = (out if inverse else x).shape[axis]
    others = x.numel // (x.shape[-1] * max(x.shape[axis], 1))
    real = x.shape[-1] == 1 or onesided
    sizes: Sizes = {"length": length, "transforms": others}
    return op.described("fft", sizes, {"real": real}, inputs=(x,))


@lowers("STFT")
def short_time(op: NodeOperands) -> Lowered:
    """signal, step, window, length: a window applied to every frame, then transformed."""
    x, out = op.x(), op.out
    batch, frames = out.shape[:2]
    window, given = op.optional(2), op.step.input(3)
    length = window.shape[0] if window is not None else 0
    if given is not None and given.scalar is not None:
        length = int(given.scalar)
    if not length:
        raise ValueError("frames of unknown length")
    sizes: Sizes = {"length": length, "transforms": batch * frames}
    real = len(x.shape) < 3 or x.shape[-1] == 1
    if window is None:
        return op.described("fft", sizes, {"real": real}, inputs=(x,))
    framed = op.temporary((batch, frames, length), x.dtype)
    count: Sizes = {"elements": batch * frames * length}
    return [
        op.described(
            "elementwise", count, {"function": "mul"}, inputs=(x, window), outputs=(framed,)
        ),
        op.described("fft", sizes, {"real": real}, inputs=(framed,)),
    ]


@lowers("Det")
def determinant(op: NodeOperands) -> Lowered:
    """X (..., n, n)."""
    x = op.x()
    sizes: Sizes = {"n": x.shape[-1], "batch": x.numel // max(x.shape[-1] ** 2, 1)}
    return op.described("linalg", sizes, {"function": "det"})
