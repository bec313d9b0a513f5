"""Weights that are copied to another layout before a convolution reads them.

A convolution takes its input and its weights in one layout. Where a norm or a GEMM has
left the input with channels last, torch's compiler copies the weights to channels last as well, in
every run. Compilers that own the weights (TensorRT, XLA) do so once, beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gambrel.analysis.fusion.program import WORLD, ProgramStep
from gambrel.ops import TensorView
from gambrel.ops.base import product


def copied_weights(step: ProgramStep, steps: Mapping[int, ProgramStep]) -> int:
    """Bytes of the weights that are copied for a convolution; 0 for any other op.

    Args:
        step: The op.
        steps: All ops that run.
    """
    view = step.view
    if view.kind != "convolution" or len(view.inputs) < 2:
        return 0
    x, weight = view.inputs[:2]
    if not _order_matters(weight.shape) or not _channels_last(x, step, steps):
        return 0
    read = next((r for r in step.reads if r.region == (weight.storage, weight.offset)), None)
    return read.nbytes if read is not None and read.writers == (WORLD,) else 0


def _order_matters(weight: tuple[Any, ...]) -> bool:
    """With one channel (depthwise) or one place (1x1) both layouts are the same."""
    return len(weight) > 2 and weight[1] > 1 and product(weight[2:]) > 1


def _channels_last(x: TensorView, step: ProgramStep, steps: Mapping[int, ProgramStep]) -> bool:
    """Whether what wrote ``x`` (batch, channels, places) wrote (batch, places, channels)."""
    read = next((r for r in step.reads if r.region == (x.storage, x.offset)), None)
    if read is None or len(read.writers) != 1 or read.writers[0] not in steps:
        return False
    written = steps[read.writers[0]].view.outputs[:1]
    batch, channels, *places = x.shape
    return any(
        tuple(t.shape) == (batch, *places, channels) and tuple(t.shape) != tuple(x.shape)
        for t in written
    )
