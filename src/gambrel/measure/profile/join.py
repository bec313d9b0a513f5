"""Which profiled call is which captured op: by name and order, as pure functions.

A framework's call may contain others (``linear`` contains ``addmm``). The captured ops are on one
of these levels. Walking down from the top, the first call whose name is that of a captured op
stands for it with everything inside. What remains are two sequences of names that are equal when
the run did what the capture says; where they differ, a longest common subsequence is matched and
the rest is reported, on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that a profiler saw.

    Attributes:
        name: Without namespace and overload, e.g. ``"addmm"``.
        time_s: Inclusive: of the call and everything inside; on a GPU of the kernels it started.
        children: Calls made inside, in order.
    """

    name: str
    time_s: float
    children: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The calls of one step and the ops that they are.

    Attributes:
        times_s: Seconds of each op; None where no call was found for it.
        unmatched: Name and seconds of calls that look like an op and are none of the capture's.
        other_s: Seconds of all other calls (views, allocation) outside matched ones.
    """

    times_s: tuple[float | None, ...]
    unmatched: tuple[tuple[str, float], ...]
    other_s: float


def short_name(name: str) -> str:
    """``"aten::add_"``, ``"aten.add_"`` and ``"aten.add.Tensor"`` → ``"add"``.

    Whether an op writes in place is a detail of the kernel that ran, not of its place in the order.
    """
    text = name.rpartition("::")[2]
    parts = text.split(".")
    short = parts[1] if "::" not in name and len(parts) > 1 else parts[0]
    return short.rstrip("_") or short


def join(calls: Sequence[Call], ops: Sequence[str]) -> Joined:
    """Finds the time of each op.

    Args:
        calls: The outermost calls of one step, in order.
        ops: Names of the captured ops, short, in order.
    """
    found = list(_frontier(calls, set(ops)))
    times: list[float | None] = [None] * len(ops)
    matched = [False] * len(found)
    for at, to in matches(tuple(f.call.name for f in found), tuple(ops)):
        times[to] = found[at].time_s
        matched[at] = True
    unmatched = tuple(
        (f.call.name, f.time_s) for f, known in zip(found, matched, strict=True) if not known
    )
    attributed = sum(f.time_s for f in found)
    whole = sum(call.time_s for call in calls)
    return Joined(times_s=tuple(times), unmatched=unmatched, other_s=max(0.0, whole - attributed))


@dataclass(frozen=True, slots=True)
class _Found:
    call: Call
    time_s: float


def _frontier(calls: Sequence[Call], names: Set[str]) -> Iterator[_Found]:
    """The outermost calls that are named like an op, with the wrappers that hold only them.

    What a wrapper does besides (checking arguments, making views) is part of what the op costs.
    """
    for call in calls:
        if call.name in names:
            yield _Found(call, call.time_s)
            continue
        inside = list(_frontier(call.children, names))
        if len(inside) == 1:
            yield _Found(inside[0].call, call.time_s)
        else:
            yield from inside


#: Larger differences are aligned by a heuristic: the exact way takes time and memory of n · m.
_EXACT = 4_000_000


@lru_cache(maxsize=64)  # the steps of one run are alike
def matches(calls: tuple[str, ...], ops: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of positions with equal names, in order, as many as there can be."""
    head = 0
    while head < min(len(calls), len(ops)) and calls[head] == ops[head]:
        head += 1
    tail = 0
    while tail < min(len(calls), len(ops)) - head and calls[-1 - tail] == ops[-1 - tail]:
        tail += 1
    left, right = calls[head : len(calls) - tail], ops[head : len(ops) - tail]
    find = _longest_common if len(left) * len(right) <= _EXACT else _heuristic
    pairs = [(i, i) for i in range(head)]
    pairs += [(head + i, head + j) for i, j in find(left, right)]
    pairs += [(len(calls) - i, len(ops) - i) for i in range(tail, 0, -1)]
    return tuple(pairs)


def _longest_common(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A longest common subsequence, the earliest pairs where there are several."""
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(right) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if left[i] == right[j] else max(below[j], row[j + 1])
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1


def _heuristic(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, int]]:
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        yield from ((block.a + i, block.b + i) for i in range(block.size))
