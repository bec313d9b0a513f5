"""Time spent, from intervals that overlap: the union, never the sum."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """Merges intervals that overlap or touch.

    Args:
        spans: Start and end, in any order.
    """
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(spans: Iterable[Span]) -> float:
    """Time covered by at least one interval."""
    listed = list(spans)
    if len(listed) == 1:
        return listed[0][1] - listed[0][0]
    return sum(end - start for start, end in union(listed))
