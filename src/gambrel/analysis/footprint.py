"""How much memory a workload needs at once, and what it is needed for."""

from __future__ import annotations

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.liveness import lifetimes, live_bytes, peak_index
from gambrel.analysis.needs import Footprint
from gambrel.workload import Op, Tensor, Workload
from gambrel.workload.parameters import count_parameters


def footprint(workload: Workload, evaluator: Evaluator, capacity_bytes: int | None) -> Footprint:
    """Peak memory by liveness: the parts add up to what is alive at the worst op.

    Parts that are not needed at the same time do not add: activations are largest before
    gradients are complete. `gambrel.analysis.liveness.lifetimes` says what is alive when.
    Allocator rounding and library workspace are not included.

    Args:
        workload: The model.
        evaluator: Bound to the sizes and precision in question.
        capacity_bytes: Of the device; None when unknown.
    """
    live = live_bytes(lifetimes(workload, evaluator), len(workload.ops))
    worst = peak_index(live)
    parts = {f"{part}_bytes": row[worst] for part, row in live.items()}
    return Footprint(
        **parts,
        peak_op=op_name(workload.ops[worst]) if workload.ops else "",
        capacity_bytes=capacity_bytes,
        fits=None if capacity_bytes is None else sum(parts.values()) <= capacity_bytes,
    )


def parameter_count(workload: Workload, evaluator: Evaluator) -> int:
    """Number of parameters; see `gambrel.workload.parameters.count_parameters`."""

    def number(index: int, t: Tensor) -> tuple[int, int]:
        return evaluator.dim(t.offset), evaluator.tensor(index).elements

    return count_parameters(workload.tensors, number)


def op_name(op: Op) -> str:
    """Module path and the framework's op, for a reader."""
    return f"{op.module or '(top)'} {op.name or op.kind}"
