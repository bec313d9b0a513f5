"""Which memory an intermediate lies in: allocators hand out again what was freed.

A cache knows addresses, not tensors. A network that makes 100 intermediates of a megabyte, two of
them alive at a time, touches a few megabytes of memory over and over, and these stay in the cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set

from gambrel.ops import OpView

#: Blocks are shared by tensors that differ by less than an eighth in size, as a caching allocator
#: that rounds sizes up does.
_STEPS = 8


def blocks_of(views: Sequence[OpView], sizes: dict[int, float], fixed: Set[int]) -> dict[int, int]:
    """A block of memory for every intermediate.

    A storage gets a free block of its size class, the one freed last, or a new one; the block is
    free again after the last op that touches the storage. What is read before it is written comes
    from outside and keeps its own memory.

    Args:
        views: The ops in order.
        sizes: Bytes of each storage.
        fixed: Storages that keep their own memory: weights, caches, the model's inputs and outputs.

    Returns:
        Storage → block, named by the first storage that had it; without those that keep their own.
    """
    last = _last_use(views)
    free: dict[int, list[int]] = defaultdict(list)
    blocks: dict[int, int] = {}
    seen = set(fixed)
    for position, view in enumerate(views):
        seen.update(t.storage for t in view.inputs if t.storage not in blocks)
        touched = dict.fromkeys(t.storage for t in (*view.inputs, *view.outputs))
        for storage in touched:
            if storage not in seen:
                seen.add(storage)
                fitting = free[_size_class(sizes[storage])]
                blocks[storage] = fitting.pop() if fitting else storage
        for storage in touched:
            if storage in blocks and last[storage] == position:
                free[_size_class(sizes[storage])].append(blocks[storage])
    return blocks


def _last_use(views: Sequence[OpView]) -> dict[int, int]:
    last: dict[int, int] = {}
    for position, view in enumerate(views):
        for t in (*view.inputs, *view.outputs):
            last[t.storage] = position
    return last


def _size_class(nbytes: float) -> int:
    """Equal for sizes between two neighbouring eighths of a power of two."""
    whole = max(1, int(nbytes))
    step = max(1, (1 << (whole.bit_length() - 1)) // _STEPS)
    return -(-whole // step) * step
