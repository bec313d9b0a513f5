"""One call of an ATen op, and what it means: the records that rules take and give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from gambrel.workload import Attributes, Dim, Sizes

#: Names of keyword arguments that receive results (``out=``); never read.
_RESULTS: Final = frozenset({"out", "out0", "out1", "out2", "values", "indices"})


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A tensor as an argument or a result of a call.

    Attributes:
        id: The caller's identity of the tensor; rules only hand it back.
        shape: Sizes.
        dtype: A name of `gambrel.dtypes`.
        strides: In elements, where known.
    """

    id: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Number of elements; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Described:
    """What a call is, in neutral words.

    Attributes:
        kind: A neutral kind of `gambrel.ops`, or the op's own name when no rule knows it.
        sizes: Numbers for the cost formula.
        attrs: What else the formula needs.
        inputs: Tensors whose values are read, in the formula's order.
        outputs: Tensors that are written. One that was also an argument (in-place, ``out=``) has
            its id: the caller gives it a new version.
    """

    kind: str
    sizes: Sizes = field(default_factory=dict)
    attrs: Attributes = field(default_factory=dict)
    inputs: tuple[TensorArg, ...] = ()
    outputs: tuple[TensorArg, ...] = ()


class Call:
    """One call of an ATen op, with its arguments found by position or by name."""

    __slots__ = ("args", "kwargs", "op", "outputs", "overload")

    def __init__(
        self,
        op: str,
        overload: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Any,
    ) -> None:
        self.op = op
        self.overload = overload
        self.args = args
        self.kwargs = kwargs
        self.outputs = tuple(flatten(outputs))
        if not self.outputs and op.endswith("_") and args:
            self.outputs = tuple(flatten(args[0]))  # _foreach_add_ and the like return None

    @property
    def name(self) -> str:
        """The op without its namespace and the underscore of its in-place form."""
        return self.op.rpartition(".")[2].rstrip("_")

    def arg(self, position: int, name: str = "", default: Any = None) -> Any:
        """An argument by position, else by name, else ``default`` (the schema's default)."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def tensor(self, position: int, name: str = "self") -> TensorArg:
        """An argument that must be a tensor.

        Raises:
            TypeError: It is none. `gambrel.capture.aten.describe` then reports the op unmodelled.
        """
        found = self.arg(position, name)
        if isinstance(found, TensorArg):
            return found
        raise TypeError(f"{self.op}: argument {position} ({name}) is no tensor")

    def optional(self, position: int, name: str) -> TensorArg | None:
        """An argument that may be a tensor or None."""
        found = self.arg(position, name)
        return found if isinstance(found, TensorArg) else None

    def named(self, name: str) -> TensorArg | None:
        """A keyword-only argument that may be a tensor or None."""
        found = self.kwargs.get(name)
        return found if isinstance(found, TensorArg) else None

    @property
    def inputs(self) -> tuple[TensorArg, ...]:
        """All tensor arguments in order, lists flattened, results (``out=``) left out."""
        read = [
            v for k, v in self.kwargs.items() if k not in _RESULTS or "out" not in self.overload
        ]
        return (*flatten(self.args), *flatten(read))

    @property
    def out(self) -> TensorArg:
        """The first result.

        Raises:
            TypeError: The call has none.
        """
        if not self.outputs:
            raise TypeError(f"{self.op} returned no tensor")
        return self.outputs[0]

    def described(
        self,
        kind: str,
        sizes: Mapping[str, Dim | tuple[Dim, ...]] | None = None,
        attrs: Mapping[str, bool | int | float | str] | None = None,
        *,
        inputs: Sequence[TensorArg | None] | None = None,
        outputs: Sequence[TensorArg | None] | None = None,
    ) -> Described:
        """The answer of a rule; by default all inputs are read and all outputs written."""
        return Described(
            kind=kind,
            sizes=dict(sizes or {}),
            attrs=dict(attrs or {}),
            inputs=self.inputs if inputs is None else present(*inputs),
            outputs=self.outputs if outputs is None else present(*outputs),
        )


def flatten(value: Any) -> Iterator[TensorArg]:
    """The tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, TensorArg):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flatten(item)


def present(*tensors: TensorArg | None) -> tuple[TensorArg, ...]:
    """The arguments that are tensors."""
    return tuple(t for t in tensors if t is not None)


def ints(value: Any, count: int) -> tuple[int, ...]:
    """A size argument as ``count`` ints; ATen lets one int stand for all dimensions."""
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return found * count if len(found) == 1 else found


def rows_along(tensor: TensorArg, dim: int | None) -> int:
    """Number of lines along ``dim`` (of the flattened tensor when it is None)."""
    if dim is None or not tensor.shape:
        return 1
    length = tensor.shape[dim]
    return tensor.numel // length if length else 0
