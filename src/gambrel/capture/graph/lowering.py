"""Operators that say their sizes themselves, whatever the memory layout of the format."""

from __future__ import annotations

from gambrel.capture.onnx.lowering.products import quantized_attrs
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

DENSE = "gambrel::Dense"
CONVOLUTION = "gambrel::Convolution"
FUNCTION = "gambrel::Function"
POOL = "gambrel::Pool"
REDUCE = "gambrel::Reduce"
COPY = "gambrel::Copy"
NORM = "gambrel::Norm"
RECURRENT = "gambrel::Recurrent"
INTERPOLATE = "gambrel::Interpolate"


@lowers(DENSE)
def dense(op: NodeOperands) -> Lowered:
    """X (..., k), weight (n, k), bias: every row of x meets every row of the weight."""
    x, weight, bias = op.x(0), op.x(1), op.optional(2)
    n, k = weight.shape
    if x.numel % k:
        raise ValueError("a weight of another width than its input")
    sizes: Sizes = {"b": 1, "m": x.numel // k, "n": n, "k": k}
    return op.described("matmul", sizes, quantized_attrs(op, bias), inputs=(x, weight, bias))


@lowers(CONVOLUTION)
def convolution(op: NodeOperands) -> Lowered:
    """x, weight, bias; the sizes as attributes, as the cost formula names them."""
    sizes: Sizes = {
        "batch": int(op.attr("batch")),
        "out_channels": int(op.attr("out_channels")),
        "in_channels": int(op.attr("in_channels")),
        "groups": int(op.attr("groups", 1)),
        "kernel": tuple(op.attr("kernel")),
        "spatial": tuple(op.attr("spatial")),
    }
    x, weight, bias = op.x(0), op.x(1), op.optional(2)
    if not len(op.attr("kernel")) == len(op.attr("spatial")) == len(x.shape) - 2:
        raise ValueError("a kernel of another rank than its image")
    if int(op.attr("groups", 1)) < 1:
        raise ValueError("channels in no groups")
    attrs: Attributes = {
        "transposed": bool(op.attr("transposed", False)),
        **quantized_attrs(op, bias),
    }
    return op.described("convolution", sizes, attrs, inputs=(x, weight, bias))


@lowers(FUNCTION)
def function(op: NodeOperands) -> Lowered:
    """One application of a named function for each result."""
    attrs: Attributes = {"function": str(op.attr("function"))}
    if op.attr("compute_dtype"):
        attrs["compute_dtype"] = str(op.attr("compute_dtype"))
    return op.described("elementwise", {"elements": op.out.numel}, attrs)


@lowers(POOL)
def pool(op: NodeOperands) -> Lowered:
    """x: a window for each result; one window as large as the image is a reduction."""
    x, out = op.x(), op.out
    window, kind = int(op.attr("window")), str(op.attr("function"))
    if kind == "avg" and x.numel == out.numel * window:
        whole: Sizes = {"elements": x.numel, "outputs": out.numel}
        return op.described("reduction", whole, {"function": "mean"}, inputs=(x,))
    sizes: Sizes = {"outputs": out.numel, "window": window}
    return op.described("pooling", sizes, {"function": kind}, inputs=(x,))


@lowers(REDUCE)
def reduce(op: NodeOperands) -> Lowered:
    """x: as many elements as the input has, as many results as the output has."""
    x, out = op.x(), op.out
    sizes: Sizes = {"elements": x.numel, "outputs": out.numel}
    return op.described("reduction", sizes, {"function": str(op.attr("function"))}, inputs=(x,))


@lowers(COPY)
def copy(op: NodeOperands) -> Lowered:
    """Inputs read, results written."""
    return op.described("copy", attrs={"function": str(op.attr("function"))})


@lowers(NORM)
def norm(op: NodeOperands) -> Lowered:
    """x, scale, shift, statistics: as many groups as an attribute says."""
    x = op.x()
    attrs: Attributes = {
        "function": str(op.attr("function")),
        "statistics": bool(op.attr("statistics", True)),
        "affine": op.optional(1) is not None,
    }
    sizes: Sizes = {"elements": x.numel, "groups": int(op.attr("groups"))}
    return op.described("normalization", sizes, attrs)


@lowers(RECURRENT)
def recurrent(op: NodeOperands) -> Lowered:
    """x, weights, states: all steps of a layer."""
    names = ("batch", "seq", "input_size", "hidden", "directions", "projection")
    sizes: Sizes = {name: int(op.attr(name)) for name in names}
    sizes["layers"] = 1
    attrs: Attributes = {"cell": str(op.attr("cell")), "bias": bool(op.attr("bias"))}
    return op.described("recurrent", sizes, attrs)


@lowers(INTERPOLATE)
def interpolate(op: NodeOperands) -> Lowered:
    """x: every result mixes its neighbours."""
    attrs: Attributes = {"mode": str(op.attr("mode")), "antialias": False}
    return op.described("interpolation", {"outputs": op.out.numel}, attrs, inputs=(op.x(),))
