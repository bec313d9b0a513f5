"""What would explain a time below the speed of light: each candidate cause with its figures."""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.advise.judge.records import KernelLimits
from gambrel.device.catalog import load
from gambrel.device.fastest import fastest
from gambrel.dtypes import BITS, FLOATING
from gambrel.errors import GambrelError
from gambrel.units import format_percent, format_si

#: A time below this is that of a launch call which nobody waited for: queueing a kernel takes the
#: host 2 to 10 µs.
_CALL_S: Final = 10e-6


def causes_of(limits: KernelLimits, time_s: float) -> tuple[str, ...]:
    """Sentences, the most telling first.

    Args:
        limits: Whose speed of light is beaten.
        time_s: The time that beats it.
    """
    light = limits.sol_time_s or 0.0
    share = format_percent(roofline.ratio(time_s, light))
    found = list(_precisions(limits, time_s))
    if time_s < _CALL_S < light:
        found.insert(
            0,
            f"timing without synchronization: {format_si(time_s, 's')} is what queueing a kernel "
            "takes; wait for the device (torch.cuda.synchronize, or events) before the clock is "
            "read",
        )
    found += [
        f"reduced work: computing {share} of it, or skipping outputs, would take this long; check "
        "every output against the reference on random inputs",
        "cached results: a result of an earlier call was returned; use new values in every call",
    ]
    if time_s >= _CALL_S:
        found.append(
            "timing error: wrong unit, a clock that was read before the device had finished, or a "
            "time divided by more runs than there were"
        )
    return tuple(found)


def _precisions(limits: KernelLimits, time_s: float) -> list[str]:
    """Narrower formats in which the matrix work would fit into the time."""
    if not limits.matrix_flops or limits.bound is None:
        return []
    try:
        device = load(limits.hardware)
    except GambrelError:
        return []
    bits = BITS.get(limits.precision)
    if bits is None:
        return []
    found = []
    for name in ("bf16", "fp16", "fp8", "int8", "fp4"):
        roof = fastest(device, "matrix", name) if name in BITS and BITS[name] < bits else None
        if roof is None:
            continue
        work = roofline.seconds(limits.matrix_flops, roof.flop_per_s)
        if work <= time_s:
            kind = "a narrower format" if name in FLOATING else "integers"
            found.append(f"wrong precision: {name} could be as fast; was it computed in {kind}?")
            break
    return found
