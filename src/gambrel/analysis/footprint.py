"""How much memory a workload needs at once: weights plus live intermediates."""

from __future__ import annotations

import math
from collections import defaultdict

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.result import Footprint
from gambrel.workload import Op, Role, Workload

#: Role → part of the footprint. Everything else is an activation.
_PARTS = {
    Role.WEIGHT: "weights",
    Role.BUFFER: "weights",
    Role.CONSTANT: "weights",
    Role.KV_CACHE: "kv_cache",
    Role.STATE: "kv_cache",
    Role.GRADIENT: "gradients",
    Role.OPTIMIZER_STATE: "optimizer",
}


def footprint(workload: Workload, evaluator: Evaluator, capacity_bytes: int | None) -> Footprint:
    """Peak memory by liveness.

    A storage is live from the op that first writes it to the last op that touches it or a view of
    it, so a skip connection stays live across its block. Weights, caches, gradients and optimizer
    states are live throughout; so are the model's inputs (the caller holds them) and, once
    written, its outputs. Allocator rounding and library workspace are not included.

    Args:
        workload: The model.
        evaluator: Bound to the sizes and precision in question.
        capacity_bytes: Of the device; None when unknown.
    """
    sizes = evaluator.storage_bytes()
    part_of = _parts(workload)
    totals: dict[str, float] = defaultdict(float)
    for storage, part in part_of.items():
        totals[part] += sizes[storage]
    peak, peak_op = _peak_activations(workload, sizes, part_of)
    result = Footprint(
        weights_bytes=math.ceil(totals["weights"]),
        activations_bytes=math.ceil(peak),
        kv_cache_bytes=math.ceil(totals["kv_cache"]),
        gradients_bytes=math.ceil(totals["gradients"]),
        optimizer_bytes=math.ceil(totals["optimizer"]),
        peak_op=peak_op,
        capacity_bytes=capacity_bytes,
    )
    if capacity_bytes is None:
        return result
    return _replace_fits(result, result.total_bytes <= capacity_bytes)


def parameter_count(workload: Workload, evaluator: Evaluator) -> int:
    """Number of parameters: distinct weight storages, a tied weight once, buffers left out."""
    largest: dict[int, int] = {}
    for index, t in enumerate(workload.tensors):
        if t.role is Role.WEIGHT:
            elements = evaluator.tensor(index).elements
            largest[t.storage] = max(elements, largest.get(t.storage, 0))
    return sum(largest.values())


def _parts(workload: Workload) -> dict[int, str]:
    parts: dict[int, str] = {}
    for t in workload.tensors:
        if t.role in _PARTS:
            parts[t.storage] = _PARTS[t.role]
    return parts


def _peak_activations(
    workload: Workload, sizes: dict[int, float], part_of: dict[int, str]
) -> tuple[float, str]:
    tensors = workload.tensors
    forever = {tensors[i].storage for i in workload.outputs}
    held = {t.storage for t in tensors if t.role is Role.INPUT}
    last_use: dict[int, int] = {}
    for position, op in enumerate(workload.ops):
        for i in (*op.inputs, *op.outputs):
            last_use[tensors[i].storage] = position
    live = sum(sizes[s] for s in held if s not in part_of)
    alive = set(held)
    peak, peak_op = live, ""
    for position, op in enumerate(workload.ops):
        touched = {tensors[i].storage for i in (*op.inputs, *op.outputs)} - part_of.keys()
        new = touched - alive
        live += sum(sizes[s] for s in new)
        alive |= new
        if live > peak:
            peak, peak_op = live, _name(op)
        for storage in touched - forever - held:
            if last_use[storage] == position:
                live -= sizes[storage]
                alive.discard(storage)
    return peak, peak_op


def _name(op: Op) -> str:
    return f"{op.module or '(top)'} {op.name or op.kind}"


def _replace_fits(result: Footprint, fits: bool) -> Footprint:
    import msgspec

    return msgspec.structs.replace(result, fits=fits)
