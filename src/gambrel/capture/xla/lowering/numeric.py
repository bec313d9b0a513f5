"""Functions, Fourier transforms, dense linear algebra, normalization as patterns find it."""

from __future__ import annotations

from math import prod
from typing import Final

from gambrel.capture.onnx.lowering.attention import described_sizes
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.capture.xla.vocabulary import FUNCTIONS
from gambrel.workload import Sizes

ATTENTION_BACKWARD = "xla::attention_backward"

#: Factorization of XLA → neutral function.
_LINEAR_ALGEBRA: Final[dict[str, str]] = {
    "cholesky": "cholesky",
    "qr": "qr",
    "geqrf": "householder_product",
    "householder_product": "householder_product",
    "svd": "svd",
    "eigh": "eigh",
    "eig": "eig",
    "lu": "lu",
    "schur": "eig",
}


@lowers(*(f"xla::{op}" for names in FUNCTIONS.values() for op in names.split()))
def function(op: NodeOperands) -> Lowered:
    """One application a result."""
    plain = op.step.op.removeprefix("xla::")
    name = next(f for f, names in FUNCTIONS.items() if plain in names.split())
    return op.described("elementwise", {"elements": op.out.numel}, {"function": name})


@lowers("xla::clamp")
def clamp(op: NodeOperands) -> Lowered:
    """Low, x, high."""
    return op.described("elementwise", {"elements": op.out.numel}, {"function": "clamp"})


@lowers("xla::complex", "xla::real", "xla::imag")
def parts(op: NodeOperands) -> Lowered:
    """Numbers moved between real and complex tensors."""
    return op.described("copy", attrs={"function": "contiguous"})


@lowers("xla::fft")
def fft(op: NodeOperands) -> Lowered:
    """Over the last dimensions, as many as lengths."""
    lengths = [int(n) for n in op.attr("lengths")]
    kind = str(op.attr("type")).upper()
    longer = op.out if "IRFFT" in kind else op.x()
    total = prod(lengths)
    sizes: Sizes = {"length": total, "transforms": longer.numel // max(total, 1)}
    return op.described("fft", sizes, {"real": "RFFT" in kind}, inputs=(op.x(),))


@lowers(*(f"xla::{name}" for name in _LINEAR_ALGEBRA))
def factorization(op: NodeOperands) -> Lowered:
    """A batch of matrices (…, m, n)."""
    x = op.x()
    n, m = sorted(x.shape[-2:])  # a wide matrix costs as much as its transpose
    name = _LINEAR_ALGEBRA[op.step.op.removeprefix("xla::")]
    batch = x.numel // max(m * n, 1)
    sizes: Sizes = {"m": m, "n": n, "batch": batch}
    return op.described("linalg", sizes, {"function": name}, inputs=(x,))


@lowers("xla::triangular_solve")
def triangular_solve(op: NodeOperands) -> Lowered:
    """A, B: a substitution for each right-hand side."""
    a, b = op.x(0), op.x(1)
    n = a.shape[-1]
    sides = b.numel // max(prod(a.shape[:-1]), 1)
    sizes: Sizes = {"n": n, "batch": a.numel // max(n * n, 1), "rhs": sides}
    return op.described("linalg", sizes, {"function": "triangular_solve"}, inputs=(a, b))


@lowers("xla::softmax")
def softmax(op: NodeOperands) -> Lowered:
    """Along one axis."""
    x = op.x()
    sizes: Sizes = {"elements": x.numel, "rows": x.numel // max(int(op.attr("length")), 1)}
    return op.described("softmax", sizes, {"function": str(op.attr("function"))}, inputs=(x,))


@lowers(ATTENTION_BACKWARD)
def attention_backward(op: NodeOperands) -> Lowered:
    """The gradient of the output, queries, keys, values, then what the forward pass kept."""
    sizes, attrs = described_sizes(op, bool(op.attr("mask")))
    attrs["gradients"] = str(op.attr("gradients", "all"))
    return op.described("attention_backward", sizes, attrs)


@lowers("xla::kernel")
def kernel(op: NodeOperands) -> Lowered:
    """What its author states."""
    names = ("flops", "transcendentals", "traffic_bytes")
    return op.described("kernel", {name: int(op.attr(name)) for name in names})
