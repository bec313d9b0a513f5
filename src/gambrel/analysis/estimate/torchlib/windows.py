"""Kernels that look through a window: pooling and depthwise convolution.

Each output value walks over its taps with address arithmetic, and this, not the memory, takes the
time: the two H100 cards differ in them as their lanes do (1.31), not as their bandwidths (1.64).
"""

from __future__ import annotations

from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.analysis.estimate.torchlib.streams import computed, streamed
from gambrel.ops import OpView
from gambrel.ops.base import Size, product
from gambrel.roofline import maximum


def pooling(c: Constants, machine: Chip, task: Task) -> Size:
    """Lane cycles per output value and tap, or the traffic."""
    view = task.view
    taps = view.size("window", 1)
    taps = product(taps) if isinstance(taps, tuple) else taps
    outputs = view.size("outputs", product(view.outputs[0].shape) if view.outputs else 1)
    tap, start = (c["tap"], c["start"])
    if task.compiled and _is_written(view):
        tap, start = c["compiled_tap"], c["compiled_start"]
    return windowed(machine, task, outputs * (start + tap * taps), c["memory"])


def _is_written(view: OpView) -> bool:
    """Whether a compiler writes the loop itself: two-dimensional windows of few taps."""
    from gambrel.analysis.fusion.classes import Shape, shape_of  # loaded where kernels fuse

    return shape_of(view) is Shape.POINTWISE and len(view.outputs[0].shape) < 5


def windowed(machine: Chip, task: Task, lane_cycles: Size, share: float) -> Size:
    """The slower of the lanes and the memory."""
    return maximum(
        streamed(machine, task.traffic_bytes, share),
        computed(machine, lane_cycles),
    )
