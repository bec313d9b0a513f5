"""TFLite operators to steps. Images are (batch, height, width, channels)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from gambrel.capture.graph.lowering import (
    CONVOLUTION,
    COPY,
    DENSE,
    INTERPOLATE,
    POOL,
    RECURRENT,
    REDUCE,
)
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import (
    Rule,
    Vocabulary,
    matmul,
    read_state,
    squared_difference,
    write_state,
)
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.edges import Edge
from gambrel.capture.tflite.tables import (
    ACTIVATIONS,
    FILLS,
    FREE,
    FUNCTIONS,
    POOLS,
    REDUCTIONS,
    SAME,
)
from gambrel.ops.rules import RuleTable
from gambrel.workload import Role

_rule: RuleTable[Rule] = RuleTable("operator")

HYBRID: Final = (
    "float inputs of matmuls with integer weights are quantized on the fly, as LiteRT's CPU "
    "kernels do"
)


def _ended(write: Callable[[Writer, FileOperator, Edge], None]) -> Rule:
    """A rule that writes an operator, then the activation that is fused to it."""

    def rule(w: Writer, node: FileOperator) -> None:
        activation = ACTIVATIONS.get(node.attrs.get("FusedActivationFunction", 0))
        if activation is None:
            write(w, node, node.out)
            return
        between = w.between(node.out)
        write(w, node, between)
        label, w.label = w.label, f"{w.label}.{activation.upper()}"
        w.function(activation, [between], node.out)
        w.label = label

    return rule


@_rule(*SAME)
@_ended
def _same(w: Writer, node: FileOperator, out: Edge) -> None:
    op, inputs = SAME[node.op], node.inputs
    source = node.x() if op in ("Cast", "Reshape") else None
    if source is not None and op == "Reshape" and w.of(source).is_stored:
        w.alias(out, w.reshaped(source, out.shape or ()))
    elif source is not None and (source.code, source.shape) == (out.code, out.shape):
        w.alias(out, source)
    else:
        alone = source is not None and source.code == out.code
        w.add(op, [source] if alone else inputs, [out])


@_rule("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D")
@_ended
def _convolution(w: Writer, node: FileOperator, to: Edge) -> None:
    """x, weight (out, ..., in/groups), depthwise (1, ..., out), of volumes (..., in, out); bias."""
    x, weight, out = node.shape(0), node.shape(1), node.out.shape or ()
    kernel, taken = weight[1:-1], weight[-1]
    if node.op == "DEPTHWISE_CONV_2D":
        taken = 1
    elif node.op == "CONV_3D":
        kernel, taken = weight[:3], weight[3]
    sizes = {
        "batch": x[0],
        "out_channels": out[-1],
        "in_channels": x[-1],
        "groups": x[-1] // taken,
        "kernel": kernel,
        "spatial": out[1:-1],
    }
    _product(w, CONVOLUTION, (0, 1, 2), node, to, sizes)


@_rule("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
@_ended
def _transposed(w: Writer, node: FileOperator, to: Edge) -> None:
    """Shape of the result, weight (out, ..., in), x, bias; of volumes (..., out, in)."""
    weight, x, out = node.shape(1), node.shape(2), node.out.shape or ()
    sizes = {
        "batch": x[0],
        "out_channels": out[-1],
        "in_channels": x[-1],
        "kernel": weight[:3] if node.op.startswith("CONV_3D") else weight[1:-1],
        "spatial": x[1:-1],
        "transposed": True,
    }
    _product(w, CONVOLUTION, (2, 1, 3), node, to, sizes)


@_rule("FULLY_CONNECTED")
@_ended
def _dense(w: Writer, node: FileOperator, to: Edge) -> None:
    """x, weight (out, in), bias."""
    _product(w, DENSE, (0, 1, 2), node, to, {})


def _product(
    w: Writer,
    op: str,
    places: tuple[int, int, int],
    node: FileOperator,
    out: Edge,
    sizes: dict[str, Any],
) -> None:
    x, weight = w.of(node.x(places[0])), w.of(node.x(places[1]))
    attrs = dict(sizes)
    narrow = x.code == 1 and weight.is_stored and weight.code in (2, 3, 22)
    if narrow and node.x(places[1]) is weight:  # not merely stored so, and expanded by an operator
        x = _quantized(w, x)
        attrs["quantized"] = {"compute_dtype": "int8"}
    w.add(op, [x, weight, node.maybe(places[2])], [out], **attrs)


def _quantized(w: Writer, x: Edge) -> Edge:
    """A real tensor in integers, as kernels for narrow weights make it."""
    w.note(HYBRID)
    out = w.between(x, 3)
    label, w.label = w.label, f"{w.label}.QUANTIZE"
    w.add("DynamicQuantizeLinear", [x], [out])
    w.label = label
    return out


@_rule("BATCH_MATMUL")
def _matmul(w: Writer, node: FileOperator) -> None:
    """Either operand possibly transposed."""
    flags = (node.attrs.get("AdjX"), node.attrs.get("AdjY"))
    matmul(w, node, zip((node.x(0), node.x(1)), flags, strict=True))


@_rule("DEQUANTIZE", "DENSIFY")
def _dequantize(w: Writer, node: FileOperator) -> None:
    """Of a stored tensor it says how it is stored; of any other it is work."""
    source = w.of(node.x())
    if source.is_stored:
        source.role = Role.WEIGHT if source.numel > 1 else source.role
        w.alias(node.out, source)
    elif node.op == "DENSIFY":
        w.add(COPY, [source], [node.out], function="layout")
    else:
        w.function("dequantize", [source], node.out)


@_rule("GELU")
def _gelu(w: Writer, node: FileOperator) -> None:
    w.function("gelu_tanh" if node.attrs.get("Approximate") else "gelu", [node.x()], node.out)


@_rule("SOFTMAX", "LOG_SOFTMAX")
def _softmax(w: Writer, node: FileOperator) -> None:
    op = "Softmax" if node.op == "SOFTMAX" else "LogSoftmax"
    w.add(op, [node.x()], [node.out], axis=-1)


@_rule("L2_NORMALIZATION")
@_ended
def _l2(w: Writer, node: FileOperator, out: Edge) -> None:
    w.add("LpNormalization", [node.x()], [out], axis=-1)


@_rule("LOCAL_RESPONSE_NORMALIZATION")
def _local_response(w: Writer, node: FileOperator) -> None:
    w.add("LRN", [node.x()], [node.out], size=2 * int(node.attrs.get("Radius", 0)) + 1)


@_rule(*POOLS)
@_ended
def _pool(w: Writer, node: FileOperator, out: Edge) -> None:
    window = int(node.attrs["FilterHeight"]) * int(node.attrs["FilterWidth"])
    w.add(POOL, [node.x()], [out], function=POOLS[node.op], window=window)


@_rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(w: Writer, node: FileOperator) -> None:
    mode = "bilinear" if node.op == "RESIZE_BILINEAR" else "nearest"
    w.add(INTERPOLATE, [node.x()], [node.out], mode=mode)


@_rule("CONCATENATION", "PACK")
@_ended
def _concatenation(w: Writer, node: FileOperator, out: Edge) -> None:
    w.add(COPY, node.inputs, [out], function="cat")


@_rule("TRANSPOSE")
def _transpose(w: Writer, node: FileOperator) -> None:
    perm = _integers(w, node.maybe(1))
    if perm is None or sorted(perm) != list(range(len(node.shape()))):
        w.add(COPY, [node.x()], [node.out], function="layout")
    else:
        w.add("Transpose", [node.x()], [node.out], perm=perm)


@_rule("SLICE")
def _slice(w: Writer, node: FileOperator) -> None:
    starts = _integers(w, node.maybe(1))
    if starts is None:
        w.add(COPY, [node.x()], [node.out], function="contiguous")
    else:
        w.add("Slice", [node.x()], [node.out], starts=starts, axes=list(range(len(starts))))


@_rule("STRIDED_SLICE")
def _strided_slice(w: Writer, node: FileOperator) -> None:
    """x, begin, end, strides; bits of masks say what else happens to an axis."""
    starts, strides = _integers(w, node.maybe(1)), _integers(w, node.maybe(3))
    masks = {k: int(node.attrs.get(f"{k}Mask", 0)) for k in ("Begin", "Shrink", "NewAxis")}
    shrunk = int(node.attrs.get("ShrinkAxisMask", 0))
    hard = masks["NewAxis"] or int(node.attrs.get("EllipsisMask", 0))
    if starts is None or strides is None or hard:
        w.add(COPY, [node.x()], [node.out], function="contiguous")
        return
    starts = [0 if masks["Begin"] >> i & 1 else s for i, s in enumerate(starts)]
    kept = list(node.out.shape or ())
    for axis in range(len(starts)):
        if shrunk >> axis & 1:
            kept.insert(axis, 1)
            strides[axis] = 1
    part = Edge(f"{node.out.name}_part", tuple(kept), node.out.code) if shrunk else node.out
    w.add("Slice", [node.x()], [part], starts=starts, steps=strides)
    if shrunk:
        w.add("Reshape", [part], [node.out])


@_rule("SPLIT", "SPLIT_V", "UNPACK")
def _split(w: Writer, node: FileOperator) -> None:
    """SPLIT has its axis first, SPLIT_V third, UNPACK among its options."""
    if node.op == "UNPACK":
        w.add("Split", [node.x()], node.outputs, axis=int(node.attrs["Axis"]), squeeze=True)
        return
    first = node.op == "SPLIT"
    axis = _integers(w, node.maybe(0 if first else 2))
    x = node.x(1 if first else 0)
    w.add("Split", [x], node.outputs, axis=(axis or [0])[0])


@_rule("GATHER")
def _gather(w: Writer, node: FileOperator) -> None:
    op = "GatherElements" if node.attrs.get("BatchDims") else "Gather"
    w.add(op, [node.x(0), node.x(1)], [node.out], axis=int(node.attrs.get("Axis", 0)))


@_rule("EMBEDDING_LOOKUP")
def _lookup(w: Writer, node: FileOperator) -> None:
    w.add("Gather", [node.x(1), node.x(0)], [node.out], axis=0)


@_rule("SCATTER_ND")
def _scatter(w: Writer, node: FileOperator) -> None:
    """indices, updates, shape: zeros, then updates at their places."""
    zeros = w.between(node.out)
    w.add("Constant", [], [zeros])
    w.add("ScatterND", [zeros, node.x(0), node.x(1)], [node.out])


@_rule("DYNAMIC_UPDATE_SLICE")
def _update(w: Writer, node: FileOperator) -> None:
    """operand, update, starts: the operand is written in place."""
    w.add("TensorScatter", [node.x(0), node.x(1), node.maybe(2)], [node.out])


@_rule("ONE_HOT")
def _one_hot(w: Writer, node: FileOperator) -> None:
    w.add("OneHot", [node.x()], [node.out])


@_rule("TOPK_V2")
def _topk(w: Writer, node: FileOperator) -> None:
    w.add("TopK", [node.x()], node.outputs, axis=-1)


@_rule("CUMSUM")
def _cumsum(w: Writer, node: FileOperator) -> None:
    w.add("CumSum", [node.x(), node.maybe(1)], [node.out])


@_rule("ASSIGN_VARIABLE")
def _assign(w: Writer, node: FileOperator) -> None:
    write_state(w, node.x(1))


@_rule("UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(w: Writer, node: FileOperator) -> None:
    """x, then weights of the four gates (units, in) from input 1, of the states from input 5."""
    x, weight = node.shape(), node.shape(2)
    both = node.op.startswith("BI")
    projection = None if both else node.maybe(16)
    steps, batch = (x[0], x[1]) if node.attrs.get("TimeMajor", both) else (x[1], x[0])
    w.add(
        RECURRENT,
        node.inputs,
        [node.out],
        batch=batch,
        seq=steps,
        input_size=x[2],
        hidden=weight[0],
        directions=2 if both else 1,
        projection=(projection.shape or (0,))[0] if projection is not None else 0,
        # Without an input gate of its own a cell has three products: another cell.
        cell="lstm" if node.maybe(1) is not None else "lstm of coupled gates",
        bias=any(node.maybe(i) is not None for i in range(12, 16)),
    )


@_rule("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def _rnn(w: Writer, node: FileOperator) -> None:
    """x, weight (units, in), weight of the state, bias, state."""
    x, weight = node.shape(), node.shape(1)
    kind = {1: "rnn_relu", 4: "rnn_tanh"}.get(node.attrs.get("FusedActivationFunction", 0), "other")
    whole = (x[0], 1, x[1]) if node.op == "RNN" else x
    if node.attrs.get("TimeMajor"):
        whole = (x[1], x[0], x[2])
    sizes = dict(zip(("batch", "seq", "input_size"), whole, strict=True))
    rest = {"hidden": weight[0], "directions": 1, "projection": 0, "bias": True, "cell": kind}
    w.add(RECURRENT, node.inputs, [node.out], **sizes, **rest)


@_rule("SVDF")
def _svdf(w: Writer, node: FileOperator) -> None:
    """X (batch, in), weight of features (filters, in), of time (filters, memory), bias, state."""
    x, filters = node.shape(), node.shape(2)
    made = Edge("features", (x[0], filters[0]), node.out.code)
    window = Edge("window", (x[0], prod(filters)), node.out.code)
    w.add(DENSE, [node.x(0), node.x(1)], [made])
    w.function("mul", [node.maybe(4), node.x(2), made], window)
    w.add(REDUCE, [window], [node.out], function="sum")


def _integers(w: Writer, edge: Edge | None) -> list[int] | None:
    """The whole numbers of a small constant."""
    value = None if edge is None else w.of(edge).value
    return None if value is None else [int(v) for v in value.reshape(-1)]


_rule("SQUARED_DIFFERENCE")(squared_difference)
_rule("READ_VARIABLE")(read_state)

#: Of TFLite's schema.
BUILTINS: Final = Vocabulary(
    family="tflite",
    rules=_rule,
    same={},
    functions=FUNCTIONS,
    reductions=REDUCTIONS,
    fills=FILLS,
    free=FREE,
)
