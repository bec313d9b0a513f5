"""How a compiler sees each op kind: a library call, a loop over elements, or a reduction."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from gambrel.ops import OpView
from gambrel.ops.base import product


class Shape(Enum):
    """What kind of loop an op is."""

    EXTERN = "extern"  # a library call or a kernel of its own; fuses with nothing
    POINTWISE = "pointwise"  # one value per element of the result; can be computed where it is used
    REDUCTION = "reduction"  # rows of values to one value a row; then maybe a loop over elements


#: Compilers turn windows up to this size into loops over elements (25 = 5x5 in torch's).
LARGEST_WINDOW: Final = 25

#: These compute with one of their inputs twice.
_USES_TWICE: Final = frozenset(
    {"gelu", "gelu_tanh", "silu", "quick_gelu", "mish", "hardswish", "softplus", "logsigmoid"}
)


def shape_of(view: OpView) -> Shape:
    """The class of an op; kinds that are not known are library calls."""
    chosen = _CLASSES.get(view.kind, Shape.EXTERN)
    return chosen(view) if callable(chosen) else chosen


def iteration(view: OpView, shape: Shape) -> tuple[int, int]:
    """The loop of an op: (rows, values reduced per row); (elements, 1) without a reduction."""
    if shape is not Shape.REDUCTION:
        if view.kind == "scatter":
            return view.size("elements"), 1
        return (product(view.outputs[0].shape) if view.outputs else 1), 1
    elements = view.size("elements", product(view.inputs[0].shape) if view.inputs else 1)
    rows = max(1, _rows(view))
    return rows, max(1, elements // rows)


def has_tail(view: OpView) -> bool:
    """Whether a reduction ends in a loop over all its elements (a softmax does, a sum does not)."""
    return view.kind not in ("reduction", "loss", "cumulative")


def statistics(view: OpView) -> int:
    """How many values a row a reduction with a tail keeps: mean and deviation, maximum and sum."""
    return 1 if view.attrs.get("function") == "rms_norm" else 2


def applies_apart(view: OpView) -> bool:
    """Whether a norm finds its statistics in one loop and applies them in another kernel.

    Group norm and batch norm scale by channel, but average over several channels or over the
    batch: the two loops are cut in different ways.
    """
    return view.attrs.get("function") in ("group_norm", "batch_norm")


def reads_elsewhere(view: OpView) -> bool:
    """Whether element i of the result needs other elements than i of an input."""
    if view.kind == "copy":
        return view.attrs.get("function") not in ("cast", "copy")
    return view.kind in _ELSEWHERE


def realizes_inputs(view: OpView) -> bool:
    """Whether its inputs must be in memory: it reads each of them many times."""
    return view.kind in ("pooling", "pooling_backward", "interpolation")


def uses(view: OpView) -> int:
    """How often an op's own formula reads its input: twice for a norm or softmax."""
    if _CLASSES.get(view.kind) is Shape.REDUCTION or view.kind == "normalization":
        return 2 if has_tail(view) else 1
    return 2 if view.attrs.get("function") in _USES_TWICE else 1


def _rows(view: OpView) -> int:
    for name in ("rows", "groups", "outputs"):
        if name in view.sizes:
            return int(view.sizes[name])  # type: ignore[arg-type]
    return 1


def _normalization(view: OpView) -> Shape:
    """Batch norm with stored statistics only scales and shifts."""
    return Shape.REDUCTION if view.attrs.get("statistics", True) else Shape.POINTWISE


def _embedding(view: OpView) -> Shape:
    return Shape.POINTWISE if view.attrs.get("mode", "gather") == "gather" else Shape.EXTERN


def _pooling(view: OpView) -> Shape:
    window: Any = view.sizes.get("window", 1)
    size = product(window) if isinstance(window, tuple) else window
    return Shape.POINTWISE if size <= LARGEST_WINDOW else Shape.EXTERN


_CLASSES: Final[dict[str, Shape | Callable[[OpView], Shape]]] = {
    "elementwise": Shape.POINTWISE,
    "elementwise_backward": Shape.POINTWISE,
    "copy": Shape.POINTWISE,
    "fill": Shape.POINTWISE,
    "random": Shape.POINTWISE,
    "gather": Shape.POINTWISE,
    "scatter": Shape.POINTWISE,
    "interpolation": Shape.POINTWISE,
    "embedding": _embedding,
    "pooling": _pooling,
    "pooling_backward": _pooling,
    "normalization": _normalization,
    "reduction": Shape.REDUCTION,
    "softmax": Shape.REDUCTION,
    "loss": Shape.REDUCTION,
    "cumulative": Shape.REDUCTION,
    "normalization_backward": Shape.REDUCTION,
    "softmax_backward": Shape.REDUCTION,
}

_ELSEWHERE: Final = frozenset(
    {"gather", "embedding", "scatter", "pooling", "pooling_backward", "interpolation"}
)
