"""Layers as the code of transformers dispatches them: every op a kernel of its own.

Inference engines fuse a norm, the rotation of queries and keys, and what happens to the results of
experts; eager PyTorch launches each of their ops. Ops and their order are those of a capture
(transformers 5.24, 2026); what runs once a step beside the layers is left out, but for the angles.
"""

from __future__ import annotations

from typing import Final

from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import times
from gambrel.llm.spec import Mixture
from gambrel.workload import Dim

#: Activations that the code writes out → their ops.
_COMPOSED: Final[dict[str, tuple[str, ...]]] = {
    "gelu_new": ("mul", "cube", "mul", "add", "mul", "tanh", "add", "mul"),
    "gelu_fast": ("mul", "mul", "mul", "mul", "add", "mul", "tanh", "add", "mul"),
    "quick_gelu": ("mul", "sigmoid", "mul"),
    "relu2": ("relu", "square"),
    "relu_squared": ("relu", "square"),
}


def cast(e: Emitter, x: Index, rows: Dim, width: int, dtype: str) -> Index:
    """A change of number format; nothing where the format is the same."""
    if e.tensors[x].dtype == dtype:
        return x
    return _moved(e, (x,), rows, width, "cast", dtype)


def copied(e: Emitter, x: Index, into: Index) -> None:
    """A copy to where a cache keeps it."""
    e.op("copy", (x,), (into,), name="copy", attrs={"function": "copy"})


def rms_norm(e: Emitter, x: Index, weight: Index | None, sizes: tuple[Dim, int, Dim]) -> Index:
    """Cast, square, mean, epsilon, root, product, cast back, weight.

    Args:
        e: Where to write.
        x: The input.
        weight: Of the norm; None where it has none.
        sizes: Rows, width of a row, and parts of all rows that are normalized apart.
    """
    rows, width, parts = sizes
    given = e.tensors[x].dtype
    x = cast(e, x, rows, width, "fp32")
    square = e.elementwise("square", (x,), rows, width, "fp32")
    mean = e.activation(parts, 1, "fp32")
    attrs = {"function": "mean"}
    n = times(rows, width)
    e.op("reduction", (square,), (mean,), name="mean", elements=n, outputs=parts, attrs=attrs)
    shifted = e.elementwise("add", (mean,), parts, 1, "fp32")
    root = e.elementwise("rsqrt", (shifted,), parts, 1, "fp32")
    x = e.elementwise("mul", (x, root), rows, width, "fp32")
    if weight is None:
        return cast(e, x, rows, width, given)
    if not e.shifted_norms:
        return e.elementwise("mul", (weight, cast(e, x, rows, width, given)), rows, width, given)
    (length,) = e.tensors[weight].shape
    wide = cast(e, weight, 1, int(length), "fp32")
    wide = e.elementwise("add", (wide,), 1, int(length), "fp32")
    return cast(e, e.elementwise("mul", (x, wide), rows, width, "fp32"), rows, width, given)


def angles(e: Emitter, rows: Dim, dim: int) -> None:
    """Cosine and sine of every position, once a step."""
    dtype = e.precisions.activations
    with e.outside(), e.inside("rotary"):
        place = cast(e, e.tensor((rows,), "int64"), rows, 1, "fp32")
        half = e.elementwise("mul", (place,), rows, dim // 2, "fp32")
        both = _moved(e, (half, half), rows, dim, "cat", "fp32")
        for function in ("cos", "sin"):
            found = e.elementwise(function, (both,), rows, dim, "fp32")
            found = e.elementwise("mul", (found,), rows, dim, "fp32")
            e.rotation = (*e.rotation[-1:], cast(e, found, rows, dim, dtype))


def rotated(e: Emitter, x: Index, rows: Dim, heads: int, dims: tuple[int, int]) -> Index:
    """``x * cos + rotate_half(x) * sin`` of each head.

    Args:
        e: Where to write.
        x: Queries or keys.
        rows: Their tokens.
        heads: Their heads.
        dims: Length of a head, and how much of it is rotated.
    """
    whole, dim = dims
    width = heads * dim
    part = x if dim == whole else e.view(x, (rows, width))
    cos, sin = e.rotation
    a = e.elementwise("mul", (part, cos), rows, width)
    half = e.view(x, (rows, width // 2))
    turned = e.elementwise("neg", (half,), rows, width // 2)
    other = _moved(e, (turned, half), rows, width, "cat")
    b = e.elementwise("mul", (other, sin), rows, width)
    out = e.elementwise("add", (a, b), rows, width)
    if dim == whole:
        return out
    rest = e.view(x, (rows, heads * (whole - dim)))
    return _moved(e, (out, rest), rows, heads * whole, "cat")


def activated(e: Emitter, function: str, written: str, x: Index, rows: Dim, width: int) -> Index:
    """An activation: one kernel, or those that the code writes it out in."""
    for step in _COMPOSED.get(written, (function,)):
        x = e.elementwise(step, (x,), rows, width)
    return x


def gate(e: Emitter, function: str, pair: tuple[Index, Index], rows: Dim, width: int) -> Index:
    """The activation of one half, and its product with the other."""
    first = e.elementwise(function, pair[:1], rows, width)
    return e.elementwise("mul", (first, pair[1]), rows, width)


def before_experts(e: Emitter, m: Mixture, x: Index, rows: Dim, width: int) -> Index:
    """Weights of the chosen experts, where each expert's tokens begin, and the sorted tokens."""
    chosen = times(rows, m.top_k)
    scale = e.activation(rows, 1)
    weights = e.activation(rows, m.top_k)
    attrs = {"function": "sum"}
    e.op("reduction", (weights,), (scale,), name="sum", elements=chosen, outputs=rows, attrs=attrs)
    e.elementwise("div", (weights, scale), rows, m.top_k)
    order, places = e.tensor((chosen,), "int64"), e.tensor((chosen,), "int64")
    attrs = {"function": "sort"}
    e.op("sort", (order,), (order, places), name="sort", elements=chosen, rows=1, attrs=attrs)
    e.elementwise("floor_divide", (places,), chosen, 1, "int64")
    tokens = _taken(e, x, places, chosen, width)
    _taken(e, weights, places, chosen, 1)
    cast(e, order, chosen, 1, "int32")
    counts = e.tensor((m.experts,), "int32")
    e.op("scatter", (order,), (counts,), name="histc", elements=chosen, attrs={"accumulate": True})
    attrs = {"function": "cumsum"}
    e.op("cumulative", (counts,), (counts,), name="cumsum", elements=m.experts, rows=1, attrs=attrs)
    return tokens


def after_experts(e: Emitter, m: Mixture, x: Index, rows: Dim, width: int) -> Index:
    """Results weighted, put back into the order of the tokens and added up."""
    chosen = times(rows, m.top_k)
    x = e.elementwise("mul", (x,), chosen, width)
    places = e.tensor((chosen,), "int64")
    e.op("fill", (), (places,), name="arange", elements=chosen)
    e.op(
        "scatter",
        (places, places),
        (places,),
        name="index_put",
        elements=chosen,
        attrs={"accumulate": False, "in_place": True},
    )
    taken = _taken(e, x, places, chosen, width)
    out = e.activation(rows, width)
    n = times(chosen, width)
    attrs = {"function": "sum"}
    e.op(
        "reduction",
        (taken,),
        (out,),
        name="sum",
        elements=n,
        outputs=times(rows, width),
        attrs=attrs,
    )
    return out


def _taken(e: Emitter, x: Index, places: Index, rows: Dim, width: int) -> Index:
    out = e.activation(rows, width)
    e.op("gather", (x, places), (out,), name="index", elements=times(rows, width))
    return out


def _moved(
    e: Emitter, inputs: tuple[Index, ...], rows: Dim, width: int, function: str, dtype: str = ""
) -> Index:
    out = e.activation(rows, width, dtype or None)
    e.op("copy", inputs, (out,), name=function, attrs={"function": function})
    return out
