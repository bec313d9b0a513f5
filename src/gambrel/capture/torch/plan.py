"""What all calls of one op with operands of the same form have in common, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gambrel.capture.aten import Described, describe
from gambrel.capture.torch.execute import Pattern, pattern_of
from gambrel.capture.torch.signature import (
    Operands,
    Overload,
    as_argument,
    plain,
    replace_tensors,
    tensors_in,
)
from gambrel.workload import Attributes, Sizes


class CallPlan:
    """What is known of all calls with the same key.

    Attributes:
        pattern: How to make the results without running the op, or None.
        single: Whether the op returns one tensor rather than a tuple.
        kind: Neutral kind.
        sizes: For the formula.
        attrs: For the formula.
        reads: Positions of the inputs among the operands' tensors.
        writes: Positions of outputs: of operands, or of results counted on from there.
        mutated: Positions of the operands that are written.
    """

    __slots__ = ("attrs", "kind", "mutated", "pattern", "reads", "single", "sizes", "writes")

    def __init__(
        self, described: Described, mutated: tuple[int, ...], pattern: Pattern | None, single: bool
    ) -> None:
        self.kind = described.kind
        self.sizes: Sizes = described.sizes
        self.attrs: Attributes = described.attrs
        self.reads = tuple(t.id for t in described.inputs)
        self.writes = tuple(t.id for t in described.outputs)
        self.mutated = mutated
        self.pattern = pattern
        self.single = single


def plan_of(
    overload: Overload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    operands: Operands,
    result: Any,
) -> CallPlan:
    """Describes a call that was just run: what it costs, what it reads and writes.

    Args:
        overload: What was called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        operands: The tensors among them.
        result: What it returned.
    """
    results = list(tensors_in(result))
    if not overload.written and results and _only_aliases(results, operands):
        return CallPlan(Described("view"), (), None, False)
    numbers = {id(t): i for i, t in reversed(list(enumerate(operands.tensors)))}
    described = _describe(overload, args, kwargs, operands, results, numbers)
    mutated = _mutated(overload, args, kwargs, numbers)
    pattern = pattern_of(overload, result, operands)
    return CallPlan(described, mutated, pattern, isinstance(result, torch.Tensor))


def _describe(
    overload: Overload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    operands: Operands,
    results: Sequence[Any],
    numbers: Mapping[int, int],
) -> Described:
    if overload.name == "aten.scalar_tensor":
        return Described("sync")  # a number of the host on its way to a kernel
    arguments = [as_argument(t, i) for i, t in enumerate(operands.tensors)]
    positions = iter(arguments)

    def next_argument(_: Any) -> Any:
        return next(positions)

    given = [plain(replace_tensors(v, next_argument)) for v in args]
    named = {k: plain(replace_tensors(v, next_argument)) for k, v in kwargs.items()}
    outputs = tuple(
        as_argument(t, numbers.get(id(t), len(arguments) + j)) for j, t in enumerate(results)
    )
    return describe(overload.name, overload.overload, given, named, outputs)


def _only_aliases(results: Sequence[Any], operands: Operands) -> bool:
    memory = {t.untyped_storage()._cdata for t in operands.tensors}
    return all(t.untyped_storage()._cdata in memory for t in results)


def _mutated(
    overload: Overload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    numbers: Mapping[int, int],
) -> tuple[int, ...]:
    if not overload.written:
        return ()
    values = [v for i, v in enumerate(args) if i in overload.written]
    values += [v for k, v in kwargs.items() if k in overload.written]
    return tuple(dict.fromkeys(numbers[id(t)] for t in tensors_in(values)))
