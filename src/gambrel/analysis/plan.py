"""What of a runtime and a device decides a cost table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.device.model import Device
from gambrel.dtypes import BITS, BLOCKS, WHOLE
from gambrel.ops import OpView
from gambrel.ops.base import Engine, Size
from gambrel.runtimes import HostOps, Kernels, Runtime, UnitTiling, matches

if TYPE_CHECKING:  # fusion is loaded where kernels fuse
    from gambrel.analysis.fusion import Allowance


#: Between formats of which a runtime takes the faster.
OR: Final = "/"


class KernelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What of a runtime and a device decides the table.

    Attributes:
        kernels: Which ops become one kernel.
        allowance: On-chip memory between kernels; None keeps nothing there.
        prefetch: Weights of later kernels are loaded while earlier ones compute.
        persistent: Recurrent layers are one kernel over all steps.
        tf32: fp32 convolutions run in TF32.
        int8_blocks: Weights that are stored in blocks are multiplied as int8.
        mxfp4: Formats in which dense products and those of experts with weights in mxfp4 are
            formed; None: that of the activations.
        split_attention: Scores of attention pass through memory between several kernels.
        fused_delta_rule: Prompts of the gated delta rule are one kernel.
        resident_bytes: On-chip memory of a device that lives off its host link, all of which might
            keep weights between runs; None for every other device.
        cached_bytes: What of it the runtime uses for them; None: all of it.
        host_ops: What the compiler leaves to the host.
        tiling: How it fills the units of an NPU.
    """

    kernels: Kernels
    allowance: Allowance | None = None
    prefetch: bool = False
    persistent: bool = False
    tf32: bool = False
    int8_blocks: bool = False
    mxfp4: tuple[str, str] | None = None
    split_attention: bool = False
    fused_delta_rule: bool = False
    resident_bytes: int | None = None
    cached_bytes: int | None = None
    host_ops: HostOps | None = None
    tiling: UnitTiling = UnitTiling()


def plan_of(
    runtime: Runtime, device: Device, *, off_chip_only: bool, on_chip_bytes: int
) -> KernelPlan:
    """What decides the cost table of a runtime on a device.

    Args:
        runtime: The runtime.
        device: The machine.
        off_chip_only: Whether it lives off its host link.
        on_chip_bytes: Its on-chip memory; 0 where unknown.
    """
    residency = runtime.residency
    allowance = None
    if residency is not None:
        nbytes = on_chip_bytes if residency.group_bytes is None else residency.group_bytes
        from gambrel.analysis.fusion import Allowance

        allowance = Allowance(group_bytes=nbytes, free_scores=residency.free_scores)
    sram = device.level("SRAM")
    held = (sram.capacity_bytes or 0) if sram else 0
    return KernelPlan(
        kernels=runtime.kernels,
        allowance=allowance,
        prefetch=residency is not None and residency.prefetch,
        persistent=runtime.persistent_recurrence,
        tf32=runtime.tf32_convolutions and device.ceiling("matrix", "tf32") is not None,
        int8_blocks=_int8_blocks(runtime, device),
        mxfp4=_for_mxfp4(runtime, device),
        split_attention=_among(runtime.split_attention, device),
        fused_delta_rule=_among(runtime.fused_delta_rule, device),
        resident_bytes=held if off_chip_only else None,
        cached_bytes=round(held * residency.weights_share) if off_chip_only and residency else None,
        host_ops=runtime.host_ops,
        tiling=runtime.tiling,
    )


def has_blocks(view: OpView) -> bool:
    """Whether an op reads weights that a runtime of blocks keeps in them: whole numbers too."""
    return any(t.dtype in BLOCKS or (t.role == "weight" and t.dtype in WHOLE) for t in view.inputs)


def in_mxfp4(view: OpView) -> bool:
    """Whether an op reads weights that are stored in mxfp4."""
    return any(t.role == "weight" and t.dtype == _MXFP4 for t in view.inputs)


def rounded(
    work: Mapping[tuple[Engine, str], Size], *formats: str, either: bool = False
) -> dict[tuple[Engine, str], Size]:
    """Work whose products of more than 8 bits are of another format; what follows stays as it was.

    Args:
        work: By engine and format.
        *formats: One; or several, of which the fastest counts.
        either: Whether they may stay wide, where that is faster.
    """
    found: dict[tuple[Engine, str], Size] = {}
    for (engine, dtype), flops in work.items():
        wide = engine is Engine.MATRIX and BITS[dtype] > 8
        narrow = OR.join((dtype, *formats) if either else formats)
        key = (engine, narrow if wide else dtype)
        found[key] = found.get(key, 0) + flops
    return found


def _among(patterns: tuple[str, ...], device: Device) -> bool:
    """Whether a device is one of those that a rule names; no pattern names none."""
    return bool(patterns) and matches(patterns, device)


def _for_mxfp4(runtime: Runtime, device: Device) -> tuple[str, str] | None:
    if not runtime.rounds_for_mxfp4:
        return None
    if not any(device.ceiling("matrix", dtype) for dtype in _FOUR_BITS):
        return None
    return (_MXFP4 if _among(runtime.pairs_mxfp4, device) else "fp8"), "fp8"


#: Number formats of four bits that a matrix engine may multiply by itself.
_FOUR_BITS: Final = ("mxfp4", "nvfp4", "fp4")
_MXFP4: Final = "mxfp4"


def _int8_blocks(runtime: Runtime, device: Device) -> bool:
    """Whether blocks of weights are multiplied as int8: by the runtime, and with a roof for it."""
    if not _among(runtime.int8_blocks, device):
        return False
    return any(device.ceiling(engine, "int8") for engine in ("matrix", "vector"))
