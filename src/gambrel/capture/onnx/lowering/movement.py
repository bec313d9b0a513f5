"""Ops that move data: views, copies, gathers, scatters, fills, random numbers."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Role, Sizes

#: Where the memory order allows it, another look at the same memory; `views` decides.
VIEWS: Final = (
    "Reshape Transpose Squeeze Unsqueeze Flatten Identity Expand Slice Split Shape Size"
    " gambrel::Part Optional OptionalGetElement"
)
#: Neutral function → operators that read all and write all.
COPIES: Final[dict[str, str]] = {
    "cat": "Concat",
    "pad": "Pad CenterCropPad",
    "repeat": "Tile",
    "layout": "DepthToSpace SpaceToDepth",
    "flip": "ReverseSequence",
}
_FUNCTION_OF: Final = {op: f for f, names in COPIES.items() for op in names.split()}
_RANDOM: Final[dict[str, str]] = {
    "RandomNormal": "normal",
    "RandomNormalLike": "normal",
    "RandomUniform": "uniform",
    "RandomUniformLike": "uniform",
    "Bernoulli": "bernoulli",
    "Multinomial": "multinomial",
}


def view(op: NodeOperands) -> Lowered:
    """A view; where that is not possible, a copy of the first input."""
    if op.step.op in ("Shape", "Size"):
        return op.described("view")
    return op.described("copy", attrs={"function": "contiguous"}, inputs=(op.x(),))


def copy(op: NodeOperands) -> Lowered:
    """Every tensor read once, every result written once."""
    inputs = op.read if op.step.op == "Concat" else (op.x(),)
    return op.described("copy", attrs={"function": _FUNCTION_OF[op.step.op]}, inputs=inputs)


@lowers("Gather")
def gather(op: NodeOperands) -> Lowered:
    """data, indices: rows of a table of weights are an embedding."""
    table, indices, out = op.x(0), op.x(1), op.out
    is_table = op.step.x().role is Role.WEIGHT and len(table.shape) == 2
    if is_table and not int(op.attr("axis", 0)):
        sizes: Sizes = {
            "rows": indices.numel,
            "width": table.shape[1],
            "table_rows": table.shape[0],
        }
        return op.described("embedding", sizes, {"mode": "gather"}, inputs=(table, indices))
    return op.described("gather", {"elements": out.numel}, inputs=(table, indices))


@lowers("GatherElements", "GatherND", "Compress", "ai.onnx.ml::ArrayFeatureExtractor")
def picked(op: NodeOperands) -> Lowered:
    """data, indices: as many elements as results."""
    return op.described("gather", {"elements": op.out.numel}, inputs=(op.x(0), op.x(1)))


@lowers("com.microsoft::GatherBlockQuantized")
def narrow_rows(op: NodeOperands) -> Lowered:
    """Table of few bits, indices, scales, zero points: rows looked up and expanded."""
    table, indices, out = op.x(0), op.x(1), op.out
    rows: Sizes = {"rows": indices.numel, "width": out.shape[-1], "table_rows": table.shape[0]}
    found = op.temporary(out.shape, table.dtype)
    return [
        op.described(
            "embedding", rows, {"mode": "gather"}, inputs=(table, indices), outputs=(found,)
        ),
        op.described(
            "elementwise", {"elements": out.numel}, {"function": "dequantize"}, inputs=(found,)
        ),
    ]


@lowers("ScatterND", "ScatterElements", "Scatter")
def scatter(op: NodeOperands) -> Lowered:
    """data, indices, updates: the data copied, updates written or added at their places."""
    data, indices, updates = (op.x(i) for i in range(3))
    attrs = {"accumulate": op.attr("reduction", "none") != "none", "in_place": False}
    inputs = (indices, updates, data)
    return op.described("scatter", {"elements": updates.numel}, attrs, inputs=inputs)


@lowers("TensorScatter")
def cache_update(op: NodeOperands) -> Lowered:
    """cache, update, places: the update written into the cache, the rest left alone."""
    update = op.x(1)
    attrs = {"accumulate": False, "in_place": True}
    return op.described(
        "scatter", {"elements": update.numel}, attrs, inputs=(update, op.optional(2))
    )


@lowers("MaxUnpool")
def unpool(op: NodeOperands) -> Lowered:
    """x, places: every element written at its place in zeros."""
    return op.described("scatter", {"elements": op.x().numel}, {"accumulate": False})


@lowers("OneHot")
def one_hot(op: NodeOperands) -> Lowered:
    """indices: zeros, and a one a row."""
    return op.described(
        "scatter", {"elements": op.x().numel}, {"accumulate": False}, inputs=(op.x(),)
    )


@lowers(
    "Constant",
    "ConstantOfShape",
    "Range",
    "EyeLike",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
)
def fill(op: NodeOperands) -> Lowered:
    """Results written from nothing."""
    return op.described("fill", {"elements": op.out.numel}, inputs=())


@lowers("NonZero")
def nonzero(op: NodeOperands) -> Lowered:
    """One comparison an element; the places found are written."""
    return op.described("elementwise", {"elements": op.x().numel}, {"function": "compare"})


def random(op: NodeOperands) -> Lowered:
    """One draw a result; probabilities are read, templates are not."""
    function = _RANDOM[op.step.op]
    reads = op.read if function in ("bernoulli", "multinomial") else ()
    return op.described("random", {"elements": op.out.numel}, {"function": function}, inputs=reads)


for _op in VIEWS.split():
    lowers(_op)(view)
for _op in _FUNCTION_OF:
    lowers(_op)(copy)
for _op in _RANDOM:
    lowers(_op)(random)
