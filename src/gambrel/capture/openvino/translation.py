"""OpenVINO layers to steps. Images are (batch, channels, ...)."""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import Final

from gambrel.capture.graph.lowering import COPY, DENSE, INTERPOLATE, NORM, POOL, RECURRENT
from gambrel.capture.graph.operator import FileOperator
from gambrel.capture.graph.translation import (
    Rule,
    Vocabulary,
    cast,
    convolve,
    matmul,
    read_state,
    squared_difference,
    swapped,
    write_state,
)
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.control import PART
from gambrel.capture.onnx.lowering.attention import SCALED
from gambrel.capture.openvino.tables import FREE, FUNCTIONS, PARTS, REDUCTIONS, SAME, VIEWS
from gambrel.ops.rules import RuleTable
from gambrel.workload import Role

_rule: RuleTable[Rule] = RuleTable("layer type")
#: int4, int8 and the like, by onnx.TensorProto.DataType.
_NARROW: Final = frozenset({2, 3, 17, 19, 21, 22, 23, 25})


def _is_true(node: FileOperator, name: str) -> bool:
    return str(node.attrs.get(name, "false")).lower() in ("true", "1")


def _numbers(node: FileOperator, name: str) -> list[int]:
    """A list of whole numbers among the attributes."""
    return [int(part) for part in str(node.attrs.get(name, "")).split(",") if part.strip()]


@_rule("Subtract", "Multiply")
def _scale(w: Writer, node: FileOperator) -> None:
    """A stored integer less its zero point, times its scale, is how it is stored."""
    source, other = w.of(node.x(0)), w.of(node.x(1))
    if source.is_stored and source.code in _NARROW and other.is_stored:
        source.role, other.role = Role.WEIGHT, Role.BUFFER
        w.alias(node.out, source)
    else:
        w.add(SAME[node.op], [source, other], [node.out])


@_rule("FakeQuantize")
def _fake_quantize(w: Writer, node: FileOperator) -> None:
    """Integers between two ops; of a stored tensor its storage."""
    x = w.of(node.x())
    for bound in node.inputs[1:]:
        if bound is not None and w.of(bound).is_stored:
            w.of(bound).role = Role.BUFFER
    if x.is_stored and x.code in _NARROW:
        w.alias(node.out, x)
    elif int(node.attrs.get("levels", 256)) <= 256:
        narrow = w.between(node.out, 3)
        w.add("QuantizeLinear", [x], [narrow])
        w.add("DequantizeLinear", [narrow], [node.out])
    else:
        w.function("fake_quantize", [x], node.out)


@_rule("Convolution", "ConvolutionBackpropData")
@_rule("GroupConvolution", "GroupConvolutionBackpropData")
def _convolution(w: Writer, node: FileOperator) -> None:
    """Weights are (out, in, kernel), with the groups before them; of transposed ones (in, out)."""
    weight, grouped = node.shape(1), node.op.startswith("Group")
    groups, kernel = (weight[0], weight[3:]) if grouped else (1, weight[2:])
    transposed = node.op.endswith("BackpropData")
    convolve(w, node.inputs[:2], node.out, kernel, groups, transposed=transposed)


@_rule("MatMul")
def _matmul(w: Writer, node: FileOperator) -> None:
    """Either operand possibly transposed; a stored matrix is a layer's weight."""
    a, b, turned = w.of(node.x(0)), w.of(node.x(1)), _is_true(node, "transpose_b")
    if _is_true(node, "transpose_a"):
        a = swapped(w, a)
    if turned and b.is_stored and len(b.shape or ()) == 2:
        w.add(DENSE, [a, b], [node.out])
    else:
        matmul(w, node, ((a, False), (b, turned)))


@_rule("Transpose")
def _transpose(w: Writer, node: FileOperator) -> None:
    """The order stands in the data: the first that gives the sizes, heads and tokens before."""
    x, out = node.shape(), node.out.shape or ()
    rank = len(x)
    orders = [(0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 3, 1), (0, 2, 1), (1, 0)]
    orders += list(permutations(range(rank))) if rank <= 6 else []
    kept = tuple(range(rank))
    fits = (p for p in orders if len(p) == rank and p != kept and tuple(x[i] for i in p) == out)
    order = next(fits, None)
    if order is None:
        w.add(COPY, [node.x()], [node.out], function="layout")
    else:
        w.add("Transpose", [node.x()], [node.out], perm=list(order))


@_rule("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
def _pool(w: Writer, node: FileOperator) -> None:
    kernel = _numbers(node, "kernel")
    function = "max" if "Max" in node.op else "avg"
    window = prod(kernel) if kernel else -(-node.x().numel // max(node.out.numel, 1))
    w.add(POOL, [node.x()], [node.out], function=function, window=window)


@_rule("SoftMax", "Softmax")
def _softmax(w: Writer, node: FileOperator) -> None:
    w.add("Softmax", [node.x()], [node.out], axis=int(node.attrs.get("axis", 1)))


@_rule("MVN")
def _mean_variance(w: Writer, node: FileOperator) -> None:
    """Over the last dimensions, as many as axes are given; of the oldest set all but the batch."""
    x = node.shape()
    axes = node.maybe(1)
    count = axes.numel if axes is not None else max(len(x) - 2, 1)
    groups = prod(x[: max(len(x) - count, 0)])
    w.add(NORM, [node.x()], [node.out], function="layer_norm", groups=groups)


@_rule("BatchNormInference")
def _batch_norm(w: Writer, node: FileOperator) -> None:
    attrs = {"function": "batch_norm", "groups": node.shape()[1], "statistics": False}
    w.add(NORM, [node.x(), *node.inputs[1:]], [node.out], **attrs)


@_rule("GroupNormalization")
def _group_norm(w: Writer, node: FileOperator) -> None:
    groups = int(node.attrs.get("num_groups", 1))
    w.add("GroupNormalization", node.inputs, [node.out], num_groups=groups)


@_rule("LRN")
def _local_response(w: Writer, node: FileOperator) -> None:
    w.add("LRN", [node.x()], [node.out], size=int(node.attrs["size"]))


@_rule("ScaledDotProductAttention")
def _attention(w: Writer, node: FileOperator) -> None:
    """query, key, value, mask, scale."""
    mask = node.maybe(3)
    mask = mask if mask is not None and mask.shape else None
    inputs = [node.x(0), node.x(1), node.x(2), mask]
    step = w.add(SCALED, [*inputs], [node.out])
    if _is_true(node, "causal"):
        step.attrs.update(causal=True, alignment="upper_left")


@_rule("Gelu")
def _gelu(w: Writer, node: FileOperator) -> None:
    by_tanh = str(node.attrs.get("approximation_mode", "")).upper() == "TANH"
    w.function("gelu_tanh" if by_tanh else "gelu", [node.x()], node.out)


@_rule("Concat")
def _concat(w: Writer, node: FileOperator) -> None:
    w.add(COPY, node.inputs, [node.out], function="cat")


@_rule("Split", "VariadicSplit")
def _split(w: Writer, node: FileOperator) -> None:
    """The axis stands in the data: the one along which the parts are shorter."""
    x, part = node.shape(), node.out.shape or ()
    axis = next((i for i, (a, b) in enumerate(zip(x, part, strict=False)) if a != b), 0)
    w.add("Split", [node.x()], node.outputs, axis=axis)


@_rule("Gather")
def _gather(w: Writer, node: FileOperator) -> None:
    """data, indices, axis: one place along an axis is a view, rows of a table a look-up."""
    data, indices = w.of(node.x(0)), w.of(node.x(1))
    table, index, out = data.shape or (), indices.shape or (), node.out.shape or ()
    if indices.numel == 1 and not data.is_stored:
        w.add(PART, [data], [node.out])
        return
    axes = [a for a in range(len(table)) if table[:a] + index + table[a + 1 :] == out]
    w.add("Gather", [data, indices], [node.out], axis=axes[0] if axes else 1)


@_rule("Interpolate")
def _interpolate(w: Writer, node: FileOperator) -> None:
    mode = str(node.attrs.get("mode", "nearest"))
    x, out = node.shape(), node.out.shape or ()
    changed = max(sum(a != b for a, b in zip(x, out, strict=False)), 1)
    linear = {1: "linear", 2: "bilinear"}.get(changed, "trilinear")
    names = {"nearest": "nearest", "cubic": "bicubic", "bicubic_pillow": "bicubic"}
    w.add(INTERPOLATE, [node.x()], [node.out], mode=names.get(mode, linear))


@_rule("GridSample")
def _grid_sample(w: Writer, node: FileOperator) -> None:
    w.add("GridSample", [node.x(0), node.x(1)], [node.out], mode=node.attrs.get("mode", "linear"))


@_rule("LSTMSequence", "GRUSequence", "RNNSequence", "LSTMCell", "GRUCell", "RNNCell")
def _recurrent(w: Writer, node: FileOperator) -> None:
    """x, states, (lengths,) weight of x, of the state, bias."""
    x, cell = node.shape(), node.op.endswith("Cell")
    states = 2 if node.op.startswith("LSTM") else 1
    weight = node.shape(1 + states + (0 if cell else 1))
    kind = {"L": "lstm", "G": "gru"}.get(node.op[0], "rnn_tanh")
    if kind == "rnn_tanh" and "relu" in str(node.attrs.get("activations", "")):
        kind = "rnn_relu"
    sizes = {"batch": x[0], "seq": 1 if cell else x[1], "input_size": x[-1], "projection": 0}
    rest = {
        "hidden": int(node.attrs.get("hidden_size", 0)) or node.shape(1)[-1],
        "directions": 1 if cell else weight[0],
        "cell": kind,
        "bias": True,
    }
    w.add(RECURRENT, node.inputs, node.outputs[:1], **sizes, **rest)
    for extra in node.outputs[1:]:
        if extra is not None:
            w.trace.steps[-1].outputs.append(extra)


@_rule("TopK")
def _topk(w: Writer, node: FileOperator) -> None:
    w.add("TopK", [node.x()], node.outputs, axis=int(node.attrs.get("axis", -1)))


@_rule("Einsum")
def _einsum(w: Writer, node: FileOperator) -> None:
    w.add("Einsum", node.inputs, [node.out], equation=str(node.attrs.get("equation", "")))


@_rule("Assign")
def _assign(w: Writer, node: FileOperator) -> None:
    write_state(w, w.of(node.x()))


@_rule(*PARTS)
def _part(w: Writer, node: FileOperator) -> None:
    w.add(PART, [node.x()], [node.out])


_rule("Convert", "ConvertLike")(cast)
_rule("SquaredDifference")(squared_difference)
_rule("ReadValue")(read_state)

#: Of OpenVINO's operator sets.
LAYERS: Final = Vocabulary(
    family="openvino",
    rules=_rule,
    same=SAME,
    functions=FUNCTIONS,
    reductions=REDUCTIONS,
    views=VIEWS,
    fills=("Range",),
    free=FREE,
)
