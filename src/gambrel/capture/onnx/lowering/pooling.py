"""Pooling, resampling, regions of interest."""

from __future__ import annotations

from math import prod
from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

_POOLS: Final[dict[str, str]] = {
    "MaxPool": "max",
    "AveragePool": "avg",
    "LpPool": "lp",
    "com.microsoft::QLinearAveragePool": "avg",
}


def pooling(op: NodeOperands) -> Lowered:
    """x: one window a result; a window as large as the image and its only one is a reduction."""
    x, out = op.x(), op.out
    function = _POOLS[op.step.op]
    kernel = tuple(int(k) for k in op.attr("kernel_shape"))
    if function == "avg" and kernel == x.shape[2:] and prod(out.shape[2:]) == 1:
        whole: Sizes = {"elements": x.numel, "outputs": out.numel}
        return op.described("reduction", whole, {"function": "mean"}, inputs=(x,))
    sizes: Sizes = {"outputs": out.numel, "window": prod(kernel)}
    outputs = op.results
    return op.described("pooling", sizes, {"function": function}, inputs=(x,), outputs=outputs)


@lowers("Resize", "Upsample")
def resize(op: NodeOperands) -> Lowered:
    """x: every result mixes its neighbours along the axes that change."""
    x, out = op.x(), op.out
    changed = [a != b for a, b in zip(x.shape, out.shape, strict=True)]
    axes = max(sum(changed), 1)
    mode = {"nearest": "nearest", "cubic": "bicubic"}.get(str(op.attr("mode", "nearest")))
    if mode is None:
        mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes]
    antialias = bool(op.attr("antialias", 0)) and mode in ("bilinear", "bicubic")
    attrs: Attributes = {"mode": mode, "antialias": antialias}
    return op.described("interpolation", {"outputs": out.numel}, attrs, inputs=(x,))


@lowers("GridSample")
def grid_sample(op: NodeOperands) -> Lowered:
    """x, grid: interpolation at given places."""
    x, grid = op.x(0), op.x(1)
    mode = {"nearest": "nearest", "cubic": "bicubic", "bicubic": "bicubic"}.get(
        str(op.attr("mode", "linear"))
    )
    if mode is None:
        mode = "trilinear" if len(x.shape) == 5 else "bilinear"
    attrs: Attributes = {"mode": mode, "antialias": False}
    return op.described("interpolation", {"outputs": op.out.numel}, attrs, inputs=(x, grid))


@lowers("RoiAlign")
def roi_align(op: NodeOperands) -> Lowered:
    """x, regions, images: the mean (or maximum) of samples; an adaptive number is not known."""
    ratio = int(op.attr("sampling_ratio", 0))
    if ratio <= 0:
        raise ValueError("the number of samples depends on the boxes")
    sizes: Sizes = {"outputs": op.out.numel, "samples": ratio**2}
    return op.described("roi_align", sizes)


for _op in _POOLS:
    lowers(_op)(pooling)
