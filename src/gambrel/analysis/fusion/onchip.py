"""What compilers keep in on-chip memory: intermediates that pass from kernel to kernel as tiles.

The form that was found on Hexagon processors (measured latencies of AI Hub models): of a kernel's
intermediate inputs and outputs, what exceeds a fixed allowance crosses the memory interface; model
inputs, outputs and weights always do. Attention scores are tiled and never leave the chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gambrel.analysis.fusion.kernel import Kernel
from gambrel.analysis.fusion.program import WORLD, Program, ProgramStep
from gambrel.ops.base import Size, rounded, total, where
from gambrel.roofline import maximum


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """On-chip memory between kernels.

    Attributes:
        group_bytes: Intermediate bytes of one execution of a kernel that stay on chip.
        free_scores: Attention scores stay there whatever their size.
    """

    group_bytes: int
    free_scores: bool = False


class Inner(NamedTuple):
    """Bytes of a kernel, all executions, that pass from kernel to kernel, by op."""

    reads: Mapping[int, Size]
    writes: Mapping[int, Size]


def kept_on_chip(
    kernels: Sequence[Kernel],
    inner: Sequence[Inner],
    scores: frozenset[int],
    allowance: Allowance,
) -> tuple[Kernel, ...]:
    """The kernels with the traffic that on-chip memory leaves.

    Args:
        kernels: With the traffic of kernels that keep nothing.
        inner: Of each kernel.
        scores: From `scores_of`.
        allowance: What stays on chip.
    """
    free = scores if allowance.free_scores else frozenset()
    pairs = zip(kernels, inner, strict=True)
    return tuple(_kept(kernel, own, allowance, free) for kernel, own in pairs)


def inner_of(kernel: Kernel, flow: Program) -> Inner:
    """What passes from kernel to kernel."""
    steps, repeat = flow.steps, kernel.repeat
    return Inner(
        reads={i: _inner_read(steps[i], n, repeat) for i, n in kernel.op_read_bytes.items()},
        writes={i: _inner_write(steps[i], n) for i, n in kernel.op_write_bytes.items()},
    )


def inner_bytes(kernel: Kernel, inner: Inner) -> int:
    """Bytes of one execution that pass from kernel to kernel, read and written; rounded up."""
    both = sum(inner.reads.values()) + sum(inner.writes.values())
    return int(-(-both // kernel.repeat))


def _kept(kernel: Kernel, own: Inner, allowance: Allowance, scores: frozenset[int]) -> Kernel:
    free = scores.intersection(kernel.ops)
    both = (*own.reads.items(), *own.writes.items())
    inner = total(n for i, n in both if i not in free)
    kept = allowance.group_bytes * kernel.repeat
    if not free and isinstance(inner, int) and not (inner and kept):
        return kernel  # nothing to keep, or nowhere
    stays = 1 - where(inner > kept, (inner - kept) / maximum(inner, 1), 0.0)

    def remaining(whole: Mapping[int, Size], own: Mapping[int, Size]) -> dict[int, Size]:
        return {i: rounded(n - own[i] * (1.0 if i in free else stays)) for i, n in whole.items()}

    return replace(
        kernel,
        op_read_bytes=remaining(kernel.op_read_bytes, own.reads),
        op_write_bytes=remaining(kernel.op_write_bytes, own.writes),
    )


def _inner_read(step: ProgramStep, counted: int, repeat: int) -> int:
    """Of the bytes that an op reads, those that another op of the run wrote."""
    outside = sum(r.nbytes for r in step.reads if WORLD in r.writers) * repeat
    return max(0, counted - outside)


def _inner_write(step: ProgramStep, counted: int) -> int:
    """Of the bytes that an op writes, those that do not outlive the run."""
    return 0 if WORLD in step.users else counted


def scores_of(flow: Program) -> frozenset[int]:
    """Softmaxes between two matmuls, and what else touches nothing but their scores."""
    found: set[int] = set()
    for index, step in flow.steps.items():
        if step.view.kind != "softmax":
            continue
        users = [flow.steps[u].view.kind for u in step.users if u in flow.steps]
        if "matmul" in users:
            found.add(index)
    return frozenset(found)
