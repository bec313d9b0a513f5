"""Which profiled call is which captured op: by name and order, as pure functions.

A framework's call may contain others (``linear`` contains ``addmm``). The captured ops are on one
of these levels. Walking down from the top, the first call whose name is that of a captured op
stands for it with everything inside. What remains are two sequences of names that are equal when
the run did what the capture says; where they differ, a longest common subsequence is matched and
the rest is reported, on both sides.

Some devices run several captured ops as one call with a name of its own (`wholes`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledCall:
    """A call that a profiler saw.

    Attributes:
        name: Without namespace and overload, e.g. ``"addmm"``.
        time_s: Inclusive: of the call and everything inside; on a GPU of the kernels it started.
        children: Calls made inside, in order.
    """

    name: str
    time_s: float
    children: tuple[ProfiledCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedCalls:
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


#: One op's names: the capture's, and those of the libraries that run it.
_SAME: Final = {
    **dict.fromkeys(
        (
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "_batch_norm_with_update",
            "_native_batch_norm_legit",
        ),
        "native_batch_norm",
    ),
    **dict.fromkeys(
        ("cudnn_batch_norm_backward", "miopen_batch_norm_backward", "batch_norm_backward"),
        "native_batch_norm_backward",
    ),
    **dict.fromkeys(
        (
            "lstm_backward",
            "gru_backward",
            "rnn_tanh_backward",
            "rnn_relu_backward",
            "_cudnn_rnn_backward",
            "miopen_rnn_backward",
            "mkldnn_rnn_layer_backward",
        ),
        "recurrent_backward",
    ),
}
_ATTENTION: Final = re.compile(r"_scaled_dot_product_\w*attention\w*_backward")
#: Calls that torch makes on a CPU in place of several captured ops. On a GPU any call may be one.
_ON_CPU: Final = frozenset({"rms_norm", "_fused_rms_norm", "_fused_rms_norm_backward"})
#: What autograd puts around a call.
_AUTOGRAD: Final = re.compile(r"evaluate_function|Backward\d+$")
#: Seconds below which times are equal.
_EQUAL_S: Final = 1e-9


def same(name: str) -> str:
    """One name for an op that devices' libraries run under their own: cuDNN's batch norm, ..."""
    if _ATTENTION.fullmatch(name):
        return "scaled_dot_product_attention_backward"
    return _SAME.get(name, name)


def join(calls: Sequence[ProfiledCall], ops: Sequence[str], *, device: bool = False) -> JoinedCalls:
    """Finds the time of each op.

    Args:
        calls: The outermost calls of one step, in order.
        ops: Names of the captured ops, short, in order.
        device: Times are those of kernels: then calls that no op is are reported whatever they
            are, because they kept the device from something else.
    """
    found, pairs = _matched(calls, ops, device)
    times: list[float | None] = [None] * len(ops)
    for at, to in pairs:
        times[to] = found[at].time_s
    known = {at for at, _ in pairs}
    unmatched = tuple((f.name, f.time_s) for i, f in enumerate(found) if i not in known)
    attributed = sum(f.time_s for f in found)
    whole = sum(call.time_s for call in calls)
    return JoinedCalls(
        times_s=tuple(times), unmatched=unmatched, other_s=max(0.0, whole - attributed)
    )


def wholes(
    calls: Sequence[ProfiledCall], ops: Sequence[str], *, device: bool = False
) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Ops that ran as one call of another name: their positions, and that name.

    Between two matched calls, ops without a call and a call without an op are the same work: an
    RMS norm that a model spells out in six ops may be one kernel.

    Args:
        calls: The outermost calls of one step, in order.
        ops: Names of the captured ops, short, in order.
        device: As for `join`.
    """
    found, pairs = _matched(calls, ops, device)
    at_calls, at_ops = {at for at, _ in pairs}, {to for _, to in pairs}
    strange: dict[int, list[_Found]] = defaultdict(list)
    lonely: dict[int, list[int]] = defaultdict(list)
    gap = 0
    for i, f in enumerate(found):
        gap += i in at_calls
        if not f.known:
            strange[gap].append(f)
    gap = 0
    for i in range(len(ops)):
        gap += i in at_ops
        if i not in at_ops:
            lonely[gap].append(i)
    return tuple(
        (tuple(positions), max(strange[gap], key=lambda f: f.time_s).name)
        for gap, positions in lonely.items()
        if strange[gap]
    )


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    time_s: float
    known: bool = True


def _matched(
    calls: Sequence[ProfiledCall], ops: Sequence[str], device: bool
) -> tuple[list[_Found], list[tuple[int, int]]]:
    """The calls that are ops or take their place, and pairs of positions of calls and ops."""
    names = tuple(map(same, ops))
    found = list(_frontier(calls, set(names), device))
    places = [i for i, f in enumerate(found) if f.known]
    pairs = matches(tuple(same(found[i].name) for i in places), names)
    return found, [(places[at], to) for at, to in pairs]


def _frontier(calls: Sequence[ProfiledCall], names: Set[str], device: bool) -> Iterator[_Found]:
    """The outermost calls that are named like an op, with the wrappers that hold only them.

    What a wrapper does besides (checking arguments, making views) is part of what the op costs.
    """
    for call in calls:
        if same(call.name) in names:
            yield _Found(call.name, call.time_s)
            continue
        inside = list(_frontier(call.children, names, device))
        ops = [f for f in inside if f.known]
        if len(ops) == 1:
            yield _Found(ops[0].name, call.time_s)
        elif ops:
            yield from inside
            left = call.time_s - sum(f.time_s for f in inside)
            if device and left > _EQUAL_S:
                yield _Found(call.name, left, known=False)
        elif call.name in _ON_CPU or (device and call.time_s > 0):
            yield _Found(_inner_name(call), call.time_s, known=False)


def _inner_name(call: ProfiledCall) -> str:
    """The name of a call below what autograd puts around it."""
    while _AUTOGRAD.search(call.name) and call.children:
        call = max(call.children, key=lambda c: c.time_s)
    return call.name


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
