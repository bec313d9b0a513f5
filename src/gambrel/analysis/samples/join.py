"""Measured kernels under a predicted workload: which op each kernel is, and how the times compare.

Kernels meet ops by what they do: the kind that their name tells and the FLOP of one launch. Ops of
the same kind and work cannot be told apart by that, and are one row. What is left of a kind is
compared as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import msgspec

from gambrel.analysis.measures import State
from gambrel.analysis.result import Analysis, OpResult
from gambrel.analysis.samples.place import Placed, Standing

#: FLOP of a launch may differ by this much from the op's: kernels pad to whole tiles.
_TOLERANCE: Final = 0.05
#: What a name of an op or a kernel tells about its kind, first match.
_KINDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"conv_?depthwise|conv|wgrad|dgrad|fprop|winograd|implicit_gemm", ("convolution",)),
    (r"attention|flash|fmha|sdpa", ("attention",)),
    (r"softmax", ("softmax",)),
    (r"batch_?norm|bn_fw|bn_bw|layer_?norm|group_?norm|rms_?norm|_norm", ("normalization",)),
    (r"pool", ("pooling",)),
    (r"embedding|index_select|gather", ("embedding", "gather")),
    (r"addmm|bmm|\bmm\b|::mm|matmul|linear|gemm|cutlass|xmma|gemv|cublas|_mm\b", ("matmul",)),
    (r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter", ("collective",)),
    (r"adam|sgd|optimizer", ("optimizer",)),
    (r"copy|cat\b|Cat|memcpy|transpose|permute|contiguous", ("copy", "movement", "concat")),
    (r"reduce|mean|sum|argmax|amax", ("reduction",)),
    (r"elementwise|relu|gelu|silu|sigmoid|tanh|add|mul|div|sub|pow|exp", ("elementwise",)),
)
_COMPILED: Final = tuple((re.compile(p, re.IGNORECASE), kinds) for p, kinds in _KINDS)


class JoinedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Ops that cannot be told apart by their work, and the kernels that ran them; for one run.

    Attributes:
        name: Of the first op, with the number of the others.
        kind: Neutral kind.
        count: Executions of the ops in one run.
        launches: Measured launches, all runs.
        how: ``work`` (same kind and FLOP) or ``kind`` (what is left of a kind, as a whole).
        flops: Predicted work.
        traffic_bytes: Predicted compulsory traffic.
        roofline_time_s: Predicted bound; None when unknown.
        expected_time_s: Predicted time; None when unknown.
        measured_time_s: Measured time of one run.
        ratio: Measured by expected time, by the bound where none is expected.
        kernels: Names of the kernels, the one with most time first.
    """

    name: str
    kind: str
    count: int
    launches: int
    how: str
    flops: int
    traffic_bytes: int
    roofline_time_s: float | None
    expected_time_s: float | None
    measured_time_s: float
    ratio: float | None
    kernels: tuple[str, ...]


class JoinedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A measured run under its prediction.

    Attributes:
        model: Name of the model.
        runs: Runs of the model that the recording holds, by the launches of joined kernels.
        rows: The most measured time first.
        coverage_time: Share of the measured time that found an op.
        coverage_work: The same with kernels that met an op of the same work only.
        coverage_ops: Share of the predicted roofline time that found a kernel.
        measured_time_s: Of one run, all kernels.
        left_kernels: Kernels that met no op, with the seconds of one run, most first.
        left_ops: Ops that met no kernel, with their bound, most first.
        notes: What a reader must know.
    """

    model: str
    runs: float
    rows: tuple[JoinedRow, ...]
    coverage_time: float
    coverage_work: float
    coverage_ops: float
    measured_time_s: float
    left_kernels: dict[str, float]
    left_ops: dict[str, float]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Class:
    """Ops of one kind and one amount of work, and the kernels that met them."""

    kind: str
    flops: float
    ops: list[OpResult] = field(default_factory=list)
    kernels: list[Placed] = field(default_factory=list)
    how: str = "work"

    @property
    def count(self) -> int:
        return sum(op.count for op in self.ops)


def kinds_of(name: str) -> tuple[str, ...]:
    """The kinds that a name of an op or a kernel can be; empty where it tells none."""
    return next((kinds for pattern, kinds in _COMPILED if pattern.search(name)), ())


def join(standing: Standing, analysis: Analysis) -> JoinedRun:
    """Holds measured kernels against the ops of a model.

    Args:
        standing: Measured kernels.
        analysis: The model, on the same device, at the same sizes.
    """
    classes = _classes(analysis.ops)
    left = [k for k in standing.kernels if not _meets(k, classes)]
    rest = _rest(classes)
    left = [k for k in left if not _joins_rest(k, rest)]
    used = [c for c in (*classes, *rest) if c.kernels]
    runs = _runs(classes)
    return _result(standing, analysis, used, left, runs)


def op_times(standing: Standing, analysis: Analysis) -> tuple[float | None, ...]:
    """The measured seconds of each op in one run; None where no kernel is known to be its own.

    Ops of the same kind and work share what their kernels took equally. Kernels that are known by
    their kind alone say nothing about one op.
    """
    classes = _classes(analysis.ops)
    for kernel in standing.kernels:
        _meets(kernel, classes)
    runs = _runs(classes)
    known: dict[int, float] = {}
    for c in classes:
        if c.kernels:
            each = sum(k.sample.time_s or 0.0 for k in c.kernels) / (runs * c.count)
            known |= {id(op): each * op.count for op in c.ops}
    return tuple(known.get(id(op)) for op in analysis.ops)


def _classes(ops: Sequence[OpResult]) -> list[_Class]:
    found: dict[tuple[str, int], _Class] = {}
    for op in ops:
        if op.state is State.COUNTED:
            each = op.measures.flops / max(op.count, 1)
            found.setdefault((op.kind, round(each)), _Class(op.kind, each)).ops.append(op)
    return list(found.values())


def _meets(kernel: Placed, classes: Sequence[_Class]) -> bool:
    """Puts a kernel to the ops of its kind with the nearest work, if that is near enough."""
    s = kernel.sample
    if not s.flops or not s.count:
        return False
    each, kinds = s.flops / s.count, _kinds(kernel)
    near = [
        (abs(each - c.flops) / c.flops, c)
        for c in classes
        if c.flops and (c.kind in kinds if kinds else c.kind in _HEAVY)
    ]
    best = min(near, key=lambda pair: pair[0], default=None)
    if best is None or best[0] > _TOLERANCE:
        return False
    best[1].kernels.append(kernel)
    return True


#: Kinds with so much work that it alone tells the op.
_HEAVY: Final = frozenset({"matmul", "convolution", "attention"})


def _kinds(kernel: Placed) -> tuple[str, ...]:
    s = kernel.sample
    kinds = (kinds_of(s.group) if s.group.startswith("aten::") else ()) or kinds_of(s.name)
    # Libraries run convolutions as products, and frameworks products as convolutions of side 1.
    return (*kinds, "convolution") if kinds == ("matmul",) else kinds


def _rest(classes: Sequence[_Class]) -> list[_Class]:
    found: dict[str, _Class] = {}
    for c in classes:
        if not c.kernels:
            rest = found.setdefault(c.kind, _Class(c.kind, 0.0, how="kind"))
            rest.ops.extend(c.ops)
    return list(found.values())


def _joins_rest(kernel: Placed, rest: Sequence[_Class]) -> bool:
    kinds = _kinds(kernel)
    found = next((c for c in rest if c.kind in kinds), None)
    if found is not None:
        found.kernels.append(kernel)
    return found is not None


def _runs(classes: Sequence[_Class]) -> float:
    """How often the model ran, by the classes that met kernels of the same work."""
    found = [
        sum(k.sample.count for k in c.kernels) / c.count for c in classes if c.kernels and c.count
    ]
    return float(max(round(median(found)), 1)) if found else 1.0


def _row(c: _Class, runs: float) -> JoinedRow:
    kernels = sorted(c.kernels, key=lambda k: -(k.sample.time_s or 0.0))
    measured = sum(k.sample.time_s or 0.0 for k in kernels) / runs
    bound = _sum(c.ops, lambda op: op.measures.roofline_time_s)
    expected = _sum(c.ops, lambda op: getattr(op.measures.expected_time_s, "value", None))
    against = expected or bound
    more = f" (+{len(c.ops) - 1} alike)" if len(c.ops) > 1 else ""
    return JoinedRow(
        name=c.ops[0].name + more if c.how == "work" else f"other {c.kind} ({len(c.ops)} ops)",
        kind=c.kind,
        count=c.count,
        launches=sum(k.sample.count for k in kernels),
        how=c.how,
        flops=sum(op.measures.flops for op in c.ops),
        traffic_bytes=sum(op.measures.traffic_bytes for op in c.ops),
        roofline_time_s=bound,
        expected_time_s=expected,
        measured_time_s=measured,
        ratio=measured / against if against else None,
        kernels=tuple(dict.fromkeys(k.sample.name for k in kernels)),
    )


def _sum(ops: Sequence[OpResult], get: Callable[[OpResult], float | None]) -> float | None:
    values = [get(op) for op in ops]
    return None if None in values else sum(v for v in values if v is not None)


def _result(
    standing: Standing,
    analysis: Analysis,
    used: Sequence[_Class],
    left: Sequence[Placed],
    runs: float,
) -> JoinedRun:
    whole = sum(k.sample.time_s or 0.0 for k in standing.kernels)
    rows = sorted((_row(c, runs) for c in used), key=lambda r: -r.measured_time_s)
    met = {id(op) for c in used for op in c.ops}
    bounds = {id(op): op.measures.roofline_time_s or 0.0 for op in analysis.ops}
    total = sum(bounds.values())
    unmet = sorted((op for op in analysis.ops if id(op) not in met), key=lambda op: -bounds[id(op)])
    by_work = sum(r.measured_time_s for r in rows if r.how == "work") * runs
    return JoinedRun(
        model=analysis.model.name,
        runs=runs,
        rows=tuple(rows),
        coverage_time=sum(r.measured_time_s for r in rows) * runs / whole if whole else 0.0,
        coverage_work=by_work / whole if whole else 0.0,
        coverage_ops=sum(bounds[i] for i in met if i in bounds) / total if total else 0.0,
        measured_time_s=whole / runs,
        left_kernels={
            k.sample.name: (k.sample.time_s or 0.0) / runs
            for k in sorted(left, key=lambda k: k.sample.time_s or 0.0)[::-1]
        },
        left_ops={op.name: bounds[id(op)] for op in unmet},
        notes=_notes(standing, analysis, runs),
    )


def _notes(standing: Standing, analysis: Analysis, runs: float) -> tuple[str, ...]:
    found = [f"times are of one run; the recording holds {runs:g}, by its launches"]
    if standing.device is not None and standing.device.id != analysis.hardware.id:
        found.append(
            f"predicted for {analysis.hardware.name}, measured roofs of {standing.device.name}"
        )
    return tuple(found)
