"""The roofline model: the one place that divides work by rates, for scalars and arrays alike.

A *resource* is anything that serves work at a limited rate: an engine (FLOP/s), a memory level or a
link (byte/s). Resources that serve at the same time overlap, so the slowest one sets the time of a
kernel (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009); kernels that run one after
another add. A value is a number, or a numpy array of one number per point.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

#: A number, or an array of them: ``int | float | NDArray[np.float64]``.
Size = Any
Resource = TypeVar("Resource", bound=Hashable)


def seconds(work: Size, rate: Size) -> Size:
    """Time that a resource needs for its work, s.

    Args:
        work: FLOP or bytes; not negative.
        rate: FLOP/s or byte/s; positive, infinite means "never limits".

    Raises:
        ValueError: A rate is not positive.
    """
    _check_positive(rate, "a rate")
    return work / rate


def rate(work: Size, time_s: Size) -> Size:
    """Achieved rate: FLOP/s or byte/s.

    Raises:
        ValueError: A time is not positive.
    """
    _check_positive(time_s, "a time")
    return work / time_s


def _check_positive(value: Size, what: str) -> None:
    positive = value > 0
    if positive is not True and (positive is False or not positive.all()):
        raise ValueError(f"{what} must be a positive number")


def ratio(rate_a: float, rate_b: float) -> float:
    """One rate over another; FLOP/s over byte/s is a ridge point, FLOP/byte."""
    return rate_a / rate_b


def slowest(times: Mapping[Resource, Size]) -> Size | None:
    """The time of resources that overlap: that of the slowest; None without any."""
    found = None
    for value in times.values():
        found = value if found is None else maximum(found, value)
    return found


def binding(times: Mapping[Resource, float], first: Sequence[Resource] = ()) -> Resource | None:
    """The resource with the largest time; of equals the one that ``first`` lists first.

    List compute first, and a tie at the ridge is compute-bound.
    """
    order = [r for r in first if r in times] + [r for r in times if r not in first]
    return max(order, key=lambda r: times[r], default=None)


def intensity(flops: float, traffic_bytes: float) -> float:
    """FLOP per byte: 0 without work, infinite for work without traffic; both are legal."""
    if not flops:
        return 0.0
    return flops / traffic_bytes if traffic_bytes else math.inf


def attainable(intensity: float, peak_flop_per_s: float, peak_byte_per_s: float) -> float:
    """``min(peak, intensity * bandwidth)``, FLOP/s; an infinite intensity reaches the peak."""
    return min(peak_flop_per_s, intensity * peak_byte_per_s)


def utilization(busy_s: float, time_s: float) -> float:
    """Share of a resource's rate in use: its busy time over the time of the run."""
    return busy_s / time_s if time_s else 0.0


def positive(value: Size) -> Size | None:
    """The same; None for no time at all, and NaN at such places of an array."""
    if isinstance(value, (int, float)):
        return value or None
    import numpy as np

    return np.where(np.asarray(value) > 0, value, np.nan)


def no_less(value: Size, limit: Size) -> Size:
    """Values raised to a limit where there is one: NaN, as `positive` gives it, is none."""
    if isinstance(value, (int, float)) and isinstance(limit, (int, float)):
        return max(value, limit)
    import numpy as np

    return np.fmax(value, limit)


def maximum(a: Size, b: Size) -> Size:
    """The larger one, of numbers or of each pair in arrays."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return max(a, b)
    import numpy as np

    return np.maximum(a, b)
