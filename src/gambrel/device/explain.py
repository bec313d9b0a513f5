"""What a user must know about a device before using its figures, in sentences."""

from __future__ import annotations

from gambrel import roofline
from gambrel.device.model import Ceiling, Device
from gambrel.device.roofs import main_memory
from gambrel.units import format_number, format_si


def explain(device: Device) -> tuple[str, ...]:
    """The device's own notes, and what its figures imply: sparse peaks, accumulators, records.

    Args:
        device: Any device, the user's own included.
    """
    return (
        *device.notes,
        *explain_sparsity(device),
        *_accumulators(device),
        *_demonstrated(device),
    )


def power(device: Device) -> str:
    """The most that it draws, what is typical and idle where they are known, in a phrase."""
    more = {"typical": device.typical_power_w, "idle": device.idle_power_w}
    known = [f"{name} {format_si(watt, 'W')}" for name, watt in more.items() if watt is not None]
    return ", ".join([f"TDP {format_si(device.tdp_w, 'W')}", *known])


def explain_sparsity(device: Device) -> tuple[str, ...]:
    """For each number format with both peaks, the dense and the sparse reading.

    The default is dense: no ordinary model has the structure (e.g. two of four weights zero) that
    the sparse peak needs. The sentence gives both ridge points, because the sparse one is what is
    often quoted.
    """
    memory = main_memory(device)
    rate = memory.byte_per_s if memory else None
    return tuple(
        _both_readings(ceiling, ceiling.sparse_flop_per_s, rate)
        for ceiling in device.ceilings
        if ceiling.sparse_flop_per_s is not None and not ceiling.accumulate
    )


def _both_readings(ceiling: Ceiling, sparse: float, rate: float | None) -> str:
    text = (
        f"{_label(ceiling)}: {format_si(ceiling.flop_per_s, 'FLOP/s')} dense (used); "
        f"{format_si(sparse, 'FLOP/s')} with structured sparsity"
    )
    if rate is not None:
        text += (
            f"; ridge point {format_number(roofline.ratio(ceiling.flop_per_s, rate), 3)} dense, "
            f"{format_number(roofline.ratio(sparse, rate), 4)} sparse, FLOP/byte"
        )
    return text + "."


def _accumulators(device: Device) -> tuple[str, ...]:
    return tuple(
        f"{_label(full)}: {format_si(full.flop_per_s, 'FLOP/s')} with fp32 accumulation (used); "
        f"{format_si(other.flop_per_s, 'FLOP/s')} with {other.accumulate} accumulation."
        for other in device.ceilings
        if other.accumulate and (full := device.ceiling(other.engine, other.dtype)) is not None
    )


def _demonstrated(device: Device) -> tuple[str, ...]:
    return tuple(
        f"{_label(reached)}: a published run reached {format_si(reached.flop_per_s, 'FLOP/s')}, "
        f"{_beside(device, reached)} ({reached.note or reached.source.title})."
        for reached in device.demonstrated
    )


def _beside(device: Device, reached: Ceiling) -> str:
    roof = device.ceiling(reached.engine, reached.dtype, reached.accumulate)
    if roof is None:
        return "no roof is published"
    return f"the datasheet says {format_si(roof.flop_per_s, 'FLOP/s')}"


def _label(ceiling: Ceiling) -> str:
    suffix = f", {ceiling.accumulate} accumulation" if ceiling.accumulate else ""
    return f"{ceiling.engine} {ceiling.dtype}{suffix}"
