"""Every number of a workload mapped at once: the base of binding symbols and of lifting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gambrel.workload.model import Op, Tensor, Workload
from gambrel.workload.symbols import Dim, evaluate


def bind(workload: Workload, values: Mapping[str, int] | None = None) -> Workload:
    """The workload at fixed sizes: every number evaluated, no symbols left.

    Args:
        workload: With or without symbols.
        values: Values of symbols; those not given take their default.

    Raises:
        WorkloadError: An unknown size, or one out of the range that the workload is exact for.
    """
    point = workload.resolve_symbols(values or {})

    def fixed(dim: Dim) -> Dim:
        return int(evaluate(dim, point))

    return replace(
        workload,
        symbols=(),
        tensors=tuple(map_tensor(t, fixed) for t in workload.tensors),
        ops=tuple(map_op(o, fixed) for o in workload.ops),
    )


def map_tensor(tensor: Tensor, function: Callable[[Dim], Dim]) -> Tensor:
    """The tensor with ``function`` applied to its dimensions, offset and element count."""
    return replace(
        tensor,
        shape=tuple(function(d) for d in tensor.shape),
        offset=function(tensor.offset),
        elements=None if tensor.elements is None else function(tensor.elements),
    )


def map_op(op: Op, function: Callable[[Dim], Dim]) -> Op:
    """The op with ``function`` applied to each of its sizes."""
    return replace(
        op,
        sizes={
            name: tuple(function(d) for d in size) if isinstance(size, tuple) else function(size)
            for name, size in op.sizes.items()
        },
    )


def tensor_numbers(tensor: Tensor) -> list[Dim]:
    """The numbers of a tensor in the order in which `map_tensor` visits them."""
    tail = [] if tensor.elements is None else [tensor.elements]
    return [*tensor.shape, tensor.offset, *tail]


def op_numbers(op: Op) -> list[Dim]:
    """The numbers of an op in the order in which `map_op` visits them."""
    found: list[Dim] = []
    for size in op.sizes.values():
        found.extend(size if isinstance(size, tuple) else (size,))
    return found
