"""Sentences about ops and steps that hold on a GPU alone."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from gambrel.analysis.result import OpResult
from gambrel.device.model import Device
from gambrel.units import format_si

#: A kernel as short as this hardly fills the device, whatever it does.
_SHORT_S: Final = 10e-6

#: The setting that lets a kind of op run in TF32.
_SETTINGS: Final = {
    "convolution": "torch.backends.cudnn.allow_tf32, on by default",
    "recurrent": "torch.backends.cudnn.allow_tf32, on by default",
    "matmul": "torch.set_float32_matmul_precision",
}


def above(op: OpResult, device: Device, tf32: Set[str]) -> list[str]:
    """Why an op may lie above the roof.

    Args:
        op: The row.
        device: That it is held against.
        tf32: Kinds of op that may run in TF32.
    """
    faster, plain = device.ceiling("matrix", "tf32"), device.ceiling("vector", "fp32")
    family = next((kind for kind in sorted(tf32) if kind in op.kind), None)
    compute = op.measures.bound is not None and op.measures.bound.value == "compute"
    if family is None or not compute or faster is None or plain is None:
        return []
    return [
        f"it may have run in TF32 ({_SETTINGS[family]}), whose roof is "
        f"{format_si(faster.flop_per_s, 'FLOP/s', 3)}"
    ]


def below(time_s: float) -> str:
    """Why a kernel is far below the roof; empty where its length says nothing."""
    if time_s < _SHORT_S:
        return "small problem: a kernel this short does not fill the device"
    return ""
