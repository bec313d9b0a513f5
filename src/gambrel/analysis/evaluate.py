"""From a symbolic workload to the cost of each op at given sizes, in a given precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gambrel.analysis.equal import classes_of
from gambrel.dtypes import width_bytes
from gambrel.ops import Conventions, Cost, OpView, TensorView, cost
from gambrel.ops.base import product
from gambrel.roofline import maximum
from gambrel.workload import Dim, Op, Role, Tensor, Workload, evaluate


class Evaluator:
    """Fills sizes into a workload. Each distinct dimension text is evaluated once.

    Args:
        workload: The model.
        values: A value for each symbol: ints give exact ints, float arrays give float arrays.
        casts: Number formats to replace, from `gambrel.analysis.precision.cast_map`.
        conventions: How to count where the field disagrees.
    """

    def __init__(
        self,
        workload: Workload,
        values: Mapping[str, Any],
        casts: Mapping[str, str],
        conventions: Conventions,
    ) -> None:
        self._workload = workload
        self._values = values
        self._casts = casts
        self._conventions = conventions
        self.alike = classes_of(workload)
        self._dims: dict[str, Any] = {}
        self._priced: tuple[tuple[Op, OpView, Cost | None], ...] | None = None
        self._shapes: dict[tuple[tuple[Dim, ...], Dim | None], tuple[tuple[Any, ...], Any]] = {}
        self._views: list[TensorView | None] = [None] * len(workload.tensors)

    def value(self, symbol: str) -> Any:
        """The value of a symbol."""
        return self._values[symbol]

    def dim(self, dim: Dim) -> Any:
        """The value of one dimension."""
        if not isinstance(dim, str):
            return dim
        if dim not in self._dims:
            self._dims[dim] = evaluate(dim, self._values)
        return self._dims[dim]

    def tensor(self, index: int) -> TensorView:
        """A tensor with its sizes filled in."""
        view = self._views[index]
        if view is None:
            view = self._views[index] = self._view(self._workload.tensors[index])
        return view

    def _view(self, t: Tensor) -> TensorView:
        key = t.shape, t.elements
        if key not in self._shapes:
            shape = tuple(map(self.dim, t.shape))
            self._shapes[key] = (
                shape,
                product(shape) if t.elements is None else self.dim(t.elements),
            )
        shape, elements = self._shapes[key]
        return TensorView(
            shape=shape,
            dtype=self._casts.get(t.dtype, t.dtype),
            elements=elements,
            storage=t.storage,
            offset=self.dim(t.offset),
            role=t.role,
        )

    def op(self, op: Op) -> OpView:
        """An op with its sizes filled in."""
        attrs: Mapping[str, Any] = op.attrs
        if "compute_dtype" in attrs:
            named = str(attrs["compute_dtype"])
            attrs = {**attrs, "compute_dtype": self._casts.get(named, named)}
        return OpView(
            kind=op.kind,
            inputs=tuple(self.tensor(i) for i in op.inputs),
            outputs=tuple(self.tensor(i) for i in op.outputs),
            sizes={
                k: tuple(map(self.dim, v)) if isinstance(v, tuple) else self.dim(v)
                for k, v in op.sizes.items()
            },
            attrs=attrs,
            phase=op.phase,
            conventions=self._conventions,
        )

    @property
    def priced(self) -> tuple[tuple[Op, OpView, Cost | None], ...]:
        """`costs`, made once for all ways of fusing."""
        if self._priced is None:
            self._priced = tuple(self.costs())
        return self._priced

    def costs(self) -> Iterator[tuple[Op, OpView, Cost | None]]:
        """Every op with its view and its cost (None: unmodelled), in order.

        Each formula is asked once for all ops that are alike.
        """
        first: dict[int, tuple[OpView, Cost | None]] = {}
        for op, number in zip(self._workload.ops, self.alike, strict=True):
            if number not in first:
                view = self.op(op)
                first[number] = view, cost(view)
                yield op, *first[number]
                continue
            model, found = first[number]
            view = OpView(
                kind=model.kind,
                inputs=tuple(map(self.tensor, op.inputs)),
                outputs=tuple(map(self.tensor, op.outputs)),
                sizes=model.sizes,
                attrs=model.attrs,
                phase=model.phase,
                conventions=model.conventions,
            )
            yield op, view, found

    def storage_bytes(self) -> dict[int, Any]:
        """Bytes of each storage: its largest tensor; of weights to the end of the last one."""
        sizes: dict[int, Any] = {}
        for index, t in enumerate(self._workload.tensors):
            view = self.tensor(index)
            begin = self.dim(t.offset) if t.role is Role.WEIGHT else 0
            nbytes = (begin + view.elements) * width_bytes(view.dtype)
            before = sizes.get(t.storage)
            sizes[t.storage] = nbytes if before is None else maximum(before, nbytes)
        return sizes


def shapes_text(view: OpView) -> str:
    """Shapes for a reader: ``"8x3x224x224, 64x3x7x7 -> 8x64x112x112"``."""
    inputs = ", ".join(_shape(t) for t in view.inputs)
    return f"{inputs} -> {', '.join(_shape(t) for t in view.outputs)}"


def _shape(t: TensorView) -> str:
    return "x".join(map(str, t.shape)) or "scalar"
