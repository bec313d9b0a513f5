"""What no runtime can avoid: work without what compilers fold away, traffic that must cross.

It depends on sizes and number format alone, so that tables under different runtimes share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec.structs import replace

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.plan import has_blocks, in_mxfp4, rounded
from gambrel.analysis.traffic import IdealTraffic, OffChip
from gambrel.ops import Cost, OpView, is_free
from gambrel.ops.base import Engine, Size, distinct_bytes
from gambrel.workload import PERSISTENT, Op, Role, Tensor, Workload, once

#: Vector work that compilers fold into weights, or that no longer exists after folding.
_FOLDED = "batch_norm"


class SolPart(msgspec.Struct, frozen=True, kw_only=True):
    """Work and traffic that no runtime can avoid.

    Attributes:
        name: Of the part of a pipeline; empty for a model that is one part.
        passes: How often the part runs, each pass after the one before (denoising steps).
        work: (class of work, number format, prunable) and FLOP of all passes, without what
            compilers fold away.
        traffic_bytes: Bytes of one pass: weights once, inputs, outputs, caches, states.
        link_bytes: Bytes that a device sends to others, all passes.
        network_bytes: Bytes between nodes, all passes.
    """

    name: str
    passes: int
    work: Mapping[tuple[str, str, bool], Size]
    traffic_bytes: Size
    link_bytes: Size = 0
    network_bytes: Size = 0


class _SolSums(msgspec.Struct):
    passes: int = 0
    work: dict[tuple[str, str, bool], Size] = msgspec.field(default_factory=dict)
    traffic_bytes: Size = 0
    link_bytes: Size = 0
    network_bytes: Size = 0

    def part(self, name: str) -> SolPart:
        """What was summed up."""
        return SolPart(
            name=name,
            passes=max(1, self.passes),
            work=self.work,
            traffic_bytes=self.traffic_bytes,
            link_bytes=self.link_bytes,
            network_bytes=self.network_bytes,
        )


class Compulsory(msgspec.Struct, frozen=True, kw_only=True):
    """What no runtime can avoid.

    Attributes:
        sol_bytes: Of each op, compulsory bytes that it is the first to touch, all executions; 0
            for ops that are free or have no formula.
        parts: Sums, for each part whose passes depend on each other.
        off_chip: What crosses the host link of a device that lives off it; None for any other.
        free: Number of free ops.
        known_bytes: Bytes of the ops with a formula, each as a kernel of its own.
        unknown_bytes: Bytes of the operands of those without.
    """

    sol_bytes: tuple[Size, ...]
    parts: tuple[SolPart, ...]
    off_chip: OffChip | None
    free: int
    known_bytes: Size
    unknown_bytes: Size


def compulsory(
    workload: Workload, evaluator: Evaluator, resident_bytes: int | None = None
) -> Compulsory:
    """Adds up what no runtime can avoid.

    Args:
        workload: The model.
        evaluator: Bound to sizes and a precision.
        resident_bytes: On-chip memory of a device that lives off its host link; None for others.
    """
    ideal, off_chip = IdealTraffic(workload), None
    if resident_bytes is not None:
        off_chip = OffChip(workload, weights_bytes(workload, evaluator), resident_bytes)
    found: list[Size] = []
    parts: dict[str, _SolSums] = {}
    free, known, unknown = 0, 0, 0
    unread = unread_ops(workload)
    composed = _is_composed(workload)
    for index, (op, view, cost) in enumerate(evaluator.priced):
        own: Size = 0
        if is_free(op.kind):
            free += 1
        elif cost is None:
            unknown = unknown + distinct_bytes(view.inputs) + distinct_bytes(view.outputs)
        else:
            known = known + cost.read_bytes + cost.write_bytes
            if index in unread:
                found.append(0)
                continue
            if off_chip is None:
                own = ideal.see(view, cost)
            else:
                crossed = off_chip(view, cost)
                own = (crossed.read_bytes + crossed.write_bytes) * op.repeat
            name = op.module.partition(":")[0] if composed else ""
            _sum_up(parts.setdefault(name, _SolSums()), op, fastest_way(view, cost), own)
            if composed:
                parts[name].passes = _fewest(parts[name].passes, _passes(op, workload.tensors))
        found.append(own)
    return Compulsory(
        sol_bytes=tuple(found),
        parts=tuple(sums.part(name) for name, sums in parts.items()),
        off_chip=off_chip,
        free=free,
        known_bytes=known,
        unknown_bytes=unknown,
    )


@once
def unread_ops(workload: Workload) -> frozenset[int]:
    """Ops whose results nobody reads, which compilers leave out; none where outputs are unknown."""
    if not workload.outputs:
        return frozenset()
    tensors = workload.tensors
    needed = {t.storage for t in tensors if t.role in PERSISTENT}
    needed.update(tensors[i].storage for i in workload.outputs)
    unread = []
    for index in range(len(workload.ops) - 1, -1, -1):
        op = workload.ops[index]
        if op.outputs and needed.isdisjoint(tensors[i].storage for i in op.outputs):
            unread.append(index)
        else:
            needed.update(tensors[i].storage for i in op.inputs)
    return frozenset(unread)


@once
def _is_composed(workload: Workload) -> bool:
    """Whether models run one after another, which leads every path by ``"<part>:"``.

    A module of a single model may have a colon in its name; then other paths have none.
    """
    return all(":" in op.module for op in workload.ops)


def _sum_up(sums: _SolSums, op: Op, cost: Cost, own: Size) -> None:
    sums.traffic_bytes = sums.traffic_bytes + own
    link, network = least_sent(cost)
    sums.link_bytes = sums.link_bytes + link * op.repeat
    sums.network_bytes = sums.network_bytes + network * op.repeat
    if not _folds_away(op):
        add_work(sums.work, cost, op.repeat)


def _passes(op: Op, tensors: tuple[Tensor, ...]) -> int:
    """How often an op with weights of its own reads them; 0 for other ops."""
    copies = [tensors[i].copies for i in op.inputs if tensors[i].role is Role.WEIGHT]
    return op.repeat // max(copies) if copies else 0


def fastest_way(view: OpView, cost: Cost) -> Cost:
    """The cost in the fastest arithmetic that a format of weights admits.

    Such a format leaves open what activations are rounded to: llama.cpp takes int8, and for weights
    in mxfp4 engines on AMD's GPUs take mxfp4.
    """
    if not has_blocks(view):
        return cost
    formats = ("int8", "mxfp4") if in_mxfp4(view) else ("int8",)
    return replace(cost, work=rounded(cost.work, *formats, either=True))


def least_sent(cost: Cost) -> tuple[Size, Size]:
    """Bytes over the link and between nodes that no algorithm of a collective goes below."""
    link = cost.link_bytes if cost.least_link_bytes is None else cost.least_link_bytes
    network = cost.network_bytes if cost.least_network_bytes is None else cost.least_network_bytes
    return link, network


def _fewest(a: int, b: int) -> int:
    """The smaller one of those that are not zero."""
    return min(a, b) if a and b else a or b


def _folds_away(op: Op) -> bool:
    """Batch norm with given statistics: compilers fold it into the weights before it."""
    return op.attrs.get("function") == _FOLDED and not op.attrs.get("statistics", True)


def add_work(into: dict[tuple[str, str, bool], Size], cost: Cost, repeat: int) -> None:
    """Adds the work of ``repeat`` executions, by engine, format and whether it can be pruned."""
    for (engine, dtype), flops in cost.work.items():
        if engine is not Engine.SPECIAL:
            key = engine.value, dtype, cost.prunable
            into[key] = into.get(key, 0) + flops * repeat


def weights_bytes(
    workload: Workload, evaluator: Evaluator, among: AbstractSet[int] | None = None
) -> int:
    """Bytes of all weights and buffers, each storage once; of those ``among`` some storages."""
    largest = evaluator.storage_bytes()
    kept = {t.storage: t.copies for t in workload.tensors if t.role in (Role.WEIGHT, Role.BUFFER)}
    found = kept if among is None else {s: n for s, n in kept.items() if s in among}
    return int(sum(largest[storage] * copies for storage, copies in found.items()))
