"""Time spent, from intervals that overlap: the union, never the sum."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Span = tuple[float, float]


def length(spans: Iterable[Span]) -> float:
    """Time covered by at least one interval.

    Args:
        spans: Start and end, in any order.
    """
    listed = np.array(list(spans), dtype=np.float64).reshape(-1, 2)
    return covered(listed[:, 0], listed[:, 1])


def covered(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> float:
    """Time covered by at least one interval, from columns in any order."""
    if len(starts) < 2:
        return float((ends - starts).sum())
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    gaps = np.maximum(starts[1:] - reached[:-1], 0.0)
    return float(reached[-1] - starts[0] - gaps.sum())
