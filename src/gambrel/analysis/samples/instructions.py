"""The instruction roofline: for kernels whose work is no floating-point arithmetic.

Rate = warp instructions a second, intensity = warp instructions a transaction of 32 bytes; Ding and
Williams, "An Instruction Roofline Model for GPUs", PMBS 2019, https://arxiv.org/abs/1911.11082 .
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from gambrel.analysis.samples.place import Standing
from gambrel.device.model import Device

#: Bytes of a transaction.
TRANSACTION_BYTES: Final = 32
#: Warps that a multiprocessor starts an instruction of in a cycle: one a scheduler, four of them.
_ISSUED: Final = 4
#: fp32 lanes of a multiprocessor by compute capability, NVIDIA CUDA C Programming Guide, table of
#: arithmetic instructions; later ones have 128.
_LANES: Final = {"7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
_CC: Final = re.compile(r"sm_(\d+)(\d)\b")


class InstructionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel at one memory level.

    Attributes:
        index: Position in ``Standing.kernels``.
        level: Memory level.
        instruction_per_s: Warp instructions a second.
        per_transaction: Warp instructions a transaction of 32 bytes.
    """

    index: int
    level: str
    instruction_per_s: float
    per_transaction: float


def points(standing: Standing) -> tuple[InstructionPoint, ...]:
    """Every kernel whose instructions, bytes and time are known, a point a level."""
    return tuple(
        InstructionPoint(
            index=i,
            level=x.level,
            instruction_per_s=k.instruction_per_s,
            per_transaction=k.sample.instructions / (x.traffic_bytes / TRANSACTION_BYTES),
        )
        for i, k in enumerate(standing.kernels)
        for x in k.levels
        if k.instruction_per_s and k.sample.instructions and x.traffic_bytes
    )


def peak_instructions(device: Device | None) -> float | None:
    """Warp (wave) instructions a second that a GPU can start; None where it does not follow.

    From the fp32 peak of the device, at lanes x 2 FLOP a cycle. A multiprocessor of NVIDIA starts
    four instructions a cycle; a compute unit of CDNA 1, with 64 lanes, one.
    """
    roof = device.ceiling("vector", "fp32") if device is not None else None
    if device is None or roof is None:
        return None
    if device.vendor == "AMD" and "gfx908" in device.architecture:
        return roof.flop_per_s / (2 * 64)
    found = _CC.search(device.architecture)
    if device.vendor != "NVIDIA" or found is None:
        return None
    lanes = _LANES.get(f"{found[1]}.{found[2]}", 128)
    return roof.flop_per_s / (2 * lanes) * _ISSUED
