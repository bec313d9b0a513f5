"""Runs real torch code and describes every ATen call that it dispatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from gambrel.capture.aten import Call, Described, TensorArg, describe
from gambrel.capture.aten.registry import find
from gambrel.dtypes import parse_dtype
from gambrel.ops.base import Conventions, Cost, Engine, OpView, TensorView, cost


@dataclass(frozen=True)
class Dispatched:
    """One call: its name, what it was described as, and what that costs."""

    op: str
    described: Described
    cost: Cost | None


class CheckedCall(Call):
    """A call that refuses positions and names that the op's schema does not have."""

    __slots__ = ("schema",)

    def arg(self, position: int, name: str = "", default: Any = None) -> Any:
        arguments = self.schema.arguments
        names = [a.name for a in arguments]
        if position < len(names) and not arguments[position].kwarg_only:
            expected = names[position]
            if name and expected not in (name, "input", "self") and name not in ("self", "input"):
                raise AssertionError(f"{self.op}: argument {position} is {expected}, not {name}")
        elif name not in names and position < 90:
            raise AssertionError(f"{self.op} has no argument {position} or {name}: {names}")
        return super().arg(position, name, default)


class Recorder(TorchDispatchMode):
    """Describes and costs every call that is dispatched while it is active."""

    def __init__(self, conventions: Conventions | None = None) -> None:
        super().__init__()
        self.calls: list[Dispatched] = []
        self.conventions = conventions or Conventions()
        self._ids: dict[int, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.replace("::", ".")
        plain = [tree_map_only(torch.Tensor, self._arg, x) for x in (args, kwargs or {}, result)]
        _check_schema(func, name, *plain)
        found = describe(name, func._overloadname, *plain)
        self.calls.append(Dispatched(name, found, cost(self._view(found))))
        return result

    def work(self, engine: Engine) -> int:
        """All work on an engine."""
        return sum(
            n
            for call in self.calls
            if call.cost is not None
            for (where, _), n in call.cost.work.items()
            if where is engine
        )

    def unmodelled(self) -> set[str]:
        """Names of the calls without a cost."""
        return {call.op for call in self.calls if call.cost is None}

    def _arg(self, tensor: torch.Tensor) -> TensorArg:
        strides = tensor.stride() if tensor.layout is torch.strided else None
        shape = tuple(tensor.shape)
        return TensorArg(self._storage(tensor), shape, parse_dtype(str(tensor.dtype)), strides)

    def _storage(self, tensor: torch.Tensor) -> int:
        return self._ids.setdefault(id(tensor.untyped_storage()), len(self._ids))

    def _view(self, found: Described) -> OpView:
        return OpView(
            kind=found.kind,
            inputs=tuple(map(_tensor, found.inputs)),
            outputs=tuple(map(_tensor, found.outputs)),
            sizes=found.sizes,
            attrs=found.attrs,
            conventions=self.conventions,
        )


def _tensor(arg: TensorArg) -> TensorView:
    elements = arg.numel
    for size, stride in zip(arg.shape, arg.strides or (), strict=False):
        if stride == 0 and size > 1:
            elements //= size
    return TensorView(shape=arg.shape, dtype=arg.dtype, elements=elements, storage=arg.id)


def _check_schema(func: Any, name: str, args: Any, kwargs: Any, outputs: Any) -> None:
    """Runs the rule once more on a call that checks every argument it asks for."""
    rule = find(name)
    if rule is None:
        return
    call = CheckedCall(name, func._overloadname, args, kwargs, outputs)
    call.schema = func._schema
    try:
        rule(call)
    except (TypeError, IndexError, ValueError, KeyError, AttributeError, ZeroDivisionError):
        return
