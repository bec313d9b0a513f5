"""Resampling of images and volumes, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, ceil_div, formula, product, work
from gambrel.roofline import maximum


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mode:
    """How one result is made.

    Attributes:
        operations: FLOP of a result.
        taps: Pixels that it is blended from.
        axes: Axes along which weights differ.
        reach: Pixels on either side of a result that an antialiasing filter covers, times the
            reduction in size.
    """

    operations: int
    taps: int
    axes: int
    reach: int = 0


#: A blend of two along an axis is 2 products and 1 addition (the weights of a row or column are
#: known before and not counted), nested over axes: bilinear 3 + 3 + 3, trilinear 4·3 + 2·3 + 3;
#: bicubic blends 4 of 4: 5·(4 products, 3 additions). Nearest only moves.
_MODES: Final[Mapping[str, _Mode]] = {
    "nearest": _Mode(operations=0, taps=1, axes=0),
    "linear": _Mode(operations=3, taps=2, axes=1),
    "bilinear": _Mode(operations=9, taps=4, axes=2, reach=1),
    "trilinear": _Mode(operations=21, taps=8, axes=3),
    "bicubic": _Mode(operations=35, taps=16, axes=2, reach=2),
}


@formula("interpolation")
def interpolation(op: OpView) -> Cost | None:
    """Per result: linear 3, bilinear 9, trilinear 21, bicubic 35; nearest none.

    Antialiased, each axis is filtered in turn: 2·taps - 1 for each value after each pass. A filter
    that is given by its ``taps`` (area) counts 2·taps - 1 a result. Of the image no more than the
    taps of all results are read: enlarged, all of it; nearest at half the size, a quarter.

    Sizes: outputs, taps (optional). Attrs: mode, antialias.
    Inputs: the image first. Outputs: the result.
    """
    mode = _MODES.get(str(op.attrs.get("mode")))
    if op.attrs.get("antialias") and mode is not None and op.inputs and op.outputs:
        return _cost(op, _filtered(mode, op.inputs[0].shape, op.outputs[0].shape, 1))
    if "taps" in op.sizes:
        taps = op.size("taps")
        return _cost(op, op.size("outputs") * (2 * taps - 1), taps)
    if mode is None or op.attrs.get("antialias"):
        return None
    return _cost(op, op.size("outputs") * mode.operations if mode.operations else 0, mode.taps)


@formula("interpolation_backward")
def interpolation_backward(op: OpView) -> Cost | None:
    """Each result's gradient is spread over its pixels: per tap a product and an addition.

    The weight of a tap is a product of one weight an axis, taps·(axes - 1) products more: linear
    2·2, bilinear 4·3, trilinear 8·4, bicubic 16·3; nearest only adds, 1. Antialiased, axis after
    axis, and by ``taps``: 2·taps a value.

    Sizes: outputs (of the forward op), taps (optional). Attrs: mode, antialias.
    Inputs: grad_output first. Outputs: the gradient of the image.
    """
    mode = _MODES.get(str(op.attrs.get("mode")))
    if op.attrs.get("antialias") and mode is not None and op.inputs and op.outputs:
        return _cost(op, _filtered(mode, op.outputs[0].shape, op.inputs[0].shape, 0))
    if "taps" in op.sizes:
        return _cost(op, op.size("outputs") * 2 * op.size("taps"))
    if mode is None or op.attrs.get("antialias"):
        return None
    per_tap = mode.axes + 1 if mode.axes else 1
    return _cost(op, op.size("outputs") * mode.taps * per_tap)


def _cost(op: OpView, flops: Size | None, taps: Size | None = None) -> Cost | None:
    """``taps``: pixels that a result reads; None where each is read for sure."""
    if flops is None:
        return None
    touched = {} if taps is None else {0: op.size("outputs") * taps}
    return Cost(work=work(op.operand_dtype(1), vector=flops), touched=touched)


def _filtered(
    mode: _Mode, image: tuple[Size, ...], result: tuple[Size, ...], saved: int
) -> Size | None:
    """FLOP of one pass an axis, the last axis first; None where the filter is not known.

    A filter covers 2·reach·s pixels of an axis, s being how much larger the image is than the
    result, at least 1: taps multiply-adds a value, less the first addition where it is ``saved``.
    """
    if not mode.reach:
        return None
    flops: Size = 0
    for axis in range(1, mode.axes + 1):
        taps = maximum(2 * mode.reach, ceil_div(2 * mode.reach * image[-axis], result[-axis]))
        after = (*image[:-axis], *result[len(result) - axis :])
        flops = flops + product(after) * (2 * taps - saved)
    return flops
