"""Operations of ML programs to steps. Images are (batch, channels, ...)."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from gambrel.capture.graph.lowering import (
    COPY,
    DENSE,
    INTERPOLATE,
    NORM,
    POOL,
    RECURRENT,
)
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import (
    Rule,
    Vocabulary,
    cast,
    convolve,
    matmul,
    read_state,
    write_state,
)
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.onnx.lowering.attention import SCALED
from gambrel.ops.rules import RuleTable
from gambrel.workload import Role

_rule: RuleTable[Rule] = RuleTable("operation")
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


@_rule(*_STORED)
def _stored(w: Writer, op: FileOperator) -> None:
    """A weight expanded from what is stored: it stays as narrow as that."""
    data = w.of(op.x(_STORED[op.op]))
    for name, edges in op.named.items():
        for edge in edges if name != _STORED[op.op] else []:
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
def _convolution(w: Writer, op: FileOperator) -> None:
    """Weights are (out, in / groups, kernel), of transposed ones (in, out / groups, kernel)."""
    kernel = (w.of(op.x("weight")).shape or ())[2:]
    inputs = [w.of(op.x()), w.of(op.x("weight")), op.maybe("bias")]
    transposed = op.op == "conv_transpose"
    convolve(w, inputs, op.out, kernel, op.integer("groups", 1), transposed=transposed)


@_rule("linear")
def _linear(w: Writer, op: FileOperator) -> None:
    """x, weight (out, in), bias."""
    w.add(DENSE, [op.x(), op.x("weight"), op.maybe("bias")], [op.out])


@_rule("matmul")
def _matmul(w: Writer, op: FileOperator) -> None:
    flags = (op.maybe(f"transpose_{name}") for name in "xy")
    turned = (flag is not None and flag.scalar for flag in flags)
    matmul(w, op, zip((op.x("x"), op.x("y")), turned, strict=True))


@_rule("einsum")
def _einsum(w: Writer, op: FileOperator) -> None:
    w.add("Einsum", [*op.named.get("values", [])], [op.out], equation=op.attrs["equation"])


@_rule("scaled_dot_product_attention")
def _attention(w: Writer, op: FileOperator) -> None:
    inputs = [op.x("query"), op.x("key"), op.x("value"), op.maybe("attn_mask")]
    w.add(SCALED, inputs, [op.out])


@_rule("gelu")
def _gelu(w: Writer, op: FileOperator) -> None:
    names = {"TANH_APPROXIMATION": "gelu_tanh", "SIGMOID_APPROXIMATION": "quick_gelu"}
    w.function(names.get(op.attrs.get("mode", ""), "gelu"), [op.x()], op.out)


@_rule("softmax")
def _softmax(w: Writer, op: FileOperator) -> None:
    w.add("Softmax", [op.x()], [op.out], axis=op.integer("axis", -1))


@_rule("layer_norm")
def _layer_norm(w: Writer, op: FileOperator) -> None:
    x = op.x()
    shape = x.shape or ()
    axes = op.integers("axes") or list(range(1, len(shape)))
    groups = x.numel // max(prod(shape[a] for a in axes), 1)
    inputs = [x, op.maybe("gamma"), op.maybe("beta")]
    w.add(NORM, inputs, [op.out], function="layer_norm", groups=groups)


@_rule("batch_norm", "instance_norm")
def _norm(w: Writer, op: FileOperator) -> None:
    x = op.x()
    shape = x.shape or ()
    batch = op.op == "batch_norm"
    attrs: dict[str, Any] = {"function": op.op, "statistics": not batch}
    attrs["groups"] = shape[1] if batch else shape[0] * shape[1]
    inputs = [x, *(op.maybe(n) for n in ("gamma", "beta", "mean", "variance"))]
    w.add(NORM, inputs, [op.out], **attrs)


@_rule("l2_norm")
def _l2(w: Writer, op: FileOperator) -> None:
    w.add("LpNormalization", [op.x()], [op.out], axis=-1)


@_rule("local_response_norm")
def _local_response(w: Writer, op: FileOperator) -> None:
    w.add("LRN", [op.x()], [op.out], size=op.integer("size", 1))


@_rule("max_pool", "avg_pool", "l2_pool")
def _pool(w: Writer, op: FileOperator) -> None:
    function = {"m": "max", "a": "avg", "l": "lp"}[op.op[0]]
    window = prod(op.integers("kernel_sizes"))
    w.add(POOL, [op.x()], [op.out], function=function, window=window)


_rule("cast", "identity", "copy")(cast)
_rule("read_state")(read_state)


@_rule("transpose")
def _transpose(w: Writer, op: FileOperator) -> None:
    w.add("Transpose", [op.x()], [op.out], perm=op.integers("perm"))


@_rule("concat", "stack")
def _concat(w: Writer, op: FileOperator) -> None:
    w.add(COPY, [*op.named.get("values", [])], [op.out], function="cat")


@_rule("split")
def _split(w: Writer, op: FileOperator) -> None:
    w.add("Split", [op.x()], op.outputs, axis=op.integer("axis", 0))


@_rule("gather")
def _gather(w: Writer, op: FileOperator) -> None:
    w.add("Gather", [op.x(), op.x("indices")], [op.out], axis=op.integer("axis", 0))


@_rule("gather_along_axis", "gather_nd")
def _gather_elements(w: Writer, op: FileOperator) -> None:
    w.add("GatherElements", [op.x(), op.x("indices")], [op.out])


@_rule("scatter", "scatter_nd", "scatter_along_axis")
def _scatter(w: Writer, op: FileOperator) -> None:
    w.add("ScatterND", [op.x("data"), op.x("indices"), op.x("updates")], [op.out])


@_rule("upsample_nearest_neighbor", "upsample_bilinear", "resize_bilinear")
@_rule("resize_nearest_neighbor", "resize")
def _resize(w: Writer, op: FileOperator) -> None:
    nearest = "nearest" in op.op or "NEAREST" in op.attrs.get("interpolation_mode", "")
    w.add(INTERPOLATE, [op.x()], [op.out], mode="nearest" if nearest else "bilinear")


@_rule("topk", "argsort")
def _topk(w: Writer, op: FileOperator) -> None:
    w.add("TopK", [op.x()], op.outputs, axis=op.integer("axis", -1))


@_rule("lstm", "gru", "rnn")
def _recurrent(w: Writer, op: FileOperator) -> None:
    """X (steps, batch, width), weights of x (gates·hidden, width), of the state, bias."""
    shape, weight = op.x().shape or (), op.x("weight_ih").shape or ()
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op.op]
    both = op.maybe("weight_ih_back") is not None
    kind = op.op if op.op != "rnn" else f"rnn_{op.attrs.get('activation', 'tanh')}"
    names = ("x", "weight_ih", "weight_hh", "bias", "weight_ih_back", "weight_hh_back", "bias_back")
    sizes = {"seq": shape[0], "batch": shape[1], "input_size": shape[2], "projection": 0}
    rest = {"hidden": weight[0] // gates, "directions": 2 if both else 1, "cell": kind}
    inputs = [op.maybe(n) for n in (*names, "initial_h", "initial_c")]
    bias = op.maybe("bias") is not None
    w.add(RECURRENT, inputs, op.outputs, **sizes, **rest, bias=bias)


@_rule("coreml_update_state", "write_state")
def _update(w: Writer, op: FileOperator) -> None:
    write_state(w, op.x("value"), op.outputs[0] if op.outputs else None)


#: Of ML programs.
PROGRAMS: Final = Vocabulary(
    family="coreml",
    rules=_rule,
    same=_SAME,
    functions=_FUNCTIONS,
    reductions=_REDUCTIONS,
    copies=_COPIES,
    views=_VIEWS,
    fills=_FILLS,
    free=_FREE,
)
