"""Operations of ML programs to steps. Images are (batch, channels, ...)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from gambrel.capture.coreml.operations import MilOperation
from gambrel.capture.graph.lowering import (
    CONVOLUTION,
    COPY,
    DENSE,
    INTERPOLATE,
    NORM,
    POOL,
    RECURRENT,
    REDUCE,
)
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.onnx.lowering.attention import SCALED
from gambrel.workload import Role

Rule = Callable[[Writer, MilOperation], None]
_RULES: Final[dict[str, Rule]] = {}
#: Type → operator of ONNX: what decompositions are recognised by.
_SAME: Final[dict[str, str]] = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "real_div": "Div",
    "pow": "Pow",
    "relu": "Relu",
    "relu6": "Clip",
    "clip": "Clip",
    "sigmoid": "Sigmoid",
    "sigmoid_hard": "HardSigmoid",
    "tanh": "Tanh",
    "erf": "Erf",
    "softplus": "Softplus",
}
#: Type → function of `gambrel.ops.elementwise`; tensors are x, y, and what `_OPERANDS` lists.
_FUNCTIONS: Final[dict[str, str]] = {
    **{n: n for n in ("maximum", "minimum", "prelu", "leaky_relu", "silu", "softsign", "elu")},
    **{n: n for n in ("exp", "exp2", "log", "sqrt", "rsqrt", "square", "abs", "sign")},
    **{n: n for n in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh")},
    **{n: n for n in ("acosh", "atanh", "floor", "ceil", "round", "threshold")},
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater"), "compare"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), "logical"),
    "greater_equal": "compare",
    "floor_div": "floor_divide",
    "mod": "remainder",
    "thresholded_relu": "threshold",
    "inverse": "reciprocal",
    "select": "where",
    "quantize": "quantize",
    "dequantize": "dequantize",
}
_OPERANDS: Final = ("cond", "x", "y", "a", "b", "input")
_REDUCTIONS: Final[dict[str, str]] = {
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "reduce_prod": "prod",
    "reduce_l1_norm": "norm_1",
    "reduce_l2_norm": "norm",
    "reduce_sum_square": "sum_of_squares",
    "reduce_log_sum_exp": "logsumexp",
    "reduce_argmax": "argmax",
    "reduce_argmin": "argmin",
}
_VIEWS: Final = frozenset({"reshape", "squeeze", "expand_dims", "flatten2d", "reshape_like"})
_COPIES: Final[dict[str, str]] = {
    "pad": "pad",
    "tile": "repeat",
    "pixel_shuffle": "layout",
    "pixel_unshuffle": "layout",
    "depth_to_space": "layout",
    "space_to_depth": "layout",
    "space_to_batch": "layout",
    "batch_to_space": "layout",
    "reverse": "flip",
    "slice_by_index": "contiguous",
    "slice_by_size": "contiguous",
    "sliding_windows": "contiguous",
}
_FILLS: Final = frozenset({"fill", "fill_like", "range_1d"})
_FREE: Final = frozenset({"shape", "const"})
#: Say how a weight is stored; the argument with the numbers.
_STORED: Final[dict[str, str]] = {
    "constexpr_affine_dequantize": "quantized_data",
    "constexpr_blockwise_shift_scale": "data",
    "constexpr_cast": "source_val",
    "constexpr_lut_to_dense": "indices",
    "constexpr_sparse_to_dense": "nonzero_data",
    "constexpr_lut_to_sparse": "indices_nonzero_data",
    "constexpr_sparse_blockwise_shift_scale": "nonzero_data",
}


def translate(w: Writer, op: MilOperation) -> None:
    """Writes the steps of an operation; one without a rule is written as it is: unmodelled."""
    rule = _RULES.get(op.kind)
    if rule is not None:
        rule(w, op)
    elif op.kind in _SAME:
        w.add(_SAME[op.kind], _operands(op), [op.out])
    elif op.kind in _FUNCTIONS:
        w.function(_FUNCTIONS[op.kind], _operands(op), op.out)
    elif op.kind in _REDUCTIONS:
        _reduce(w, op)
    elif op.kind in _VIEWS:
        w.add("Reshape", [op.x()], [op.out])
    elif op.kind in _COPIES:
        w.add(COPY, [op.x()], [op.out], function=_COPIES[op.kind])
    elif op.kind in _FILLS:
        w.add("Constant", [], [op.out])
    elif op.kind in _STORED:
        _stored(w, op)
    elif op.kind not in _FREE:
        inputs: list[Edge | None] = [e for edges in op.arguments.values() for e in edges]
        w.add(f"coreml::{op.kind}", inputs, op.outputs)


def _operands(op: MilOperation) -> list[Edge | None]:
    return [op.maybe(name) for name in _OPERANDS if name in op.arguments]


def _rule(*kinds: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def _stored(w: Writer, op: MilOperation) -> None:
    """A weight expanded from what is stored: it stays as narrow as that."""
    data = w.of(op.x(_STORED[op.kind]))
    for name, edges in op.arguments.items():
        for edge in edges if name != _STORED[op.kind] else []:
            edge.role = Role.BUFFER if edge.numel > 1 else Role.CONSTANT
    if not data.is_stored:
        w.function("dequantize", [data], op.out)
        return
    code = data.code
    table = op.maybe("lut")
    if code == 2 and table is not None and table.shape is not None and len(table.shape) == 1:
        # Before iOS 18 indices of few bits are packed in bytes: as many entries as the bits tell.
        code = {4: 25, 16: 21}.get(table.numel, 2)
    found = Edge(op.out.name, op.out.shape, code, None, Role.WEIGHT, data.place)
    if data in w.trace.stored:
        w.trace.stored[w.trace.stored.index(data)] = found
    w.alias(op.out, found)


@_rule("conv", "conv_transpose")
def _convolution(w: Writer, op: MilOperation) -> None:
    """x, weight (out, in/groups, ...), transposed (in, out/groups, ...), bias."""
    x, weight = w.of(op.x()), w.of(op.x("weight"))
    transposed = op.kind == "conv_transpose"
    shape, out = x.shape or (), op.out.shape or ()
    sizes = {
        "batch": shape[0],
        "out_channels": out[1],
        "in_channels": shape[1],
        "groups": op.integer("groups", 1),
        "kernel": (weight.shape or ())[2:],
        "spatial": shape[2:] if transposed else out[2:],
        "transposed": transposed,
    }
    w.add(CONVOLUTION, [x, weight, op.maybe("bias")], [op.out], **sizes)


@_rule("linear")
def _linear(w: Writer, op: MilOperation) -> None:
    """x, weight (out, in), bias."""
    w.add(DENSE, [op.x(), op.x("weight"), op.maybe("bias")], [op.out])


@_rule("matmul")
def _matmul(w: Writer, op: MilOperation) -> None:
    sides = []
    for name in ("x", "y"):
        edge = w.of(op.x(name))
        flag = op.maybe(f"transpose_{name}")
        sides.append(_swapped(w, edge) if flag is not None and flag.scalar else edge)
    w.add("MatMul", [*sides], [op.out])


def _swapped(w: Writer, edge: Edge) -> Edge:
    shape = edge.shape or ()
    rank = len(shape)
    out = Edge(f"{edge.name}_swapped", (*shape[:-2], shape[-1], shape[-2]), edge.code)
    w.add("Transpose", [edge], [out], perm=[*range(rank - 2), rank - 1, rank - 2])
    return out


@_rule("einsum")
def _einsum(w: Writer, op: MilOperation) -> None:
    w.add("Einsum", [*op.arguments.get("values", [])], [op.out], equation=op.texts["equation"])


@_rule("scaled_dot_product_attention")
def _attention(w: Writer, op: MilOperation) -> None:
    inputs = [op.x("query"), op.x("key"), op.x("value"), op.maybe("attn_mask")]
    w.add(SCALED, inputs, [op.out])


@_rule("gelu")
def _gelu(w: Writer, op: MilOperation) -> None:
    names = {"TANH_APPROXIMATION": "gelu_tanh", "SIGMOID_APPROXIMATION": "quick_gelu"}
    w.function(names.get(op.texts.get("mode", ""), "gelu"), [op.x()], op.out)


@_rule("softmax")
def _softmax(w: Writer, op: MilOperation) -> None:
    w.add("Softmax", [op.x()], [op.out], axis=op.integer("axis", -1))


@_rule("layer_norm")
def _layer_norm(w: Writer, op: MilOperation) -> None:
    x = op.x()
    shape = x.shape or ()
    axes = op.integers("axes") or list(range(1, len(shape)))
    groups = x.numel // max(prod(shape[a] for a in axes), 1)
    inputs = [x, op.maybe("gamma"), op.maybe("beta")]
    w.add(NORM, inputs, [op.out], function="layer_norm", groups=groups)


@_rule("batch_norm", "instance_norm")
def _norm(w: Writer, op: MilOperation) -> None:
    x = op.x()
    shape = x.shape or ()
    batch = op.kind == "batch_norm"
    attrs: dict[str, Any] = {"function": op.kind, "statistics": not batch}
    attrs["groups"] = shape[1] if batch else shape[0] * shape[1]
    inputs = [x, *(op.maybe(n) for n in ("gamma", "beta", "mean", "variance"))]
    w.add(NORM, inputs, [op.out], **attrs)


@_rule("l2_norm")
def _l2(w: Writer, op: MilOperation) -> None:
    w.add("LpNormalization", [op.x()], [op.out], axis=-1)


@_rule("local_response_norm")
def _local_response(w: Writer, op: MilOperation) -> None:
    w.add("LRN", [op.x()], [op.out], size=op.integer("size", 1))


@_rule("max_pool", "avg_pool", "l2_pool")
def _pool(w: Writer, op: MilOperation) -> None:
    function = {"m": "max", "a": "avg", "l": "lp"}[op.kind[0]]
    window = prod(op.integers("kernel_sizes"))
    w.add(POOL, [op.x()], [op.out], function=function, window=window)


def _reduce(w: Writer, op: MilOperation) -> None:
    x = op.x()
    if x.numel == op.out.numel:
        w.add("Reshape", [x], [op.out])
    else:
        w.add(REDUCE, [x], [op.out], function=_REDUCTIONS[op.kind])


@_rule("cast", "identity", "copy")
def _cast(w: Writer, op: MilOperation) -> None:
    x = w.of(op.x())
    if x.is_stored or x.code == op.out.code:
        w.alias(op.out, x)
    else:
        w.add("Cast", [x], [op.out])


@_rule("transpose")
def _transpose(w: Writer, op: MilOperation) -> None:
    w.add("Transpose", [op.x()], [op.out], perm=op.integers("perm"))


@_rule("concat", "stack")
def _concat(w: Writer, op: MilOperation) -> None:
    w.add(COPY, [*op.arguments.get("values", [])], [op.out], function="cat")


@_rule("split")
def _split(w: Writer, op: MilOperation) -> None:
    w.add("Split", [op.x()], op.outputs, axis=op.integer("axis", 0))


@_rule("gather")
def _gather(w: Writer, op: MilOperation) -> None:
    w.add("Gather", [op.x(), op.x("indices")], [op.out], axis=op.integer("axis", 0))


@_rule("gather_along_axis", "gather_nd")
def _gather_elements(w: Writer, op: MilOperation) -> None:
    w.add("GatherElements", [op.x(), op.x("indices")], [op.out])


@_rule("scatter", "scatter_nd", "scatter_along_axis")
def _scatter(w: Writer, op: MilOperation) -> None:
    w.add("ScatterND", [op.x("data"), op.x("indices"), op.x("updates")], [op.out])


@_rule("upsample_nearest_neighbor", "upsample_bilinear", "resize_bilinear")
@_rule("resize_nearest_neighbor", "resize")
def _resize(w: Writer, op: MilOperation) -> None:
    nearest = "nearest" in op.kind or "NEAREST" in op.texts.get("interpolation_mode", "")
    w.add(INTERPOLATE, [op.x()], [op.out], mode="nearest" if nearest else "bilinear")


@_rule("topk", "argsort")
def _topk(w: Writer, op: MilOperation) -> None:
    w.add("TopK", [op.x()], op.outputs, axis=op.integer("axis", -1))


@_rule("lstm", "gru", "rnn")
def _recurrent(w: Writer, op: MilOperation) -> None:
    """X (steps, batch, width), weights of x (gates·hidden, width), of the state, bias."""
    shape, weight = op.x().shape or (), op.x("weight_ih").shape or ()
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op.kind]
    both = op.maybe("weight_ih_back") is not None
    kind = op.kind if op.kind != "rnn" else f"rnn_{op.texts.get('activation', 'tanh')}"
    names = ("x", "weight_ih", "weight_hh", "bias", "weight_ih_back", "weight_hh_back", "bias_back")
    sizes = {"seq": shape[0], "batch": shape[1], "input_size": shape[2], "projection": 0}
    rest = {"hidden": weight[0] // gates, "directions": 2 if both else 1, "cell": kind}
    inputs = [op.maybe(n) for n in (*names, "initial_h", "initial_c")]
    bias = op.maybe("bias") is not None
    w.add(RECURRENT, inputs, op.outputs, **sizes, **rest, bias=bias)


@_rule("read_state")
def _read(_: Writer, op: MilOperation) -> None:
    op.out.role = Role.STATE


@_rule("coreml_update_state", "write_state")
def _update(w: Writer, op: MilOperation) -> None:
    value = op.x("value")
    state = op.outputs[0] if op.outputs else None
    target = state if state is not None else w.between(value)
    target.role = Role.STATE
    w.add(COPY, [value], [target], function="contiguous")
