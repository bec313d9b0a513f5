"""The forms of a step's results: by the package onnx, by own rules where it gives up."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.ops.rules import RuleTable

#: Shape and onnx.TensorProto.DataType of an output; a shape that is not known is None.
Form: TypeAlias = tuple[tuple[int, ...] | None, int]
_Rule: TypeAlias = Callable[[Step], "list[Form] | None"]

#: Values that inference may need; larger ones never are.
_MAX_VALUES: Final = 1024

#: Ops whose results have the form of their operands: no need to ask.
_UNARY: Final = (
    "Relu Sigmoid Tanh Erf Exp Log Sqrt Neg Abs Reciprocal LeakyRelu Elu Softplus Floor Ceil"
    " HardSigmoid HardSwish Gelu Clip Softmax LogSoftmax Sin Cos"
)
_BINARY: Final = "Add Sub Mul Div Max Min Equal Greater Less GreaterOrEqual LessOrEqual And Or"
_TESTS: Final = frozenset({"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"})

EVERY_ELEMENT: Final = "every element passes a test that selects by value"
EVERY_BOX: Final = "non-maximum suppression keeps as many boxes as it may"
ALL_DISTINCT: Final = "all values of a 'unique' are distinct"

#: What is assumed where the form of a result depends on data.
ASSUMED: Final[dict[str, str]] = {
    "NonZero": EVERY_ELEMENT,
    "Compress": EVERY_ELEMENT,
    "NonMaxSuppression": EVERY_BOX,
    "Unique": ALL_DISTINCT,
}


#: Registers an own rule: from a step with inputs of known form to the forms of its outputs.
shape_rule: Final[RuleTable[_Rule]] = RuleTable("operator")


def infer(step: Step, node: Any, schema: Any, opsets: Any) -> list[Form]:
    """The forms of a step's outputs, in order.

    Args:
        step: With its inputs.
        node: Its ``onnx.NodeProto``, whose attributes are resolved.
        schema: ``onnx.defs.OpSchema``; None for an operator that onnx does not know.
        opsets: ``onnx.OperatorSetIdProto`` entries of the model.
    """
    unknown: list[Form] = [(None, 0)] * len(step.outputs)
    rule = shape_rule.get(step.op)
    if rule is not None:
        try:
            found = rule(step)
        except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError):
            found = None
        if found is not None:
            return (found + unknown)[: len(step.outputs)]
    return unknown if schema is None else _inferred(step, node, schema, opsets)


def _inferred(step: Step, node: Any, schema: Any, opsets: Any) -> list[Form]:
    from onnx.shape_inference import infer_node_outputs

    types, values = {}, {}
    for name, edge in zip(node.input, step.inputs, strict=False):
        if edge is None or edge.members is not None or not edge.code:
            continue
        types[name] = type_of(edge.shape, edge.code)
        if edge.value is not None and edge.value.size <= _MAX_VALUES:
            values[name] = _value(edge)
    try:
        found = infer_node_outputs(schema, node, types, values, opset_imports=opsets)
    except Exception:  # InferenceError and whatever hostile attributes provoke in the C++ library
        return [(None, 0)] * len(step.outputs)
    return [_form(found.get(name)) for name in node.output]


def _form(proto: Any) -> Form:
    if proto is None or not proto.HasField("tensor_type"):
        return None, 0
    return form_of(proto)


def form_of(proto: Any) -> Form:
    """The form in a TypeProto of a tensor; its shape is None unless every size is a number."""
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return None, tensor.elem_type
    dims = tensor.shape.dim
    if any(not d.HasField("dim_value") or d.dim_value < 0 for d in dims):
        return None, tensor.elem_type
    return tuple(d.dim_value for d in dims), tensor.elem_type


@lru_cache(maxsize=4096)
def type_of(shape: tuple[int, ...] | None, code: int) -> Any:
    """The ``onnx.TypeProto`` of a tensor."""
    from onnx import TypeProto

    found = TypeProto()
    found.tensor_type.elem_type = code
    if shape is not None:
        found.tensor_type.shape.SetInParent()
        for size in shape:
            found.tensor_type.shape.dim.add().dim_value = size
    return found


def _value(edge: Edge) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(edge.value)


def same(step: Step) -> list[Form]:
    """The form of the first input."""
    return [(step.x().shape, step.x().code)]


@shape_rule(*_UNARY.split())
def _unary(step: Step) -> list[Form] | None:
    x = step.x()
    return None if x.shape is None else [(x.shape, x.code)]


@shape_rule(*_BINARY.split())
def _binary(step: Step) -> list[Form] | None:
    """Of equal or obvious shapes; onnx broadcasts the others."""
    a, b = step.x(0), step.x(1)
    if a.shape is None or b.shape is None or a.code != b.code or len(step.inputs) > 2:
        return None
    code = 9 if step.op in _TESTS else a.code
    if a.shape == b.shape or b.shape == ():
        return [(a.shape, code)]
    return [(b.shape, code)] if a.shape == () else None


@shape_rule("Transpose")
def _transposed_form(step: Step) -> list[Form] | None:
    x, perm = step.x(), step.attrs.get("perm")
    if x.shape is None or perm is None or sorted(perm) != list(range(len(x.shape))):
        return None
    return [(tuple(x.shape[p] for p in perm), x.code)]


@shape_rule("NonZero")
def _nonzero(step: Step) -> list[Form] | None:
    x = step.x()
    return None if x.shape is None else [((len(x.shape), x.numel), 7)]


@shape_rule("Compress")
def _compress(step: Step) -> list[Form] | None:
    x, axis = step.x(), step.attrs.get("axis")
    if x.shape is None:
        return None
    flags = step.x(1)
    chosen = flags.numel if flags.value is None else int(flags.value.sum())
    if axis is None:
        return [((min(chosen, x.numel),), x.code)]
    axis %= len(x.shape)
    kept = min(chosen, x.shape[axis])
    return [((*x.shape[:axis], kept, *x.shape[axis + 1 :]), x.code)]


@shape_rule("Unique")
def _unique(step: Step) -> list[Form] | None:
    x, axis = step.x(), step.attrs.get("axis")
    if x.shape is None:
        return None
    n = x.numel if axis is None else x.shape[axis]
    return [((n,) if axis is None else x.shape, x.code), ((n,), 7), ((n,), 7), ((n,), 7)]


@shape_rule("NonMaxSuppression")
def _suppressed(step: Step) -> list[Form] | None:
    boxes, scores = step.x(0).shape, step.x(1).shape
    if boxes is None or scores is None:
        return None
    limit = step.input(2)
    most = boxes[1]
    if limit is not None:
        if limit.scalar is not None:
            most = min(most, int(limit.scalar))
    elif len(step.inputs) < 3:
        most = 0  # the operator's default: no box at all
    return [((scores[0] * scores[1] * most, 3), 7)]


@shape_rule("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def _fused_matmul(step: Step) -> list[Form] | None:
    a, b = _transposed(step, 0, "transA"), _transposed(step, 1, "transB")
    if a is None or b is None:
        return None
    batch = max((a[:-2], b[:-2]), key=len)
    return [((*batch, a[-2], b[-1]), step.x().code)]


def _transposed(step: Step, position: int, flag: str) -> tuple[int, ...] | None:
    shape = step.x(position).shape
    if shape is None or not step.attrs.get(flag):
        return shape
    return (*shape[:-2], shape[-1], shape[-2])


@shape_rule("com.microsoft::FusedGemm")
def _fused_gemm(step: Step) -> list[Form] | None:
    a, b = _transposed(step, 0, "transA"), _transposed(step, 1, "transB")
    return None if a is None or b is None else [((a[0], b[1]), step.x().code)]


@shape_rule("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4")
def _narrow(step: Step) -> list[Form] | None:
    x = step.x()
    return None if x.shape is None else [((*x.shape[:-1], int(step.attrs["N"])), x.code)]


@shape_rule(
    "com.microsoft::BiasGelu",
    "com.microsoft::FastGelu",
    "com.microsoft::QuickGelu",
    "com.microsoft::Gelu",
    "com.microsoft::RotaryEmbedding",
    "com.microsoft::GroupNorm",
    "com.microsoft::BiasAdd",
    "com.microsoft::MoE",
    "com.microsoft::QMoE",
    "com.microsoft::BiasDropout",
    "com.microsoft::QLinearSigmoid",
    "com.microsoft::QLinearLeakyRelu",
    "com.microsoft::QLinearSoftmax",
    "GroupNormalization",
    "SimplifiedLayerNormalization",
    "com.microsoft::SimplifiedLayerNormalization",
)
def _like_first(step: Step) -> list[Form]:
    return same(step)


@shape_rule("com.microsoft::BiasSplitGelu")
def _halved(step: Step) -> list[Form] | None:
    x = step.x()
    return None if x.shape is None else [((*x.shape[:-1], x.shape[-1] // 2), x.code)]


@shape_rule(
    "com.microsoft::SkipLayerNormalization",
    "com.microsoft::SkipSimplifiedLayerNormalization",
)
def _skip_norm(step: Step) -> list[Form] | None:
    x = step.x()
    if x.shape is None:
        return None
    rows = ((*x.shape[:-1], 1), 1)
    return [(x.shape, x.code), rows, rows, (x.shape, x.code)]


@shape_rule("com.microsoft::EmbedLayerNormalization")
def _embedded(step: Step) -> list[Form] | None:
    ids, table = step.x(0).shape, step.x(2)
    if ids is None or table.shape is None:
        return None
    rows = (*ids, table.shape[-1])
    return [(rows, table.code), ((ids[0],), 6), (rows, table.code)]


@shape_rule("com.microsoft::Attention", "com.microsoft::QAttention")
def _packed_attention(step: Step) -> list[Form] | None:
    x, weight = step.x(0).shape, step.x(1).shape
    if x is None or weight is None:
        return None
    own = step.attrs.get("qkv_hidden_sizes")
    width = own[2] if own else weight[-1] // 3
    code = step.x().code if step.op.endswith("::Attention") else step.x(3).code
    heads = int(step.attrs["num_heads"])
    past = step.input(4)
    before = past.shape[3] if past is not None and past.shape else 0
    cache = (2, x[0], heads, before + x[1], width // heads)
    return [((*x[:2], width), code), (cache, code)]


@shape_rule("com.microsoft::MultiHeadAttention")
def _multi_head(step: Step) -> list[Form] | None:
    q, v = step.x(0), step.input(2)
    if q.shape is None:
        return None
    heads = int(step.attrs["num_heads"])
    if len(q.shape) == 5:  # packed: batch, tokens, heads, 3, width of a head
        batch, tokens, _, _, head = q.shape
        return [((batch, tokens, heads * head), q.code)]
    width = q.shape[-1]
    if v is not None and v.shape is not None:
        width = v.shape[-1] if len(v.shape) == 3 else v.shape[1] * v.shape[3]
    past = step.input(6)
    before = past.shape[2] if past is not None and past.shape else 0
    key = step.input(1)
    tokens = q.shape[1] if key is None or not key.shape else key.shape[-2]
    cache = (q.shape[0], heads, before + tokens, width // heads)
    return [((*q.shape[:2], width), q.code), (cache, q.code), (cache, q.code)]


@shape_rule("com.microsoft::GroupQueryAttention")
def _grouped_query(step: Step) -> list[Form] | None:
    q, past = step.x(0), step.input(3)
    if q.shape is None:
        return None
    heads, shared = int(step.attrs["num_heads"]), int(step.attrs["kv_num_heads"])
    key = step.input(1)
    packed = key is None or key.shape is None
    head = q.shape[-1] // (heads + 2 * shared) if packed else q.shape[-1] // heads
    before = past.shape[2] if past is not None and past.shape else 0
    cache = (q.shape[0], shared, before + q.shape[1], head)
    return [((*q.shape[:2], heads * head), q.code), (cache, q.code), (cache, q.code)]


@shape_rule("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul")
def _quantized_pair(step: Step) -> list[Form] | None:
    import numpy as np

    a, b = step.x(0), step.x(3)
    if a.shape is None or b.shape is None:
        return None
    return [(tuple(np.broadcast_shapes(a.shape, b.shape)), a.code)]


@shape_rule("com.microsoft::QLinearGlobalAveragePool")
def _quantized_pool(step: Step) -> list[Form] | None:
    x = step.x()
    if x.shape is None:
        return None
    if step.attrs.get("channels_last"):
        return [((x.shape[0], *(1 for _ in x.shape[2:]), x.shape[-1]), x.code)]
    return [((*x.shape[:2], *(1 for _ in x.shape[2:])), x.code)]


@shape_rule("com.microsoft::QLinearConcat")
def _quantized_concat(step: Step) -> list[Form] | None:
    parts = [e for e in step.inputs[2::3] if e is not None and e.shape is not None]
    axis = int(step.attrs["axis"]) % len(parts[0].shape or ())
    shapes = [e.shape or () for e in parts]
    total = sum(s[axis] for s in shapes)
    return [((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), parts[0].code)]


@shape_rule("com.microsoft::QGemm")
def _quantized_gemm(step: Step) -> list[Form] | None:
    a, b = _transposed(step, 0, "transA"), _transposed(step, 3, "transB")
    if a is None or b is None:
        return None
    scaled = step.input(7) is not None
    return [((a[0], b[1]), step.x().code if scaled else 1)]


@shape_rule("com.microsoft::DynamicQuantizeMatMul", "com.microsoft::MatMulIntegerToFloat")
def _quantized_matmul(step: Step) -> list[Form] | None:
    a, b = step.x(0).shape, step.x(1).shape
    return None if a is None or b is None else [((*a[:-1], b[-1]), 1)]


@shape_rule("com.microsoft::FusedConv")
def _fused_conv(step: Step) -> list[Form] | None:
    x, weight = step.x(0), step.x(1)
    if x.shape is None or weight.shape is None:
        return None
    kernel = weight.shape[2:]
    rank = len(kernel)
    pads = step.attrs.get("pads") or [0] * (2 * rank)
    strides = step.attrs.get("strides") or [1] * rank
    dilations = step.attrs.get("dilations") or [1] * rank
    sides = tuple(
        (x.shape[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1)
        // strides[i]
        + 1
        for i in range(rank)
    )
    return [((x.shape[0], weight.shape[0], *sides), x.code)]


@shape_rule("com.microsoft::QuantizeLinear", "com.microsoft::DequantizeLinear")
def _converted(step: Step) -> list[Form]:
    other = step.input(2)
    if step.op.endswith("::QuantizeLinear"):
        return [(step.x().shape, 2 if other is None else other.code)]
    return [(step.x().shape, step.x(1).code)]


@shape_rule("STFT")
def _short_time(step: Step) -> list[Form] | None:
    """Frames of the signal, half of each spectrum unless asked otherwise."""
    x, hop, window, given = step.x(), step.x(1).scalar, step.input(2), step.input(3)
    length = None if given is None else given.scalar
    if length is None and window is not None and window.shape:
        length = window.shape[0]
    if x.shape is None or not hop or length is None:
        return None
    frames = (x.shape[1] - int(length)) // int(hop) + 1
    bins = int(length) // 2 + 1 if step.attrs.get("onesided", 1) else int(length)
    return [((x.shape[0], frames, bins, 2), x.code)]
