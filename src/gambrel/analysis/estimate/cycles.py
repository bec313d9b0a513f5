"""Expected times on microcontrollers: cycles of a single core by kind of layer.

Such a core has no caches to speak of and runs one instruction after another, so that the cycles of
a layer add up:

    t = (multiply-adds · cycles of their kind + elements written · finish) / clock

A depthwise convolution reads as much per multiply-add as it computes; a linear layer of one row
fetches a weight from flash for each. What is scaled and rounded is every element that a layer
writes. Activations and stored norms are part of the layer before them.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.estimate.constants import Calibration, Cycles
from gambrel.analysis.estimate.shares import OpsEstimator
from gambrel.analysis.estimate.tiled_work import is_depthwise
from gambrel.device.model import Device
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, Size, is_zero, total, where
from gambrel.ops.elementwise import FUNCTIONS
from gambrel.roofline import maximum
from gambrel.runtimes import Runtime, matches

_CONSTANT: Final = frozenset({"weight", "buffer", "constant"})


def cycles_estimator(
    runtime: Runtime, device: Device, calibration: Calibration
) -> OpsEstimator | None:
    """What predicts a core's layers; None where it was not measured, or has no clock.

    Args:
        runtime: Whose kernels run.
        device: The microcontroller.
        calibration: All constants.
    """
    clock = device.fact("boost_clock")
    mine = [c for c in calibration.cycles if c.runtime == runtime.id and matches(c.match, device)]
    if clock is None or not mine:
        return None
    by_format = {c.dtype: c for c in mine}

    def work(view: OpView, cost: Cost) -> tuple[Size, Cycles] | None:
        dtype = next((d for engine, d in cost.work if engine is Engine.MATRIX), None)
        one = by_format.get(dtype or view.dtype, None if dtype else mine[0])
        if one is None:
            return None
        return roofline.seconds(cycles_of(view, cost, one), clock.value), one

    return OpsEstimator(work)


def cycles_of(view: OpView, cost: Cost, c: Cycles) -> Size:
    """Cycles of one execution of an op."""
    work = work_of(view, cost)
    return total(n * float(getattr(c, kind)) for kind, n in work.items())


def work_of(view: OpView, cost: Cost) -> dict[str, Size]:
    """Multiply-adds and elements of an op, by the field of `Cycles` that they take."""
    macs = total(n for (e, _), n in cost.work.items() if e is Engine.MATRIX) / 2
    written = total(t.elements for t in view.outputs)
    if is_zero(macs) and view.kind == "pooling":  # an addition or a comparison for each tap
        read = total(t.elements for t in view.inputs)
        return {"depthwise": read, "finish": written}
    if is_zero(macs):
        return {"finish": _elements(view)}
    if view.kind == "convolution":
        return {"depthwise" if is_depthwise(view) else "window": macs, "finish": written}
    if view.kind != "matmul":
        return {"window": macs, "finish": written}
    many = where(view.size("m") > 1, 1, 0)  # weights serve several rows
    return {"window": macs * many, "linear": macs * (1 - many), "finish": written}


def _elements(view: OpView) -> Size:
    """Elements that an op without products passes over by itself."""
    if view.kind == "normalization" and not view.attrs.get("statistics", True):
        return 0
    if view.kind != "elementwise":
        return _passed(view)
    special = FUNCTIONS.get(str(view.attrs.get("function")), (0, 0))[1]
    given = [t for t in view.inputs if t.role not in _CONSTANT]
    return view.size("elements") if special or len(given) > 1 else 0


def _passed(view: OpView) -> Size:
    """Elements read or written, whichever are more."""
    read = total(t.elements for t in view.inputs if t.role not in _CONSTANT)
    return maximum(read, total(t.elements for t in view.outputs))
