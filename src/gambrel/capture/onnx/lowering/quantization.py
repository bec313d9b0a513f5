"""Changes between real numbers and integers, and onnxruntime's ops on 8-bit integers."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers

#: Operators of onnxruntime on 8-bit integers → function; operands come with scale and zero point.
_INTEGER: Final[dict[str, str]] = {
    "com.microsoft::QLinearAdd": "add",
    "com.microsoft::QLinearMul": "mul",
    "com.microsoft::QLinearSigmoid": "sigmoid",
    "com.microsoft::QLinearLeakyRelu": "leaky_relu",
}


@lowers("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize(op: NodeOperands) -> Lowered:
    """x, scale, zero point: scale, shift, round, clamp."""
    return op.described("elementwise", {"elements": op.out.numel}, {"function": "quantize"})


@lowers("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize(op: NodeOperands) -> Lowered:
    """x, scale, zero point: shift, scale."""
    attrs = {"function": "dequantize", "compute_dtype": op.out.dtype}
    return op.described("elementwise", {"elements": op.out.numel}, attrs)


@lowers("DynamicQuantizeLinear")
def dynamic(op: NodeOperands) -> Lowered:
    """x: its range found, then quantized."""
    x, out = op.x(), op.results[0]
    ends = op.temporary((2,), x.dtype)
    sizes = {"elements": x.numel, "outputs": 1}
    return [
        op.described("reduction", sizes, {"function": "aminmax"}, inputs=(x,), outputs=(ends,)),
        op.described(
            "elementwise", {"elements": out.numel}, {"function": "quantize"}, inputs=(x, ends)
        ),
    ]


def integer(op: NodeOperands) -> Lowered:
    """The function on integers."""
    attrs = {"function": _INTEGER[op.step.op], "compute_dtype": "int8"}
    return op.described("elementwise", {"elements": op.out.numel}, attrs)


@lowers("com.microsoft::QLinearConcat")
def concat(op: NodeOperands) -> Lowered:
    """scale, zero point, then tensors with theirs."""
    parts = tuple(op.optional(i) for i in range(2, len(op.inputs), 3))
    return op.described("copy", attrs={"function": "cat"}, inputs=parts)


@lowers("com.microsoft::QLinearSoftmax")
def softmax(op: NodeOperands) -> Lowered:
    """X along an axis."""
    x = op.x()
    rows = x.numel // max(x.shape[int(op.attr("axis", -1))], 1)
    attrs = {"function": "softmax", "compute_dtype": "int8"}
    return op.described("softmax", {"elements": x.numel, "rows": rows}, attrs)


for _op in _INTEGER:
    lowers(_op)(integer)
