"""Memory over the course of a run: live bytes at every op, by part, and what they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gambrel.analysis.checkpointing import Checkpointed, checkpointed
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fields import TEXT
from gambrel.analysis.footprint import all_lifetimes, op_name, workspace_notes
from gambrel.analysis.liveness import Lifetime, live_bytes
from gambrel.analysis.precision import casts_of
from gambrel.analysis.result import Analysis
from gambrel.errors import InputError
from gambrel.ops import Conventions, is_free
from gambrel.runtimes import runtimes
from gambrel.units import format_capacity
from gambrel.workload import Op, Workload
from gambrel.workload.formats import in_format

#: What every timeline rests on.
ASSUMPTIONS: Final = (
    "a tensor is freed after its last use, or when the module it was an argument of returns; "
    "local variables of the model's code may hold it longer.",
    "rounding by the allocator is not included: it is not published.",
)
#: What has memory without being a tensor of the workload, by part.
_UNSTORED: Final = {
    "activations": "indices that the op writes unasked",
    "workspace": "workspace of the kernel",
}
_TRAINING: Final = (
    "gradients of the step before are gone at its start (zero_grad); they stay from backward to "
    "the end of the step, also through the optimizer.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPoint:
    """What is alive while one op runs, byte.

    Attributes:
        op: Module path and op.
        phase: ``forward``, ``backward`` or ``optimizer``.
        weights_bytes: Parameters and buffers.
        activations_bytes: Intermediates, inputs and outputs.
        kv_cache_bytes: Caches and states.
        gradients_bytes: Gradients of parameters.
        optimizer_bytes: Optimizer states.
        workspace_bytes: What the kernel takes while it runs; 0 where that is not known.
    """

    op: str
    phase: str
    weights_bytes: int
    activations_bytes: int
    kv_cache_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    workspace_bytes: int

    @property
    def total_bytes(self) -> int:
        """Sum of all parts."""
        return (
            self.weights_bytes
            + self.activations_bytes
            + self.kv_cache_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.workspace_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTensor:
    """A piece of memory that is alive at some op.

    Attributes:
        name: Parameter or argument name; for an intermediate the op that made it.
        shape: Of the largest tensor seen in it.
        dtype: Its number format.
        part: ``weights``, ``activations``, ``kv_cache``, ``gradients``, ``optimizer`` or
            ``workspace``.
        nbytes: Its size.
        made_by: Op that brings it; empty when it is there before the run.
        last_used_by: Last op that touches it; empty when it outlives the run.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    part: str
    nbytes: int
    made_by: str = ""
    last_used_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Memory at every op of a run.

    Attributes:
        points: One an op that is not free, in execution order.
        peak_index: Index of the point with most memory, the first of equals.
        at_peak: Everything alive there, largest first.
        capacity_bytes: Of the device; None when unknown.
        checkpointed: Whether activations are recomputed in backward.
        blocks: Number of blocks that are recomputed.
        recomputed_flops: Forward work done again for it, FLOP on the matrix engine.
        assumptions: What the figures rest on.
    """

    points: tuple[MemoryPoint, ...]
    peak_index: int
    at_peak: tuple[LiveTensor, ...]
    capacity_bytes: int | None = None
    checkpointed: bool = False
    blocks: int = 0
    recomputed_flops: int = 0
    assumptions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        at = f" at {self.peak.op}" if self.peak else ""
        return f"<Timeline: {len(self.points)} ops, peak {format_capacity(self.peak_bytes)}{at}>"

    @property
    def peak(self) -> MemoryPoint | None:
        """The point with most memory; None without ops."""
        return self.points[self.peak_index] if self.points else None

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once; 0 without ops."""
        return self.points[self.peak_index].total_bytes if self.points else 0


def memory_timeline(analysis: Analysis, checkpoint: bool | str = False) -> Timeline:
    """The memory over time of what was analyzed, at its sizes and precision.

    Args:
        analysis: With its workload.
        checkpoint: Recompute activations in backward, block by block: True takes the outermost
            numbered modules as blocks; a text names them, ``*`` for one part of a module path
            (``"features.*.*"``).

    Raises:
        InputError: The analysis came without its workload, or there is nothing to checkpoint.
    """
    if analysis.workload is None:
        raise InputError("this analysis was saved without its workload: analyze the model again.")
    before = in_format(analysis.workload, analysis.model.precision)
    evaluator = _evaluator(before, analysis)
    if checkpoint is False:
        return _timeline(before, evaluator, analysis)
    blocks = None if checkpoint is True else TEXT.read(checkpoint, TEXT, "checkpoint")
    changed = checkpointed(before, blocks)
    return _timeline(changed.workload, _evaluator(changed.workload, analysis), analysis, changed)


def _evaluator(workload: Workload, analysis: Analysis) -> Evaluator:
    values: Mapping[str, int] = analysis.model.symbols
    casts = casts_of(workload, analysis.model.precision)
    return Evaluator(workload, values, casts, Conventions(**analysis.conventions))


def _timeline(
    workload: Workload,
    evaluator: Evaluator,
    analysis: Analysis,
    changed: Checkpointed | None = None,
) -> Timeline:
    ops = workload.ops
    runtime = runtimes().get(analysis.runtime)
    rules = runtime.workspace_on(analysis.hardware) if runtime else None
    found, _ = all_lifetimes(workload, evaluator, rules)
    live = live_bytes(found, len(ops))
    shown = [i for i, op in enumerate(ops) if not is_free(op.kind)]
    points = tuple(
        MemoryPoint(
            op=op_name(ops[i]),
            phase=ops[i].phase.value,
            **{f"{part}_bytes": row[i] for part, row in live.items()},
        )
        for i in shown
    )
    peak = max(range(len(points)), key=lambda i: points[i].total_bytes, default=0)
    return Timeline(
        points=points,
        peak_index=peak,
        at_peak=_alive(found, shown[peak], workload, evaluator) if points else (),
        capacity_bytes=analysis.footprint.capacity_bytes,
        checkpointed=changed is not None,
        blocks=changed.blocks if changed else 0,
        recomputed_flops=_work(changed, evaluator) if changed else 0,
        assumptions=(
            *ASSUMPTIONS,
            *workspace_notes(analysis.footprint),
            *(_TRAINING if workload.training else ()),
        ),
    )


def _alive(
    found: list[Lifetime], position: int, workload: Workload, evaluator: Evaluator
) -> tuple[LiveTensor, ...]:
    alive = [life for life in found if life.first <= position <= life.last]
    alive.sort(key=lambda life: -life.nbytes)
    return tuple(_described(life, workload, evaluator) for life in alive)


def _described(life: Lifetime, workload: Workload, evaluator: Evaluator) -> LiveTensor:
    view = evaluator.tensor(life.tensor)
    ops = workload.ops
    made_by = _name_at(ops, life.first)
    hidden, scratch = life.storage < 0, life.part == "workspace"
    name = workload.tensors[life.tensor].name or (f"output of {made_by}" if made_by else "")
    return LiveTensor(
        name=_UNSTORED.get(life.part, "") if hidden else name or "(unnamed)",
        shape=() if scratch else tuple(int(n) for n in view.shape),
        dtype="int64" if hidden and not scratch else view.dtype,
        part=life.part,
        nbytes=life.nbytes,
        made_by=made_by,
        last_used_by=_name_at(ops, life.last),
    )


def _name_at(ops: tuple[Op, ...], position: int) -> str:
    return op_name(ops[position]) if 0 <= position < len(ops) else ""


def _work(changed: Checkpointed, evaluator: Evaluator) -> int:
    """Matrix work of the ops that are done again."""
    flops = 0.0
    for index, (op, _, cost) in enumerate(evaluator.costs()):
        if cost is not None and index in changed.recomputed:
            flops += op.repeat * sum(n for (e, _), n in cost.work.items() if e.value == "matrix")
    return round(flops)
