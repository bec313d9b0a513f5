"""Parameters of a workload: how many there are, and those that no op reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from msgspec.structs import replace

from gambrel.workload.model import Role, Tensor, Workload

#: Names of unread parameters that the sentence shows.
_SHOWN = 2


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
