"""Time spent, from intervals that overlap: the union, never the sum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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


class Covered:
    """Time covered by intervals that come block by block, in bounded memory.

    Blocks come about in the order of time. Once very many intervals are held, the earliest are
    counted and forgotten; a later block that reaches back behind them counts from there on.

    Attributes:
        first: Earliest start; None as long as there was no interval.
        last: Latest end.
    """

    _MOST = 1 << 20

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = 0
        self._done = 0
        self._frontier: int | None = None
        self._held: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
        self._count = 0

    def add(self, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> None:
        """Takes a block of intervals."""
        if not len(starts):
            return
        low, high = int(starts.min()), int(ends.max())
        self.last = high if self.first is None else max(self.last, high)
        self.first = low if self.first is None else min(self.first, low)
        if self._frontier is not None and low < self._frontier:
            starts = np.maximum(starts, self._frontier)
            ends = np.maximum(ends, starts)
        self._held.append((starts, ends))
        self._count += len(starts)
        if self._count > self._MOST:
            self._forget()

    def _forget(self) -> None:
        """Counts the earlier half of what is held."""
        starts, ends = self._merge()
        half = len(starts) // 2
        if half:
            self._done += int((ends[:half] - starts[:half]).sum())
            self._frontier = int(ends[half - 1])
            # Copies, so that the arrays they are cut from can go.
            self._held = [(starts[half:].copy(), ends[half:].copy())]
        self._count = len(starts) - half

    def _merge(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        starts = np.concatenate([s for s, _ in self._held])
        self._held = [_merged(starts, np.concatenate([e for _, e in self._held]))]
        return self._held[0]

    def total(self) -> int:
        """Time covered so far."""
        if not self._held:
            return self._done
        starts, ends = self._merge()
        return self._done + int((ends - starts).sum())


def _merged(
    starts: npt.NDArray[Any], ends: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.append(True, starts[1:] > ends[:-1]))
    return starts[begins], ends[np.append(begins[1:] - 1, len(ends) - 1)]
