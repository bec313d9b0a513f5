"""Ops of one formula together, as array arithmetic: the same figures, many at once.

A catalog of devices asks for the expected time of the same ops again and again. What depends on the
ops alone is gathered once; each device then evaluates a formula once for all ops that share it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gambrel.analysis.estimate.features import rule_of
from gambrel.ops import Cost, OpView

#: Kinds whose formula looks at sizes and is safe for arrays of them.
_SIZED: Final = frozenset({"matmul", "convolution", "convolution_backward"})
#: Fewer ops than this are as fast one by one.
_FEWEST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Ops that differ in numbers only.

    Attributes:
        members: Their places in the list that was given.
        view: One op whose sizes are arrays.
        cost: Its cost, of arrays.
        counts: Executions of each.
    """

    members: tuple[int, ...]
    view: OpView
    cost: Cost
    counts: tuple[int, ...]


def batches_of(ops: Sequence[tuple[OpView, Cost, int]]) -> tuple[Batch, ...]:
    """Groups ops; those that share a formula with few others are in no batch.

    Args:
        ops: (op, cost of one execution, executions).
    """
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, (view, cost, _) in enumerate(ops):
        key = _key(view, cost)
        if key is not None:
            groups[key].append(index)
    return tuple(_batch(ops, found) for found in groups.values() if len(found) >= _FEWEST)


def _key(view: OpView, cost: Cost) -> tuple[Any, ...] | None:
    """Equal for ops that one call of a formula can serve; None for ops that want their own."""
    rule = rule_of(view)
    common = (rule.form, rule.least, rule.scheme(view), cost.prunable, tuple(cost.work))
    if rule.form == "stream":
        return common
    if view.kind not in _SIZED:
        return None
    shapes = tuple((k, len(v) if isinstance(v, tuple) else 0) for k, v in view.sizes.items())
    operands = tuple(t.dtype for t in view.inputs[:2])  # roles only decide the scheme
    named = (view.attrs.get("transposed"), view.attrs.get("compute_dtype"))
    return (*common, view.kind, shapes, operands, *named)


def _batch(ops: Sequence[tuple[OpView, Cost, int]], members: list[int]) -> Batch:
    import numpy as np

    views = [ops[i][0] for i in members]
    costs = [ops[i][1] for i in members]

    def array(values: Sequence[Any]) -> Any:
        return np.asarray(values, dtype=float)

    first, cost = views[0], costs[0]
    sizes = {
        name: tuple(array([v.sizes[name][d] for v in views]) for d in range(len(size)))
        if isinstance(size, tuple)
        else array([v.sizes[name] for v in views])
        for name, size in (first.sizes.items() if first.kind in _SIZED else ())
    }
    return Batch(
        members=tuple(members),
        view=replace(first, sizes=sizes),
        cost=Cost(
            work={key: array([c.work[key] for c in costs]) for key in cost.work},
            read_bytes=array([c.read_bytes for c in costs]),
            write_bytes=array([c.write_bytes for c in costs]),
            prunable=cost.prunable,
        ),
        counts=tuple(ops[i][2] for i in members),
    )
