"""The roofline model on arrays, over any number of resources.

A *resource* is anything that serves work at a limited rate: an engine (FLOP/s), a memory level or a
link (byte/s). Work is an array whose last axis runs over resources, rates have the same last axis.
With perfect overlap the resources serve at the same time, so the slowest one sets the bound
(Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


def arithmetic_intensity(flops: ArrayLike, traffic_bytes: ArrayLike) -> Floats:
    """FLOP per byte of traffic.

    No work is intensity zero; work without traffic is infinite. Both are legal.

    Args:
        flops: FLOP, any shape.
        traffic_bytes: Bytes, broadcast against ``flops``.

    Returns:
        FLOP/byte, broadcast shape.
    """
    work, traffic = np.broadcast_arrays(_nonnegative(flops), _nonnegative(traffic_bytes))
    result = np.full(work.shape, np.inf)
    np.divide(work, traffic, out=result, where=traffic > 0)
    return np.where(work == 0, 0.0, result)


def ridge_point(peak_flop_per_s: ArrayLike, peak_byte_per_s: ArrayLike) -> Floats:
    """The intensity at which the compute roof meets the memory roof, FLOP/byte."""
    return _positive(peak_flop_per_s) / _positive(peak_byte_per_s)


def attainable_flop_per_s(
    intensity: ArrayLike, peak_flop_per_s: ArrayLike, peak_byte_per_s: ArrayLike
) -> Floats:
    """``min(peak, intensity * bandwidth)``, FLOP/s.

    Args:
        intensity: FLOP/byte, any shape; infinite is legal.
        peak_flop_per_s: The compute roof, broadcast.
        peak_byte_per_s: The memory roof, broadcast.
    """
    slope = _nonnegative(intensity) * _positive(peak_byte_per_s)
    return np.minimum(slope, _positive(peak_flop_per_s))


def resource_times(work: ArrayLike, rates: ArrayLike) -> Floats:
    """Seconds that each resource needs alone: ``work / rate``.

    Args:
        work: FLOP or bytes, shape ``(..., R)``.
        rates: FLOP/s or byte/s, shape ``(..., R)``; infinite means "never limits".

    Returns:
        Seconds, shape ``(..., R)``.
    """
    return _nonnegative(work) / _positive(rates)


def bound_time(times: ArrayLike) -> Floats:
    """The roofline bound: the time of the slowest resource, shape ``(...)``."""
    return np.asarray(np.max(_nonnegative(times), axis=-1))


def binding_resource(times: ArrayLike) -> NDArray[np.intp]:
    """Index of the resource that sets the bound, shape ``(...)``.

    A tie goes to the resource listed first; list compute first, and a tie at the ridge is
    compute-bound.
    """
    return np.asarray(np.argmax(_nonnegative(times), axis=-1))


def utilizations(times: ArrayLike) -> Floats:
    """Share of each resource's rate in use when the op runs at its bound, shape ``(..., R)``."""
    seconds = _nonnegative(times)
    total = bound_time(seconds)[..., np.newaxis]
    return np.divide(seconds, total, out=np.zeros_like(seconds), where=total > 0)


def _nonnegative(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any() or (array < 0).any():
        raise ValueError("work, traffic and time must be numbers that are not negative")
    return array


def _positive(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any() or (array <= 0).any():
        raise ValueError("a rate must be a positive number")
    return array
