"""Convolutions: plain, transposed, deformable, of integers."""

from __future__ import annotations

from math import prod

from gambrel.capture.aten import TensorArg
from gambrel.capture.onnx.lowering.products import activated, quantized_attrs
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes


@lowers("Conv", "ConvTranspose")
def convolution(op: NodeOperands) -> Lowered:
    """x, weight, bias."""
    x, weight, bias = op.x(0), op.x(1), op.optional(2)
    transposed = op.step.op == "ConvTranspose"
    attrs: Attributes = {"transposed": transposed, **quantized_attrs(op, bias)}
    sizes = _sizes(op, x, weight, transposed)
    return op.described("convolution", sizes, attrs, inputs=(x, weight, bias))


@lowers("com.microsoft::FusedConv")
def fused(op: NodeOperands) -> Lowered:
    """x, weight, bias, z: a convolution, z added, an activation."""
    x, weight, bias, other = op.x(0), op.x(1), op.optional(2), op.optional(3)
    attrs: Attributes = {"transposed": False, "bias": bias is not None}
    sizes = _sizes(op, x, weight, False)
    found = op.described("convolution", sizes, attrs, inputs=(x, weight, bias, other))
    return activated(op, found)


@lowers("ConvInteger")
def integers(op: NodeOperands) -> Lowered:
    """x, weight, zero points."""
    x, weight = op.x(0), op.x(1)
    attrs: Attributes = {"transposed": False, "bias": False, "compute_dtype": "int8"}
    return op.described("convolution", _sizes(op, x, weight, False), attrs)


@lowers("QLinearConv", "com.microsoft::QLinearConv")
def quantized(op: NodeOperands) -> Lowered:
    """x, scale, zero, weight, scale, zero, scale, zero, bias."""
    x, weight, bias = op.x(0), op.x(3), op.optional(8)
    attrs: Attributes = {"transposed": False, "bias": bias is not None, "compute_dtype": "int8"}
    rest = tuple(t for t in op.read if t not in (x, weight, bias))
    sizes = _sizes(op, x, weight, False)
    return op.described("convolution", sizes, attrs, inputs=(x, weight, bias, *rest))


@lowers("DeformConv")
def deformable(op: NodeOperands) -> Lowered:
    """x, weight, offset, bias, mask: samples, then multiplies."""
    x, weight, bias = op.x(0), op.x(1), op.optional(3)
    attrs: Attributes = {"transposed": False, "bias": bias is not None, "deformable": True}
    rest = (op.x(2), bias, op.optional(4))
    return op.described(
        "convolution", _sizes(op, x, weight, False), attrs, inputs=(x, weight, *rest)
    )


@lowers("CausalConvWithState")
def stateful(op: NodeOperands) -> Lowered:
    """X (batch, channels, tokens), weight (channels, 1, taps), bias, state: one group a channel."""
    x, weight, bias, state = op.x(0), op.x(1), op.optional(2), op.optional(3)
    channels = x.shape[1]
    sizes: Sizes = {
        "batch": x.shape[0],
        "out_channels": channels,
        "in_channels": channels,
        "groups": channels,
        "kernel": (weight.shape[-1],),
        "spatial": (x.shape[-1],),
    }
    attrs: Attributes = {"transposed": False, "bias": bias is not None}
    found = op.described("convolution", sizes, attrs, inputs=(x, weight, bias, state))
    if op.attr("activation", "none") == "none":
        return found
    between = op.temporary(x.shape, x.dtype)
    first = op.described(
        "convolution",
        sizes,
        attrs,
        inputs=(x, weight, bias, state),
        outputs=(between, *op.results[1:]),
    )
    bend: Attributes = {"function": "silu"}
    count: Sizes = {"elements": x.numel}
    return [
        first,
        op.described("elementwise", count, bend, inputs=(between,), outputs=op.results[:1]),
    ]


@lowers("Col2Im")
def unfolded(op: NodeOperands) -> Lowered:
    """Every element of overlapping windows added at its place."""
    return op.described("scatter", {"elements": op.x().numel}, {"accumulate": True})


def _sizes(op: NodeOperands, x: TensorArg, weight: TensorArg, transposed: bool) -> Sizes:
    """Weights are (out, in/groups, ...), transposed (in, out/groups, ...)."""
    spatial = (x if transposed else op.out).shape[2:]
    if len(weight.shape) != len(x.shape) or not prod(weight.shape[2:]):
        raise ValueError("a kernel of another rank than its image")
    return {
        "batch": x.shape[0],
        "out_channels": op.out.shape[1],
        "in_channels": x.shape[1],
        "groups": int(op.attr("group", 1)),
        "kernel": weight.shape[2:],
        "spatial": spatial,
    }
