"""How much memory a workload needs at once, and what it is needed for."""

from __future__ import annotations

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.liveness import Lifetime, lifetimes, live_bytes, peak_bytes, peak_index
from gambrel.analysis.needs import Footprint
from gambrel.analysis.workspace import workspaces
from gambrel.ops.base import Size
from gambrel.runtimes import Workspace
from gambrel.workload import Op, Tensor, Workload
from gambrel.workload.parameters import count_parameters


def footprint(
    workload: Workload,
    evaluator: Evaluator,
    capacity_bytes: int | None,
    rules: Workspace | None = None,
) -> Footprint:
    """Peak memory by liveness: the parts add up to what is alive at the worst op.

    Parts that are not needed at the same time do not add: activations are largest before
    gradients are complete. `gambrel.analysis.liveness.lifetimes` says what is alive when.
    Allocator rounding is not included; what kernels take while they run is, where the runtime has
    rules for it on the device.

    Args:
        workload: The model.
        evaluator: Bound to the sizes and precision in question.
        capacity_bytes: Of the device; None when unknown.
        rules: `gambrel.runtimes.Runtime.workspace_on` of the device.
    """
    found, unknown = all_lifetimes(workload, evaluator, rules)
    live = live_bytes(found, len(workload.ops))
    worst = peak_index(live)
    scratch = live.pop("workspace")[worst]
    parts = {f"{part}_bytes": row[worst] for part, row in live.items()}
    return Footprint(
        **parts,
        workspace_bytes=None if rules is None else scratch,
        workspace_unknown=unknown,
        peak_op=op_name(workload.ops[worst]) if workload.ops else "",
        fits=None,
    ).within(capacity_bytes)


def peak_memory(workload: Workload, evaluator: Evaluator) -> Size:
    """Bytes needed at once at each point of a sweep, without the workspace of kernels.

    Args:
        workload: The model.
        evaluator: Bound to a precision and to sizes, which may be arrays.
    """
    return peak_bytes(lifetimes(workload, evaluator), len(workload.ops))


def all_lifetimes(
    workload: Workload, evaluator: Evaluator, rules: Workspace | None
) -> tuple[list[Lifetime], tuple[str, ...]]:
    """Lifetimes of storages and, where there are rules, of workspace; kinds of ops without one."""
    stored = lifetimes(workload, evaluator)
    if rules is None:
        return stored, ()
    scratch, unknown = workspaces(workload, evaluator, rules)
    return stored + scratch, unknown


def workspace_notes(found: Footprint) -> tuple[str, ...]:
    """Sentences on kernels whose workspace the memory leaves out; none where it is all in."""
    if found.workspace_bytes is None:
        return ("memory does not include library workspace, which is unknown here.",)
    if not found.workspace_unknown:
        return ()
    kinds = ", ".join(kind.replace("_", " ") for kind in found.workspace_unknown)
    return (f"memory does not include the library workspace of some ops: {kinds}.",)


def parameter_count(workload: Workload, evaluator: Evaluator) -> int:
    """Number of parameters; see `gambrel.workload.parameters.count_parameters`."""

    def number(index: int, t: Tensor) -> tuple[int, int]:
        return evaluator.dim(t.offset), evaluator.tensor(index).elements

    return count_parameters(workload.tensors, number)


def op_name(op: Op) -> str:
    """Module path and the framework's op, for a reader."""
    return f"{op.module or '(top)'} {op.name or op.kind}"
