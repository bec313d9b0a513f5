"""Layers as the code of transformers dispatches them: every op a kernel of its own.

Inference engines fuse a norm, the rotation of queries and keys, and what happens to the results of
experts; eager PyTorch launches each of their ops. Ops and their order are those of a capture
(transformers 5.24, 2026); what runs once a step beside the layers is left out, but for the angles.
"""

from __future__ import annotations

from typing import Final

from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import times
from gambrel.llm.spec import LinearAttention
from gambrel.workload import Dim

#: Activations that the code writes out → their ops.
_COMPOSED: Final[dict[str, tuple[str, ...]]] = {
    "gelu_new": ("mul", "cube", "mul", "add", "mul", "tanh", "add", "mul"),
    "gelu_fast": ("mul", "mul", "mul", "mul", "add", "mul", "tanh", "add", "mul"),
    "quick_gelu": ("mul", "sigmoid", "mul"),
    "clamped_swiglu": ("clamp", "clamp", "mul", "sigmoid", "mul", "add", "mul"),
    "relu2": ("relu", "square"),
    "relu_squared": ("relu", "square"),
}


def cast(e: Emitter, x: Index, rows: Dim, width: int, dtype: str) -> Index:
    """A change of number format; nothing where the format is the same."""
    if e.tensors[x].dtype == dtype:
        return x
    return moved(e, (x,), rows, width, "cast", dtype)


def copied(e: Emitter, x: Index, into: Index) -> None:
    """A copy to where a cache keeps it."""
    e.op("copy", (x,), (into,), name="copy", attrs={"function": "copy"})


def kept(e: Emitter, x: Index, state: Index) -> None:
    """The last inputs of a convolution, joined with new ones and kept."""
    joined = e.tensor(e.tensors[state].shape, e.tensors[x].dtype)
    e.op("copy", (state, x), (joined,), name="cat", attrs={"function": "cat"})
    copied(e, joined, state)


def rms_norm(e: Emitter, x: Index, weight: Index | None, sizes: tuple[Dim, int, Dim]) -> Index:
    """Cast, square, mean, epsilon, root, product, cast back, weight.

    Args:
        e: Where to write.
        x: The input.
        weight: Of the norm; None where it has none.
        sizes: Rows, width of a row, and parts of all rows that are normalized apart.
    """
    rows, width, _ = sizes
    given = e.tensors[x].dtype
    x = cast(e, x, rows, width, "fp32")
    x = _to_unit_variance(e, x, x, sizes)
    if weight is None:
        return cast(e, x, rows, width, given)
    if not e.shifted_norms:
        return e.elementwise("mul", (weight, cast(e, x, rows, width, given)), rows, width, given)
    (length,) = e.tensors[weight].shape
    wide = cast(e, weight, 1, int(length), "fp32")
    wide = e.elementwise("add", (wide,), 1, int(length), "fp32")
    return cast(e, e.elementwise("mul", (x, wide), rows, width, "fp32"), rows, width, given)


def layer_norm(e: Emitter, x: Index, weight: Index, rows: Dim, width: int) -> Index:
    """Cast, mean, difference, the deviation in two steps, weight, cast back: Command R's."""
    given = e.tensors[x].dtype
    x = cast(e, x, rows, width, "fp32")
    centred = e.elementwise("sub", (x, _mean(e, x, rows, width, rows)), rows, width, "fp32")
    again = e.elementwise("sub", (x,), rows, width, "fp32")
    x = _to_unit_variance(e, again, centred, (rows, width, rows))
    wide = cast(e, weight, 1, width, "fp32")
    return cast(e, e.elementwise("mul", (wide, x), rows, width, "fp32"), rows, width, given)


def _to_unit_variance(e: Emitter, x: Index, centred: Index, sizes: tuple[Dim, int, Dim]) -> Index:
    """``x`` over the root of the mean square of what is centred."""
    rows, width, parts = sizes
    square = e.elementwise("square", (centred,), rows, width, "fp32")
    mean = _mean(e, square, rows, width, parts)
    shifted = e.elementwise("add", (mean,), parts, 1, "fp32")
    root = e.elementwise("rsqrt", (shifted,), parts, 1, "fp32")
    return e.elementwise("mul", (x, root), rows, width, "fp32")


def _mean(e: Emitter, x: Index, rows: Dim, width: int, parts: Dim) -> Index:
    mean = e.activation(parts, 1, "fp32")
    attrs = {"function": "mean"}
    n = times(rows, width)
    e.op("reduction", (x,), (mean,), name="mean", elements=n, outputs=parts, attrs=attrs)
    return mean


def angles(e: Emitter, rows: Dim, dim: int) -> None:
    """Cosine and sine of every position, once a step."""
    dtype = e.precisions.activations
    with e.outside(), e.inside("rotary"):
        place = cast(e, e.tensor((rows,), "int64"), rows, 1, "fp32")
        half = e.elementwise("mul", (place,), rows, dim // 2, "fp32")
        both = moved(e, (half, half), rows, dim, "cat", "fp32")
        for function in ("cos", "sin"):
            found = e.elementwise(function, (both,), rows, dim, "fp32")
            found = e.elementwise("mul", (found,), rows, dim, "fp32")
            e.rotation = (*e.rotation[-1:], cast(e, found, rows, dim, dtype))


def rotated(e: Emitter, x: Index, rows: Dim, heads: int, dims: tuple[int, int | None]) -> Index:
    """``x * cos + rotate_half(x) * sin`` of each head.

    Args:
        e: Where to write.
        x: Queries or keys.
        rows: Their tokens.
        heads: Their heads.
        dims: Length of a head, and how much of it is rotated, to be joined with the rest (that may
            be nothing); None: all of it.
    """
    whole, dim = dims[0], dims[1] or dims[0]
    width = heads * dim
    part = x if dim == whole else e.view(x, (rows, width))
    cos, sin = e.rotation
    a = e.elementwise("mul", (part, cos), rows, width)
    half = e.view(x, (rows, width // 2))
    turned = e.elementwise("neg", (half,), rows, width // 2)
    other = moved(e, (turned, half), rows, width, "cat")
    b = e.elementwise("mul", (other, sin), rows, width)
    out = e.elementwise("add", (a, b), rows, width)
    if dims[1] is None:
        return out
    rest = () if dim == whole else (e.view(x, (rows, heads * (whole - dim))),)
    return moved(e, (out, *rest), rows, heads * whole, "cat")


def rotated_halves(
    e: Emitter, x: Index, rows: Dim, heads: int, dims: tuple[int, int | None]
) -> Index:
    """The same where the code turns the two halves of a head one after the other."""
    half = heads * (dims[1] or dims[0]) // 2
    turned = []
    for function in ("add", "add"):  # of which the first subtracts
        parts = tuple(
            e.elementwise("mul", (e.view(x, (rows, half)), angle), rows, half)
            for angle in e.rotation
        )
        turned.append(e.elementwise(function, parts, rows, half))
    return moved(e, tuple(turned), rows, 2 * half, "cat")


def before_delta_rule(
    e: Emitter, m: LinearAttention, rows: Dim, parts: tuple[Index, Index]
) -> None:
    """Parts of the projections laid out one after another, and the rates of decay.

    Args:
        e: Where to write.
        m: The mixer.
        rows: Tokens.
        parts: What the projections yield: queries, keys, values and the gate; rates.
    """
    wide, rates = parts
    keys, values = m.key_heads * m.key_dim, m.value_heads * m.value_dim
    small = m.value_heads
    for source, width in ((wide, values), (wide, values), (rates, small), (rates, small)):
        moved(e, (source,), rows, width, "clone")
    for _ in ("queries", "keys"):
        moved(e, (wide,), rows, keys, "clone")
    moved(e, (wide,), rows, m.conv_channels, "cat")
    e.elementwise("sigmoid", (rates,), rows, small)
    decay = cast(e, e.weight("a_log", (small,)), 1, small, "fp32")
    decay = e.elementwise("neg", (e.elementwise("exp", (decay,), 1, small, "fp32"),), 1, small)
    step = cast(e, rates, rows, small, "fp32")
    step = e.elementwise("add", (step, e.weight("dt_bias", (small,))), rows, small, "fp32")
    step = e.elementwise("softplus", (step,), rows, small, "fp32")
    e.elementwise("mul", (decay, step), rows, small, "fp32")


def activated(e: Emitter, function: str, written: str, x: Index, rows: Dim, width: int) -> Index:
    """An activation: one kernel, or those that the code writes it out in."""
    for step in _COMPOSED.get(written, (function,)):
        x = e.elementwise(step, (x,), rows, width)
    return x


def gate(e: Emitter, function: str, pair: tuple[Index, Index], rows: Dim, width: int) -> Index:
    """The activation of one half, and its product with the other."""
    first = e.elementwise(function, pair[:1], rows, width)
    return e.elementwise("mul", (first, pair[1]), rows, width)


def moved(
    e: Emitter, inputs: tuple[Index, ...], rows: Dim, width: int, function: str, dtype: str = ""
) -> Index:
    """A copy of what is given, put together or in another number format."""
    out = e.activation(rows, width, dtype or None)
    e.op("copy", inputs, (out,), name=function, attrs={"function": function})
    return out
