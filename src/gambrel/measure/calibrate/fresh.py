"""What it costs to touch memory for the first time.

Large results lie on pages that the allocator maps anew for every call; the system clears each at
its first touch, at a fraction of the bandwidth of main memory.
"""

from __future__ import annotations

import math
import mmap
import os
import platform
import time
from typing import Any, Final

from gambrel import roofline
from gambrel.analysis.estimate.classes import FRESH_BYTES, FRESH_KEY
from gambrel.measure.calibrate.timing import Clock

_SIZES: Final = tuple(FRESH_BYTES * n // 8 for n in (9, 10, 12, 14, 16, 24))
_TURNS: Final = 5


def fresh_rows(
    byte_per_s: float, clock: Clock = time.perf_counter
) -> list[tuple[str, tuple[float, ...], float, float]]:
    """Seconds that mapping and filling new pages takes longer than filling old ones.

    Args:
        byte_per_s: Bandwidth of main memory.
        clock: Seconds.

    Returns:
        Rows of a class of its own; none where the allocator keeps the memory that it has.
    """
    if not _maps_anew():
        return []
    found: list[tuple[str, tuple[float, ...], float, float]] = []
    for size in _SIZES:
        old, new = _filled(size, clock)
        bound = roofline.seconds(size, byte_per_s)
        found.append((FRESH_KEY, (math.log2(size),), bound, max(new - old, 1e-9)))
    return found


def _maps_anew() -> bool:
    """Whether large blocks come from the system in every call: glibc, as it is set by default."""
    changed = os.environ.get("MALLOC_MMAP_THRESHOLD_") or os.environ.get("LD_PRELOAD")
    tuned = "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    return platform.libc_ver()[0] == "glibc" and not changed and not tuned


def _filled(size: int, clock: Clock) -> tuple[float, float]:
    """Seconds of filling pages that are there, and of mapping, filling and freeing new ones."""
    import torch

    kept: Any = torch.ones(size, dtype=torch.uint8)
    old, new = [], []
    for _ in range(_TURNS):
        begun = clock()
        kept.fill_(1)
        old.append(clock() - begun)
        begun = clock()
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh = torch.frombuffer(pages, dtype=torch.uint8).fill_(1)
        del fresh
        pages.close()
        new.append(clock() - begun)
    return min(old), min(new)
