"""Ops of one structure together, as array arithmetic: the same figures, many at once.

A catalog of devices asks for the expected time of the same ops again and again. Ops that differ in
numbers only are stacked once; each device then evaluates a formula once for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.ops import Cost, OpView, TensorView

#: Fewer ops than this are as fast one by one.
_FEWEST: Final = 4


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Ops that differ in numbers only.

    Attributes:
        members: Their places in the list that was given.
        view: One op whose sizes are arrays.
        cost: Its cost, of arrays.
    """

    members: tuple[int, ...]
    view: OpView
    cost: Cost


class Batches:
    """The ops of a table in batches.

    Args:
        ops: (op, cost of one execution).
    """

    def __init__(self, ops: Sequence[tuple[OpView, Cost]]) -> None:
        self._ops = ops
        groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for index, (view, cost) in enumerate(ops):
            groups[_structure(view, cost)].append(index)
        self.all = tuple(map(self._batch, groups.values()))
        self._halves: dict[tuple[tuple[int, ...], bytes], tuple[Batch, Batch]] = {}

    def __iter__(self) -> Iterator[Batch]:
        """Those that are worth the arrays on a single device."""
        return (batch for batch in self.all if len(batch.members) >= _FEWEST)

    def divide(self, batch: Batch, mask: Any) -> tuple[Batch, Batch]:
        """The ops where a mask holds apart from the others; kept, as devices ask for the same."""
        key = batch.members, mask.tobytes()
        if key not in self._halves:
            pairs = list(zip(batch.members, mask, strict=True))
            yes, no = ([i for i, holds in pairs if holds == half] for half in (True, False))
            self._halves[key] = self._batch(yes), self._batch(no)
        return self._halves[key]

    def _batch(self, members: list[int]) -> Batch:
        if len(members) == 1:
            view, cost = self._ops[members[0]]
            return Batch(members=tuple(members), view=view, cost=cost)
        views = [self._ops[i][0] for i in members]
        costs = [self._ops[i][1] for i in members]
        first, cost = views[0], costs[0]
        sizes = {
            name: tuple(map(_array, zip(*(v.sizes[name] for v in views), strict=True)))
            if isinstance(size, tuple)
            else _array([v.sizes[name] for v in views])
            for name, size in first.sizes.items()
        }
        view = replace(
            first,
            inputs=tuple(map(_tensor, zip(*(v.inputs for v in views), strict=True))),
            outputs=tuple(map(_tensor, zip(*(v.outputs for v in views), strict=True))),
            sizes=sizes,
        )
        summed = Cost(
            work={key: _array([c.work[key] for c in costs]) for key in cost.work},
            read_bytes=_array([c.read_bytes for c in costs]),
            write_bytes=_array([c.write_bytes for c in costs]),
            link_bytes=_array([c.link_bytes for c in costs]),
            network_bytes=_array([c.network_bytes for c in costs]),
            prunable=cost.prunable,
        )
        return Batch(members=tuple(members), view=view, cost=summed)


def _structure(view: OpView, cost: Cost) -> tuple[Any, ...]:
    """Equal for ops that one call of a formula can serve."""
    tensors = (*view.inputs, *view.outputs)
    regions: dict[Any, int] = {}
    storages: dict[int, int] = {}
    return (
        (view.kind, view.phase, repr(sorted(view.attrs.items())), len(view.inputs)),
        tuple((k, len(v) if isinstance(v, tuple) else -1) for k, v in view.sizes.items()),
        tuple(
            (
                len(t.shape),
                t.dtype,
                t.role,
                storages.setdefault(t.storage, len(storages)),
                regions.setdefault((t.storage, t.offset), len(regions)),
            )
            for t in tensors
        ),
        view.sizes.get("kernel"),  # libraries have kernels of their own for each
        (tuple(cost.work), cost.prunable, bool(cost.link_bytes), bool(cost.network_bytes)),
    )


def _tensor(tensors: Sequence[TensorView]) -> TensorView:
    """Tensors of one rank as one whose sizes are arrays."""
    return replace(
        tensors[0],
        shape=tuple(map(_array, zip(*(t.shape for t in tensors), strict=True))),
        elements=_array([t.elements for t in tensors]),
    )


def _array(values: Sequence[Any]) -> Any:
    """Numbers as floats; one number where all are alike, so that it decides for all."""
    import numpy as np

    first = values[0]
    if all(v == first for v in values):
        return first
    return np.asarray(values, dtype=float)
