"""What an overload's schema says, and one call of it as a hashable key and a list of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from gambrel.capture.aten import TensorArg
from gambrel.capture.torch.ledger import dtype_name

_TENSOR: Final = torch.Tensor


class Overload:
    """An operator overload, its schema read once.

    Attributes:
        func: The overload itself.
        name: For example ``"aten.addmm"``.
        overload: For example ``"default"``.
        written: Positions and names of the arguments that it writes to.
        views: Whether its results only alias its arguments.
        takes_device: Whether it has an argument ``device``.
        composite: Whether torch composes it of other ops.
    """

    __slots__ = ("composite", "func", "name", "overload", "takes_device", "views", "written")

    def __init__(self, func: Any) -> None:
        self.func = func
        self.name = f"{func.namespace}.{func._schema.name.partition('::')[2]}"
        self.overload = func._overloadname
        arguments = func._schema.arguments
        self.written: frozenset[int | str] = frozenset(
            key
            for position, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
            for key in (position, argument.name)
        )
        self.views = not self.written and any(
            r.alias_info is not None for r in func._schema.returns
        )
        self.takes_device = any(a.name == "device" for a in arguments)
        self.composite = torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), "CompositeImplicitAutograd"
        )


_OVERLOADS: Final[dict[Any, Overload]] = {}


def overload_of(func: Any) -> Overload:
    """The (remembered) facts about an operator overload."""
    found = _OVERLOADS.get(func)
    if found is None:
        found = _OVERLOADS[func] = Overload(func)
    return found


class Operands:
    """The arguments of one call.

    Attributes:
        tensors: All tensors in order, lists flattened.
        key: Everything that decides what the call is and what it returns: shapes, strides, dtypes
            and plain values.
    """

    __slots__ = ("key", "tensors")

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        tensors: list[Any] = []
        key: list[Any] = [func]
        for value in args:
            key.append(_key(value, tensors))
        for name, value in kwargs.items():
            key.append(name)
            key.append(_key(value, tensors))
        self.tensors = tensors
        self.key = tuple(key)


def _key(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, _TENSOR):
        tensors.append(value)
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple([_key(v, tensors) for v in value])
    # 1, 1.0 and True are equal but do not mean the same to an op.
    return (value.__class__, value)


def replace_tensors(value: Any, change: Any) -> Any:
    """``value`` with every tensor ``t`` in (nested) lists and tuples replaced by ``change(t)``."""
    if isinstance(value, _TENSOR):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)([replace_tensors(v, change) for v in value])
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in a tensor, None, or nested lists and tuples, in order."""
    if isinstance(value, _TENSOR):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def as_argument(tensor: Any, number: int) -> TensorArg:
    """A tensor as the torch-free tables see it."""
    return TensorArg(number, tuple(tensor.shape), dtype_name(tensor.dtype), tensor.stride())


def plain(value: Any) -> Any:
    """A non-tensor argument in plain Python: dtypes by name, devices and layouts as text."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, complex, str, TensorArg)):
        return value
    return str(value)
