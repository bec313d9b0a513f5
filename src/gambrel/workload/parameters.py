"""Parameters of a workload: how many there are, and those that no op reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import prod

from msgspec.structs import replace

from gambrel.dtypes import FLOATING
from gambrel.workload.model import Role, Tensor, Workload

#: Names of unread parameters that the sentence shows.
_SHOWN = 2


def main_dtype(tensors: Iterable[Tensor]) -> str:
    """Number format of most floating-point weights; of all tensors if no weight has any."""
    weights: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for t in tensors:
        if t.dtype in FLOATING:
            counted = weights if t.role is Role.WEIGHT else others
            counted[t.dtype] += prod(n for n in t.shape if isinstance(n, int))
    common = (weights or others).most_common(1)
    return common[0][0] if common else "fp32"


def distinct_elements(shape: Iterable[int], strides: Iterable[int]) -> int:
    """Elements of memory that a view can reach: repeated ones count once.

    An expanded dimension has stride 0 and counts nothing. Windows that overlap (stride below
    size) reach no more than what lies between their first and their last element.
    """
    kept = [(n, s) for n, s in zip(shape, strides, strict=True) if s != 0 or n == 0]
    count = prod(n for n, _ in kept)
    return min(count, 1 + sum((n - 1) * s for n, s in kept)) if count else 0


def union_length(intervals: Iterable[tuple[int, int]]) -> int:
    """Elements in the union of (offset, count) intervals of one memory.

    Views of a parameter, of which each op may read another, then count once, and parameters that
    share one flat memory count each.
    """
    total, end = 0, 0
    for offset, count in sorted(intervals):
        total += max(0, offset + count - max(end, offset))
        end = max(end, offset + count)
    return total


def count_parameters(
    tensors: Iterable[Tensor], number: Callable[[int, Tensor], tuple[int, int]]
) -> int:
    """Number of parameters: distinct elements of weights, a tied weight once, no buffers.

    Args:
        tensors: All of a workload.
        number: From index and tensor to its offset and its distinct elements.
    """
    seen: dict[int, set[tuple[int, int]]] = {}
    copies: dict[int, int] = {}
    for index, t in enumerate(tensors):
        if t.role is Role.WEIGHT:
            seen.setdefault(t.storage, set()).add(number(index, t))
            copies[t.storage] = max(t.copies, copies.get(t.storage, 0))
    return sum(union_length(found) * copies[s] for s, found in seen.items())


def mention_unread(workload: Workload) -> Workload:
    """The workload with a sentence on the parameters that no op reads, where there are any."""
    read = {workload.tensors[i].storage for op in workload.ops for i in op.inputs}
    weights = [t for t in workload.tensors if t.role is Role.WEIGHT]
    unread = [t for t in weights if t.storage not in read]
    if not unread:
        return workload
    missing, total = count_parameters(unread, _fixed), count_parameters(weights, _fixed)
    names = list(dict.fromkeys(t.name for t in unread if t.name))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    sentence = (
        f"no op reads {missing:,} of {total:,} parameters ({', '.join(names[:_SHOWN])}{more}): "
        "they take memory and no time."
    )
    return replace(workload, assumptions=(*workload.assumptions, sentence))


def _fixed(_: int, t: Tensor) -> tuple[int, int]:
    """Weights do not depend on the sizes of a run: their numbers are plain."""
    elements = prod(int(d) for d in t.shape) if t.elements is None else int(t.elements)
    return int(t.offset), elements
