"""Resampling of images and volumes, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, ceil_div, formula, maximum, product, work


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
    that is given by its ``taps`` (area) counts 2·taps - 1 too.

    Backward, each result's gradient is spread over the same pixels: per tap a product with its
    weight and an addition, and the weight is a product of one weight an axis: linear 2·2, bilinear
    4·3, trilinear 8·4, bicubic 16·3, nearest 1; antialiased and by taps 2·taps a value.

    Sizes: outputs (of the forward op), taps (optional). Attrs: mode, antialias, backward.
    Inputs: the image first. Outputs: the result first. (Backward: their gradients, exchanged.)
    """
    mode = _MODES.get(str(op.attrs.get("mode")))
    is_backward = bool(op.attrs.get("backward"))
    flops: Size | None
    if "taps" in op.sizes:
        taps = op.size("taps")
        flops = op.size("outputs") * (2 * taps if is_backward else 2 * taps - 1)
    elif mode is None:
        return None
    elif op.attrs.get("antialias"):
        flops = _filtered(op, mode, is_backward)
    elif is_backward:
        per_tap = max(mode.axes - 1, 0) + (2 if mode.axes else 1)
        flops = op.size("outputs") * mode.taps * per_tap
    else:
        flops = op.size("outputs") * mode.operations if mode.operations else 0
    return None if flops is None else Cost(work=work(op.operand_dtype(1), vector=flops))


def _filtered(op: OpView, mode: _Mode, is_backward: bool) -> Size | None:
    """FLOP of one pass an axis, the last axis first; None where shapes or filter are not known.

    A filter of a mode covers 2·reach·s pixels, s being how much larger the input is, at least 1.
    """
    if not (mode.reach and op.inputs and op.outputs):
        return None
    images = (op.outputs[0], op.inputs[0]) if is_backward else (op.inputs[0], op.outputs[0])
    sizes, targets = (image.shape for image in images)
    flops: Size = 0
    for axis in range(1, mode.axes + 1):
        taps = maximum(2 * mode.reach, ceil_div(2 * mode.reach * sizes[-axis], targets[-axis]))
        sizes = (*sizes[: len(sizes) - axis], *targets[len(targets) - axis :])
        flops = flops + product(sizes) * (2 * taps if is_backward else 2 * taps - 1)
    return flops
