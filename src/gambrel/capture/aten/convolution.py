"""Convolutions in one to three dimensions, grouped, dilated, transposed, and their backward."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gambrel.capture.aten.call import Call, Described, TensorArg
from gambrel.capture.aten.registry import rule
from gambrel.workload import Sizes


@rule("aten.convolution", "aten.convolution_overrideable", "aten._convolution")
def convolution(call: Call) -> Described:
    """input, weight, bias, stride, padding, dilation, transposed, output_padding, groups."""
    return _forward(call, call.arg(6, "transposed", False), call.arg(8, "groups", 1))


@rule("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.mkldnn_convolution")
def conv(call: Call) -> Described:
    """input, weight, bias, then stride, padding, dilation, groups (or padding, stride, ...)."""
    return _forward(call, False, call.arg(6, "groups", 1))


@rule("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def conv_transpose(call: Call) -> Described:
    """input, weight, bias, stride, padding, output_padding, groups, dilation."""
    return _forward(call, True, call.arg(6, "groups", 1))


@rule("aten.cudnn_convolution", "aten.miopen_convolution")
def cudnn(call: Call) -> Described:
    """input, weight, padding, stride, dilation, groups, ...; miopen has a bias third."""
    if call.op == "aten.cudnn_convolution":
        return _forward(call, False, call.arg(5, "groups", 1), None)
    return _forward(call, False, call.arg(6, "groups", 1))


@rule("aten.cudnn_convolution_transpose", "aten.miopen_convolution_transpose")
def cudnn_transpose(call: Call) -> Described:
    """input, weight, padding, output_padding, stride, dilation, groups; miopen: bias third."""
    if call.op == "aten.cudnn_convolution_transpose":
        return _forward(call, True, call.arg(6, "groups", 1), None)
    return _forward(call, True, call.arg(7, "groups", 1))


@rule("aten.cudnn_convolution_relu")
def cudnn_relu(call: Call) -> Described:
    """input, weight, bias, stride, padding, dilation, groups; the relu is fused."""
    return _forward(call, False, call.arg(6, "groups", 1))


@rule(
    "aten._slow_conv2d_forward",
    "aten.slow_conv3d_forward",
    "aten.slow_conv3d",
    "aten.thnn_conv2d",
    "aten.slow_conv_dilated2d",
    "aten.slow_conv_dilated3d",
)
def ungrouped(call: Call) -> Described:
    """input, weight, kernel_size, bias, ...: never grouped."""
    return _forward(call, False, 1, call.optional(3, "bias"))


@rule("aten.slow_conv_transpose2d", "aten.slow_conv_transpose3d")
def ungrouped_transpose(call: Call) -> Described:
    """input, weight, kernel_size, bias, ...: never grouped."""
    return _forward(call, True, 1, call.optional(3, "bias"))


@rule("aten._conv_depthwise2d", "aten.conv_depthwise3d")
def depthwise(call: Call) -> Described:
    """input, weight, kernel_size, bias, ...: one group a channel."""
    return _forward(call, False, call.tensor(0).shape[1], call.optional(3, "bias"))


@rule("torchvision.deform_conv2d")
def deformable(call: Call) -> Described:
    """input, weight, offset, mask, bias, six strides, groups, ...: samples, then multiplies."""
    x, weight = call.tensor(0, "input"), call.tensor(1, "weight")
    sizes = _sizes(x, weight, call.out, False, call.arg(11, "groups", 1))
    attrs = {"transposed": False, "bias": call.optional(4, "bias") is not None, "deformable": True}
    return call.described("convolution", sizes, attrs)


@rule("aten.convolution_backward", "aten.convolution_backward_overrideable")
def backward(call: Call) -> Described:
    """grad_output, input, weight, bias_sizes, ..., transposed, output_padding, groups, mask."""
    grad, x, weight = (call.tensor(i) for i in range(3))
    shift = 0 if call.op == "aten.convolution_backward" else -1  # the other has no bias_sizes
    transposed = bool(call.arg(7 + shift, "transposed", False))
    groups = call.arg(9 + shift, "groups", 1)
    mask = tuple(call.arg(10 + shift, "output_mask", (True, True, True)))
    attrs = {
        "transposed": transposed,
        "bias": bool(mask[2]),
        "grad_input": bool(mask[0]),
        "grad_weight": bool(mask[1]),
        "grad_bias": bool(mask[2]),
    } | _layout(x, x if prod(weight.shape[2:]) == 1 else weight)
    return call.described(
        "convolution_backward", _sizes(x, weight, grad, transposed, groups), attrs
    )


def _forward(
    call: Call, transposed: Any, groups: int, bias: TensorArg | str | None = "third"
) -> Described:
    x, weight = call.tensor(0, "input"), call.tensor(1, "weight")
    found = call.optional(2, "bias") if isinstance(bias, str) else bias
    attrs = {"transposed": bool(transposed), "bias": found is not None} | _layout(x, weight)
    sizes = _sizes(x, weight, call.out, bool(transposed), groups)
    return call.described("convolution", sizes, attrs)


def _layout(x: TensorArg, weight: TensorArg) -> dict[str, Any]:
    """``channels_last`` where input and weights lie so: libraries then turn nothing."""
    last = all(lies_last(t.shape, t.strides) for t in (x, weight))
    return {"channels_last": True} if last else {}


def lies_last(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Whether channels of images are next to each other; one pixel or one channel says nothing."""
    if strides is None or len(shape) < 4:
        return False
    return strides[1] == 1 and shape[1] > 1 and prod(shape[2:]) > 1


def _sizes(x: TensorArg, weight: TensorArg, out: TensorArg, transposed: bool, groups: int) -> Sizes:
    """Sizes of one convolution. Weights are (out, in/groups, ...), transposed (in, out/groups)."""
    kernel = weight.shape[2:]
    spatial = (x if transposed else out).shape[-len(kernel) :]
    channels = -len(kernel) - 1
    return {
        "batch": x.shape[0] if len(x.shape) > len(kernel) + 1 else 1,
        "out_channels": out.shape[channels],
        "in_channels": x.shape[channels],
        "groups": groups,
        "kernel": kernel,
        "spatial": spatial,
    }
