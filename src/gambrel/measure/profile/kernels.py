"""Which ops a compiler's kernel runs: by the names that it gives its kernels, and by order.

torch's compiler names a fused kernel after the ops in it
(``cpp_fused_gelu_native_layer_norm_3``, ``triton_poi_fused_add_0``) and calls libraries for the
rest. The library calls are anchors: they follow each other as the captured ops do. An op between
two anchors belongs to a kernel between them that names it, else to the nearest one after them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from gambrel.analysis.result import OpResult
from gambrel.analysis.roofs import Roofs
from gambrel.measure.profile.join import JoinedCalls, ProfiledCall, matches
from gambrel.measure.profile.rows import join_name, merged

#: The kernel's own name within what the profiler says: without the graph's number.
_FUSED: Final = re.compile(r"(?:^|_)((?:cpp|triton_[a-z]+)_fused_?(.*?)(?:_(\d+))?)$")
#: Seconds below which times are equal.
_EQUAL_S: Final = 1e-9
#: How many library calls around an op's own place a kernel that names it is looked for.
_REACH: Final = 3

#: Names of one thing: the compiler's, the framework's and the library's.
_SAME: Final = {
    **dict.fromkeys(("addmm", "mm", "linear", "linear_pointwise", "mkldnn_linear"), "mm"),
    **dict.fromkeys(("baddbmm", "bmm", "matmul"), "bmm"),
    **dict.fromkeys(
        ("convolution", "conv2d", "conv1d", "conv3d", "convolution_pointwise"), "convolution"
    ),
}
#: The other way round: a template that multiplies is called ``triton_tem_fused_addmm_0``.
_OTHERS: Final = defaultdict[str, list[str]](list)
for _name, _one in _SAME.items():
    _OTHERS[_one].append(_name)


def canonical(name: str) -> str:
    """One name for all that a framework, its compiler and its libraries call the same op.

    ``"_native_batch_norm_legit_no_training"`` and ``"native_batch_norm"`` are one, so are
    ``"_softmax"`` and ``"softmax"``, ``"addmm"`` and ``"mkldnn::_linear_pointwise"``.
    """
    text = name.strip("_")
    text = re.sub(r"_legit(_no_training|_functional|_no_stats)?$", "", text)
    if "scaled_dot_product" in text:
        return "attention_backward" if "backward" in text else "attention"
    return _SAME.get(text, text)


def fused_name(name: str) -> str:
    """``"graph_0_cpp_fused_gelu_0"`` → ``"cpp_fused_gelu_0"``; empty for anything else."""
    found = _FUSED.search(name)
    return found.group(1) if found else ""


def kernels_of(calls: Sequence[ProfiledCall], ops: frozenset[str]) -> Iterator[ProfiledCall]:
    """The kernels of a step: fused ones, and calls that are named like an op.

    Args:
        calls: Of one step.
        ops: Canonical names of the captured ops.
    """
    for call in calls:
        if fused_name(call.name) or canonical(call.name) in ops:
            yield call
        else:
            yield from kernels_of(call.children, ops)


@lru_cache(maxsize=16)
def assign(kernels: tuple[str, ...], ops: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The ops of each kernel, as positions in ``ops``; an op belongs to one kernel or to none.

    Args:
        kernels: Names in the order in which they ran.
        ops: Canonical names in the order of the capture.
    """
    owned: list[list[int]] = [[] for _ in kernels]
    library = [i for i, name in enumerate(kernels) if not fused_name(name)]
    pairs = matches(tuple(canonical(kernels[i]) for i in library), ops)
    anchored = {op: library[at] for at, op in pairs}
    for op, kernel in anchored.items():
        owned[kernel].append(op)
    anchors = sorted(anchored.items())
    fused = [(i, f"_{fused_name(name)}_") for i, name in enumerate(kernels) if fused_name(name)]
    for op, name in enumerate(ops):
        if op not in anchored:
            found = _nearest(op, name, anchors, fused)
            if found is not None:
                owned[found].append(op)
    return tuple(tuple(sorted(o)) for o in owned)


def _nearest(
    op: int, name: str, anchors: Sequence[tuple[int, int]], fused: Sequence[tuple[int, str]]
) -> int | None:
    """A kernel that names the op: between its neighbours' kernels, else a little around them."""
    before = [kernel for at, kernel in anchors if at < op]
    after = [kernel for at, kernel in anchors if at > op]
    naming = [i for i, text in fused if any(f"_{n}_" in text for n in (name, *_OTHERS[name]))]
    for reach in range(1, _REACH + 1):
        low = before[-reach] if len(before) >= reach else -1
        high = after[reach - 1] if len(after) >= reach else float("inf")
        inside = [i for i in naming if low < i < high]
        if inside:
            return inside[0]
    return None


def join_kernels(
    steps: Sequence[Sequence[ProfiledCall]],
    ops: Sequence[OpResult],
    roofs: Roofs,
    *,
    device: bool = False,
) -> tuple[tuple[OpResult, ...], tuple[JoinedCalls, ...], tuple[int, ...]]:
    """One row a kernel, with its time in each step.

    Args:
        steps: The outermost calls of each step.
        ops: Rows of the analysis of the same model as a compiler runs it.
        roofs: Of the device.
        device: Times are those of kernels: what else ran on the device is reported as well.

    Returns:
        The rows: kernels in the order in which they ran, then ops that no kernel names; the times
        of each step; the positions of the steps that ran the same kernels as most.
    """
    names = tuple(canonical(join_name(op)) for op in ops)
    wanted = frozenset(names)
    found = [tuple(kernels_of(calls, wanted)) for calls in steps]
    sequences = [tuple(call.name for call in kernels) for kernels in found]
    usual = Counter(sequences).most_common(1)[0][0]
    kept = tuple(i for i, names in enumerate(sequences) if names == usual)
    owned = assign(usual, names)
    rows = [
        _row(usual[i], [ops[o] for o in members], roofs)
        for i, members in enumerate(owned)
        if members
    ]
    seen = {o for members in owned for o in members}
    rest = [op for i, op in enumerate(ops) if i not in seen]
    joined = tuple(_times(steps[i], found[i], owned, len(rest), device) for i in kept)
    return (*rows, *rest), joined, kept


def _row(name: str, parts: Sequence[OpResult], roofs: Roofs) -> OpResult:
    fused = fused_name(name)
    if len(parts) == 1 and not fused:
        return parts[0]
    return merged(parts, roofs, fused or name, "fused kernel" if len(parts) > 1 else parts[0].kind)


def _times(
    calls: Sequence[ProfiledCall],
    kernels: Sequence[ProfiledCall],
    owned: Sequence[Sequence[int]],
    without: int,
    device: bool,
) -> JoinedCalls:
    times = tuple(k.time_s for k, members in zip(kernels, owned, strict=True) if members)
    unmatched = tuple(
        (fused_name(k.name) or k.name, k.time_s)
        for k, members in zip(kernels, owned, strict=True)
        if not members
    )
    other = max(0.0, sum(call.time_s for call in calls) - sum(k.time_s for k in kernels))
    if device and other > _EQUAL_S:
        unmatched, other = (*unmatched, ("other kernels", other)), 0.0
    return JoinedCalls(times_s=(*times, *[None] * without), unmatched=unmatched, other_s=other)
