"""Memory for the loops: private, on huge pages where the system gives them, full of random data.

A shared anonymous mapping, which is what Python's ``mmap`` makes by default, gets no transparent
huge pages, and an L2 that is indexed by physical addresses then measures up to a third too slow.
Zeros are no honest data: caches and memory controllers treat them specially.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

_HUGE: Final = 2 << 20
_TILE: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """A piece of memory.

    Attributes:
        address: Of its first byte; a multiple of 2 MiB.
        size: In bytes.
    """

    address: int
    size: int


@contextmanager
def arena(size: int, seed: int = 0) -> Iterator[Arena]:
    """Memory that is given back at the end.

    Args:
        size: Bytes, rounded up to a huge page.
        seed: Of the random data: single-precision numbers in [0.3, 0.8), which are ordinary numbers
            in every narrower view as well.
    """
    size = -(-size // _HUGE) * _HUGE
    # One huge page more than needed, so that the data may begin on a page's border.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    block = mmap.mmap(-1, size + _HUGE, flags=flags)
    try:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(block))  # kept by nobody: it may close
        address = -(-start // _HUGE) * _HUGE
        _fill(address, size, seed)
        yield Arena(address=address, size=size)
    finally:
        block.close()


def huge_bytes() -> int | None:
    """Bytes of this process that lie on huge pages now; None where the system does not say."""
    try:
        text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return None


def _fill(address: int, size: int, seed: int) -> None:
    """Writes every page, on all cores: the first touch of a page is slow."""
    tile = np.random.default_rng(seed).random(min(size, _TILE) // 4, dtype=np.float32)
    tile = tile * np.float32(0.5) + np.float32(0.3)

    def copy(offset: int) -> None:
        length = min(tile.nbytes, size - offset)
        ctypes.memmove(address + offset, tile.ctypes.data, length)

    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(copy, range(0, size, tile.nbytes)))
