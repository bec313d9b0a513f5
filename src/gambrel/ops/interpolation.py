"""Resampling of images and volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gambrel.ops.base import Cost, OpView, Size, formula, work

#: Mode → (operations, taps) of one result. A blend of two along an axis is 2 products and 1
#: addition (the weights of a row or column are known before and not counted), nested over axes:
#: bilinear 3 + 3 + 3, trilinear 4·3 + 2·3 + 3; bicubic blends 4 of 4: 5·(4 products, 3 additions).
_MODES: Final[Mapping[str, tuple[int, int]]] = {
    "nearest": (0, 1),
    "linear": (3, 2),
    "bilinear": (9, 4),
    "trilinear": (21, 8),
    "bicubic": (35, 16),
}


@formula("interpolation")
def interpolation(op: OpView) -> Cost | None:
    """Operations per result by mode; nearest only moves.

    A filter over more pixels (antialias, area) multiplies and adds each: 2·taps - 1; it is
    unmodelled where the front end does not say ``taps``.

    Sizes: outputs, taps (optional: pixels weighted per result). Attrs: mode, antialias.
    """
    operations = _operations(op)
    if operations is None:
        return None
    return Cost(work=work(op.dtype, vector=_scaled(operations, op.size("outputs"))))


@formula("interpolation_backward")
def interpolation_backward(op: OpView) -> Cost | None:
    """Each result's gradient is spread: per tap a product with its weight and an addition.

    The weight of a tap is a product of one weight an axis: taps·(axes - 1) products more. Nearest
    only adds. linear 2·2, bilinear 4·3, trilinear 8·4, bicubic 16·3.

    Sizes: outputs (of the forward op), taps. Attrs: mode, antialias.
    """
    per_tap = {"nearest": 1, "linear": 2, "bilinear": 3, "trilinear": 4, "bicubic": 3}
    taps = _taps(op)
    if taps is None:
        return None
    factor = per_tap.get(str(op.attrs.get("mode")), 2)
    return Cost(work=work(op.operand_dtype(1), vector=factor * taps * op.size("outputs")))


def _taps(op: OpView) -> Size | None:
    if "taps" in op.sizes:
        return op.size("taps")
    mode = _MODES.get(str(op.attrs.get("mode")))
    return None if mode is None or op.attrs.get("antialias") else mode[1]


def _operations(op: OpView) -> Size | None:
    if "taps" in op.sizes:
        return 2 * op.size("taps") - 1
    mode = _MODES.get(str(op.attrs.get("mode")))
    return None if mode is None or op.attrs.get("antialias") else mode[0]


def _scaled(operations: Size, outputs: Size) -> Size:
    """A plain zero where nothing is done: the engine is then left out."""
    return 0 if isinstance(operations, int) and operations == 0 else operations * outputs
