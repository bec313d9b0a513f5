"""Convolutions in any number of dimensions, grouped, dilated, transposed; and their gradients."""

from __future__ import annotations

from gambrel.ops.base import (
    Cost,
    OpView,
    Size,
    formula,
    product,
    total,
    work,
)


@formula("convolution")
def convolution(op: OpView) -> Cost:
    """2·batch·out·(in/groups)·prod(kernel)·prod(spatial): one multiply-add per tap.

    Every output value adds (in/groups)·prod(kernel) products. Taps that fall into the padding are
    counted, as everyone counts them. Dilation moves the taps and does not change their number. A
    transposed convolution spreads each input value over (out/groups)·prod(kernel) outputs, so it
    counts input positions. A bias is one addition per output value. A deformable convolution blends
    four pixels for every tap of every input channel first: 9 operations.

    Sizes: batch, out_channels, in_channels, groups (1), kernel (tuple), spatial (tuple: output
    sizes, or input sizes where ``transposed``). Inputs: input, weight, bias. Of the input only the
    pixels under a window are read: a 1x1 kernel of stride 2 reads a quarter of an image.
    """
    bias = _output_elements(op) if op.attrs.get("bias") else 0
    vector = bias + (9 * _samples(op) if op.attrs.get("deformable") else 0)
    done = work(op.operand_dtype(2), matrix=_multiply_adds(op) * 2, vector=vector)
    return Cost(work=done, touched=_pixels(op, 0))


@formula("convolution_backward")
def convolution_backward(op: OpView) -> Cost:
    """Each wanted gradient, of input and of weight, repeats the forward multiply-adds.

    y = w·x is bilinear: every forward matmul w·x gives one product dy·w for the gradient of x and
    one dy·x for that of w, grouped or not. The gradient of the bias adds all values of dy that
    belong to a channel: elements - channels additions, also where dy is one number, expanded.

    Attrs: grad_input, grad_weight, grad_bias (bools). Inputs: grad_output, input, weight; the input
    is read for the gradient of the weight only (its pixels under a window), the weight for that of
    the input only.
    """
    wants_input = bool(op.attrs.get("grad_input", True))
    wants_weight = bool(op.attrs.get("grad_weight", True))
    bias = 0
    if op.attrs.get("grad_bias"):
        gradient = product(op.inputs[0].shape) if op.inputs else _output_elements(op)
        bias = gradient - op.size("out_channels")
    passes = wants_input + wants_weight
    done = work(op.operand_dtype(1), matrix=2 * passes * _multiply_adds(op), vector=bias)
    image = _pixels(op, 1) if wants_weight else {1: 0}
    return Cost(work=done, touched=image if wants_input else {**image, 2: 0})


def _multiply_adds(op: OpView) -> Size:
    taps = product(op.size("kernel")) * product(op.size("spatial"))
    channels = op.size("out_channels") * op.size("in_channels") // op.size("groups", 1)
    return op.size("batch") * channels * taps


def _pixels(op: OpView, position: int) -> dict[int, Size]:
    """Position of the image → its pixels under at least one window.

    o windows of k taps meet at most o·k pixels: all of them where windows touch or overlap, fewer
    where the stride jumps over some. Transposed, every pixel is spread; deformed, any may be met.
    """
    if op.attrs.get("transposed") or op.attrs.get("deformable"):
        return {}
    return {position: _samples(op)}


def _samples(op: OpView) -> Size:
    taps = product(op.size("kernel")) * product(op.size("spatial"))
    return op.size("batch") * op.size("in_channels") * taps


def _output_elements(op: OpView) -> Size:
    """Values of the output; where transposed, sizes alone do not tell them."""
    if op.outputs or op.attrs.get("transposed"):
        return total(t.elements for t in op.outputs[:1])
    return op.size("batch") * op.size("out_channels") * product(op.size("spatial"))
