"""What compilers keep in on-chip memory: intermediates that pass from kernel to kernel as tiles.

The form that was found on Hexagon processors (measured latencies of AI Hub models): of a kernel's
intermediate inputs and outputs, what exceeds a fixed allowance crosses the memory interface; model
inputs, outputs and weights always do. Attention scores are tiled and never leave the chip.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gambrel.analysis.fusion.kernel import Kernel
from gambrel.analysis.fusion.program import WORLD, Program, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """On-chip memory between kernels.

    Attributes:
        group_bytes: Intermediate bytes of one execution of a kernel that stay on chip.
        free_scores: Attention scores stay there whatever their size.
    """

    group_bytes: int
    free_scores: bool = False


def kept_on_chip(
    kernels: Iterable[Kernel], flow: Program, allowance: Allowance
) -> tuple[Kernel, ...]:
    """The kernels with the traffic that on-chip memory leaves.

    Args:
        kernels: With the traffic of kernels that keep nothing.
        flow: The dataflow of all ops.
        allowance: What stays on chip.
    """
    scores = _scores(flow) if allowance.free_scores else frozenset()
    return tuple(_kept(kernel, flow, allowance, scores) for kernel in kernels)


def inner_bytes(kernel: Kernel, flow: Program) -> int:
    """Bytes of one execution that pass from kernel to kernel, read and written; rounded up."""
    steps, repeat = flow.steps, kernel.repeat
    reads = (_inner_read(steps[i], n, repeat) for i, n in kernel.op_read_bytes.items())
    writes = (_inner_write(steps[i], n) for i, n in kernel.op_write_bytes.items())
    return -(-(sum(reads) + sum(writes)) // repeat)


def _kept(kernel: Kernel, flow: Program, allowance: Allowance, scores: frozenset[int]) -> Kernel:
    steps, repeat = flow.steps, kernel.repeat
    reads = {i: _inner_read(steps[i], n, repeat) for i, n in kernel.op_read_bytes.items()}
    writes = {i: _inner_write(steps[i], n) for i, n in kernel.op_write_bytes.items()}
    free = scores.intersection(kernel.ops)
    inner = sum(n for i, n in (*reads.items(), *writes.items()) if i not in free)
    kept = allowance.group_bytes * kernel.repeat
    left = max(0, inner - kept) / inner if inner else 0.0

    def remaining(whole: dict[int, int], own: dict[int, int]) -> dict[int, int]:
        shares = {i: 0.0 if i in free else left for i in whole}
        return {i: round(n - own[i] * (1 - shares[i])) for i, n in whole.items()}

    return replace(
        kernel,
        op_read_bytes=remaining(dict(kernel.op_read_bytes), reads),
        op_write_bytes=remaining(dict(kernel.op_write_bytes), writes),
    )


def _inner_read(step: Step, counted: int, repeat: int) -> int:
    """Of the bytes that an op reads, those that another op of the run wrote."""
    outside = sum(r.nbytes for r in step.reads if WORLD in r.writers) * repeat
    return max(0, counted - outside)


def _inner_write(step: Step, counted: int) -> int:
    """Of the bytes that an op writes, those that do not outlive the run."""
    return 0 if WORLD in step.users else counted


def _scores(flow: Program) -> frozenset[int]:
    """Softmaxes between two matmuls, and what else touches nothing but their scores."""
    found: set[int] = set()
    for index, step in flow.steps.items():
        if step.view.kind != "softmax":
            continue
        users = [flow.steps[u].view.kind for u in step.users if u in flow.steps]
        if "matmul" in users:
            found.add(index)
    return frozenset(found)
