"""Reductions, windows, running sums, sorting."""

from __future__ import annotations

from math import prod
from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Sizes

#: Operation that combines two values → neutral function.
COMBINED: Final[dict[str, str]] = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "amax",
    "minimum": "amin",
    "and": "all",
    "or": "any",
    "xor": "sum",
}
_RUNNING: Final[dict[str, str]] = {
    "add": "cumsum",
    "multiply": "cumprod",
    "maximum": "cummax",
    "minimum": "cummin",
    "logaddexp": "logcumsumexp",
}


@lowers("xla::reduce")
def reduce(op: NodeOperands) -> Lowered:
    """By an operation that combines two values."""
    x, out = op.x(), op.out
    if x.numel == out.numel:
        return op.described("view")
    function = COMBINED[str(op.attr("function"))]
    sizes: Sizes = {"elements": x.numel, "outputs": out.numel}
    return op.described("reduction", sizes, {"function": function}, inputs=(x,))


@lowers("xla::reduce_mean")
def mean(op: NodeOperands) -> Lowered:
    """A sum that is divided afterwards."""
    x = op.x()
    sizes: Sizes = {"elements": x.numel, "outputs": op.out.numel}
    return op.described("reduction", sizes, {"function": "mean"}, inputs=(x,))


@lowers("xla::argmax")
def argmax(op: NodeOperands) -> Lowered:
    """The place of the largest or smallest value; indices that go along are made on the fly."""
    x = op.x()
    sizes: Sizes = {"elements": x.numel, "outputs": op.out.numel}
    return op.described("reduction", sizes, {"function": "argmax"}, inputs=(x,))


@lowers("xla::reduce_window")
def windows(op: NodeOperands) -> Lowered:
    """One window a result; a sum that is divided afterwards is told apart by patterns.

    A window that grows along a whole dimension is a running sum.
    """
    x, out = op.x(), op.out
    window = tuple(int(n) for n in op.attr("window"))
    grown = [i for i, n in enumerate(window) if n > 1]
    function = str(op.attr("function"))
    if x.shape == out.shape and len(grown) == 1 and window[grown[0]] == x.shape[grown[0]]:
        sizes: Sizes = {"elements": x.numel, "rows": x.numel // window[grown[0]]}
        return op.described("cumulative", sizes, {"function": _RUNNING[function]}, inputs=(x,))
    if function not in COMBINED:
        raise ValueError("windows combined in another way")
    name = "avg" if op.attr("divided") else "max"  # to add takes as many operations as to compare
    if all(n in (1, size) for n, size in zip(window, x.shape, strict=True)) and (
        out.numel * prod(window) == x.numel
    ):
        whole = {"avg": "mean", "max": COMBINED[function]}[name]
        rest: Sizes = {"elements": x.numel, "outputs": out.numel}
        return op.described("reduction", rest, {"function": whole}, inputs=(x,))
    pooled: Sizes = {"outputs": out.numel, "window": prod(window)}
    return op.described("pooling", pooled, {"function": name}, inputs=(x,))


@lowers("xla::select_and_scatter")
def pooling_gradient(op: NodeOperands) -> Lowered:
    """image, gradient: each gradient goes to the place of its window's largest value."""
    image, gradient = op.x(0), op.x(1)
    sizes: Sizes = {"outputs": gradient.numel, "window": prod(op.attr("window"))}
    attrs = {"function": "max"}
    return op.described("pooling_backward", sizes, attrs, inputs=(gradient, image))


@lowers("xla::cumulative")
def cumulative(op: NodeOperands) -> Lowered:
    """A running result along every line."""
    x = op.x()
    rows = x.numel // max(x.shape[int(op.attr("axis"))], 1)
    function = _RUNNING[str(op.attr("function"))]
    sizes: Sizes = {"elements": x.numel, "rows": rows}
    return op.described("cumulative", sizes, {"function": function}, inputs=(x,))


@lowers("xla::sort")
def sort(op: NodeOperands) -> Lowered:
    """Keys, and what moves with them."""
    x = op.x()
    rows = x.numel // max(x.shape[int(op.attr("axis", -1))], 1)
    return op.described("sort", {"elements": x.numel, "rows": rows}, {"function": "sort"})


@lowers("xla::top_k")
def top_k(op: NodeOperands) -> Lowered:
    """The k largest of every line."""
    x = op.x()
    axis = int(op.attr("axis", -1))
    rows = x.numel // max(x.shape[axis], 1)
    sizes: Sizes = {"elements": x.numel, "rows": rows, "k": op.out.shape[axis]}
    return op.described("sort", sizes, {"function": "topk"}, inputs=(x,))
