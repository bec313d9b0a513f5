"""Running a model in another number format than it was captured in."""

from __future__ import annotations

from typing import Final

from gambrel.dtypes import FLOATING, width_bytes
from gambrel.errors import InputError
from gambrel.workload import Workload

#: In a precision part by part: the format of what ops hand to each other.
ACTIVATIONS: Final = "activations="


def casts_of(workload: Workload, precision: str) -> dict[str, str]:
    """What to cast in a workload that runs in a precision; nothing where it was built so."""
    if workload.precisions and precision == workload.precisions:
        return {}
    if workload.precisions and precision.startswith(f"{workload.precisions},{ACTIVATIONS}"):
        return {workload.dtype: precision.rpartition("=")[2]}
    return cast_map(workload.dtype, precision)


def cast_map(native: str, precision: str) -> dict[str, str]:
    """Which formats a change of precision replaces.

    Tensors in the model's own format take the new one. Wider formats are deliberate (fp32 softmax
    or norms in a bf16 model) and stay, unless the new precision is wider still: an fp32 run keeps
    nothing below fp32. Integers, booleans and formats narrower than the model's own (quantized
    weights) stay.

    Args:
        native: The format the workload was captured in.
        precision: The format to run in.

    Returns:
        Old format → new format, only for those that change.
    """
    if native == precision:
        return {}
    changes = {native: precision}
    for dtype in FLOATING - {native}:
        wider = width_bytes(dtype) > width_bytes(native)
        if wider and width_bytes(precision) > width_bytes(dtype):
            changes[dtype] = precision
    return changes


def check_precision(native: str, precision: str) -> None:
    """Raises InputError when the model has no real-valued format that could be changed."""
    if native not in FLOATING and precision != native:
        raise InputError(f"the model computes in {native}; it cannot be run in {precision}.")


def describe(native: str, precision: str) -> tuple[str, ...]:
    """What a change of precision assumes, in sentences for the report."""
    if width_bytes(precision) < 2 and precision != native:
        return (
            f"{precision}: weights, activations and caches are all stored in {precision}; "
            "element-wise work is held against the vector roof of the device.",
        )
    return ()
