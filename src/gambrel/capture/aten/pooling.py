"""Pooling and interpolation, forward and backward."""

from __future__ import annotations

from math import prod
from typing import Final

from gambrel.capture.aten.call import Call, Described, TensorArg, ints
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes, Sizes


@rule(
    "aten.max_pool1d",
    "aten.max_pool2d",
    "aten.max_pool3d",
    "aten.max_pool1d_with_indices",
    "aten.max_pool2d_with_indices",
    "aten.max_pool3d_with_indices",
    "aten.mkldnn_max_pool2d",
    "aten.mkldnn_max_pool3d",
    "aten.avg_pool1d",
    "aten.avg_pool2d",
    "aten.avg_pool3d",
    "aten.fractional_max_pool2d",
    "aten.fractional_max_pool3d",
)
def pooling(call: Call) -> Described:
    """self, kernel_size, ...: one window a result."""
    sizes = _sizes(call, call.out, call.arg(1, "kernel_size"))
    return call.described("pooling", sizes, {"function": _function(call)})


@rule(
    "aten.adaptive_avg_pool1d",
    "aten.adaptive_avg_pool2d",
    "aten.adaptive_avg_pool3d",
    "aten._adaptive_avg_pool2d",
    "aten._adaptive_avg_pool3d",
    "aten.mkldnn_adaptive_avg_pool2d",
    "aten.adaptive_max_pool1d",
    "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool3d",
)
def adaptive(call: Call) -> Described:
    """self, output_size: the windows tile the input.

    An average over everything is a mean, and PyTorch runs it as one.
    """
    image, out = call.tensor(0), call.out
    if "avg" in call.name and all(n == 1 for n in out.shape[len(out.shape) - _rank(call.name) :]):
        whole = {"elements": image.numel, "outputs": out.numel}
        return call.described("reduction", whole, {"function": "mean"})
    sizes = _adaptive_sizes(call, call.tensor(0), call.out)
    return call.described("pooling", sizes, {"function": "adaptive_" + _function(call)})


@rule(
    "aten.max_pool2d_with_indices_backward",
    "aten.max_pool3d_with_indices_backward",
    "aten.max_pool2d_backward",
    "aten.avg_pool2d_backward",
    "aten.avg_pool3d_backward",
    "aten.fractional_max_pool2d_backward",
    "aten.fractional_max_pool3d_backward",
)
def backward(call: Call) -> Described:
    """grad_output, self, kernel_size, ..."""
    sizes = _sizes(call, call.tensor(0, "grad_output"), call.arg(2, "kernel_size"))
    return call.described("pooling_backward", sizes, {"function": _function(call)})


@rule(
    "aten._adaptive_avg_pool2d_backward",
    "aten._adaptive_avg_pool3d_backward",
    "aten.adaptive_max_pool2d_backward",
    "aten.adaptive_max_pool3d_backward",
)
def adaptive_backward(call: Call) -> Described:
    """grad_output, self, ..."""
    sizes = _adaptive_sizes(call, call.tensor(1), call.tensor(0, "grad_output"))
    return call.described("pooling_backward", sizes, {"function": "adaptive_" + _function(call)})


def interpolation(call: Call) -> Described:
    """Every result mixes its neighbours in the input."""
    sizes = _resampled(call.name, call.tensor(0).shape, call.out)
    return call.described("interpolation", sizes, _mode(call.name))


def interpolation_backward(call: Call) -> Described:
    """Every incoming gradient is spread over the same neighbours: as many multiply-adds."""
    grad = call.tensor(0, "grad_output")
    sizes = _resampled(call.name, call.out.shape, grad)
    return call.described("interpolation_backward", sizes, _mode(call.name))


@rule("aten.grid_sampler_2d", "aten.grid_sampler_3d", "aten.grid_sampler")
@rule("aten.cudnn_grid_sampler")
def grid_sampler(call: Call) -> Described:
    """input, grid, interpolation_mode, ...: interpolation at given places."""
    attrs = _grid_mode(call, 2, call.tensor(0, "input"))
    return call.described("interpolation", {"outputs": call.out.numel}, attrs)


@rule("aten.grid_sampler_2d_backward", "aten.grid_sampler_3d_backward")
def grid_sampler_backward(call: Call) -> Described:
    """grad_output, input, grid, interpolation_mode, ..."""
    attrs = _grid_mode(call, 3, call.tensor(1, "input"))
    grad = call.tensor(0, "grad_output")
    return call.described("interpolation_backward", {"outputs": grad.numel}, attrs)


def _rank(name: str) -> int:
    """Spatial dimensions, from ``..._pool2d...``."""
    return next(int(c) for c in name if c.isdigit())


def _sizes(call: Call, out: TensorArg, kernel: object) -> Sizes:
    return {"outputs": out.numel, "window": prod(ints(kernel, _rank(call.name)))}


def _adaptive_sizes(call: Call, x: TensorArg, out: TensorArg) -> Sizes:
    """Window i of o over n elements goes from floor(i·n/o) to ceil((i+1)·n/o): sizes differ.

    All windows of one map together hold the product over dimensions of the summed lengths.
    """
    dimensions = _rank(call.name)
    pairs = list(zip(x.shape[-dimensions:], out.shape[-dimensions:], strict=True))
    maps = out.numel // prod(o for _, o in pairs)
    covered = maps * prod(
        sum(-(-(i + 1) * n // o) - i * n // o for i in range(o)) for n, o in pairs
    )
    return {"outputs": out.numel, "window": prod(-(-n // o) for n, o in pairs), "covered": covered}


def _function(call: Call) -> str:
    return "max" if "max" in call.name else "avg"


def _mode(name: str) -> Attributes:
    kind = name.removeprefix("_").removeprefix("upsample_")
    mode = next(m for m in ("nearest", "bilinear", "bicubic", "trilinear", "linear") if m in kind)
    return {"mode": mode, "antialias": "_aa" in name}


def _resampled(name: str, source: tuple[int, ...], result: TensorArg) -> Sizes:
    """A filter against aliasing widens with the shrinking: reach·in/out elements to both sides.

    The reach is 1 for bilinear, 2 for bicubic; each dimension takes 2·reach·max(in/out, 1) taps.
    """
    sizes: Sizes = {"outputs": result.numel}
    if "_aa" in name:
        reach = 4 if "bicubic" in name else 2
        pairs = zip(source[-2:], result.shape[-2:], strict=True)
        sizes["taps"] = prod(-(-reach * max(n, o) // o) for n, o in pairs)
    return sizes


def _grid_mode(call: Call, position: int, image: TensorArg) -> Attributes:
    mode = "bilinear"  # cuDNN knows no other
    if "cudnn" not in call.op:
        mode = ("bilinear", "nearest", "bicubic")[call.arg(position, "interpolation_mode", 0)]
        if mode == "bilinear" and len(image.shape) == 5:
            mode = "trilinear"
    return {"mode": mode, "antialias": False}


_SHAPES: Final = "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d"
_NAMES: Final = [f"upsample_{shape}" for shape in _SHAPES.split()] + [
    *(f"_upsample_nearest_exact{d}d" for d in (1, 2, 3)),
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
]
for _name in _NAMES:
    rule(f"aten.{_name}")(interpolation)
    rule(f"aten.{_name}_backward")(interpolation_backward)
