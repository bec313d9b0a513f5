"""How constants do on what they were not fitted on."""

from __future__ import annotations

import msgspec


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """How a set does on shapes that it was not fitted on.

    Attributes:
        points: Number of measurements.
        mape: Mean of |predicted / measured - 1|.
        median: Median of the same.
        inside: Share of the measured times inside the range.
        width: Median of high / low above 20 µs; None without such points or where it is not kept.
        by_framework: MAPE of each framework; empty where there is one.
        inside_by_bin: The share inside of each bin of predicted times whose range is narrow; None
            for bins of few measurements, empty where none is too small or it was not kept.
    """

    points: int
    mape: float
    median: float
    inside: float
    width: float | None = None
    by_framework: dict[str, float] = {}
    inside_by_bin: tuple[float | None, ...] = ()
