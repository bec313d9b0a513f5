"""Ops that compute each result from the elements at the same place."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten import Described
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers

#: ONNX operator → function of `gambrel.ops.elementwise`.
FUNCTIONS: Final[dict[str, str]] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "sign",
    "Reciprocal": "reciprocal",
    "Floor": "round",
    "Ceil": "round",
    "Round": "round",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "PRelu": "prelu",
    "Elu": "elu",
    "Celu": "celu",
    "Selu": "selu",
    "ThresholdedRelu": "threshold",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "HardSigmoid": "hardsigmoid",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Shrink": "softshrink",
    "Clip": "clamp",
    "Where": "where",
    "Trilu": "where",
    "Not": "logical",
    "And": "logical",
    "Or": "logical",
    "Xor": "logical",
    "BitwiseAnd": "bitwise",
    "BitwiseOr": "bitwise",
    "BitwiseXor": "bitwise",
    "BitwiseNot": "bitwise",
    "BitShift": "shift",
    "Equal": "compare",
    "Less": "compare",
    "LessOrEqual": "compare",
    "Greater": "compare",
    "GreaterOrEqual": "compare",
    "IsNaN": "isnan",
    "IsInf": "isinf",
    "Mod": "remainder",
    "com.microsoft::QuickGelu": "quick_gelu",
    "com.microsoft::Gelu": "gelu",
    "ai.onnx.ml::Binarizer": "compare",
    "ai.onnx.ml::Scaler": "fma",
    # Two products and a sum a value; the signs are in the pairing of the halves.
    "RotaryEmbedding": "rotary",
    "com.microsoft::RotaryEmbedding": "rotary",
}
#: Folded over any number of operands: one operation less than operands.
_VARIADIC: Final = {"Sum": "add", "Max": "maximum", "Min": "minimum", "Mean": "add"}


def elementwise(op: NodeOperands, function: str) -> Described:
    """One application a result."""
    return op.described("elementwise", {"elements": op.out.numel}, {"function": function})


def plain(op: NodeOperands) -> Lowered:
    """As the table says."""
    return elementwise(op, FUNCTIONS[op.step.op])


@lowers("Pow")
def power(op: NodeOperands) -> Lowered:
    """Small whole powers are products, half a root."""
    exponent = op.step.x(1).scalar
    powers = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    return elementwise(op, "pow" if exponent is None else powers.get(exponent, "pow"))


@lowers("Gelu")
def gelu(op: NodeOperands) -> Lowered:
    """Exact, or by tanh."""
    return elementwise(op, "gelu_tanh" if op.attr("approximate") == "tanh" else "gelu")


@lowers("com.microsoft::FastGelu", "com.microsoft::BiasGelu")
def biased_gelu(op: NodeOperands) -> Lowered:
    """x, bias: added first where there is one."""
    function = "gelu_tanh" if op.step.op.endswith("FastGelu") else "gelu"
    if op.optional(1) is None:
        return elementwise(op, function)
    between = op.temporary(op.out.shape, op.out.dtype)
    sizes = {"elements": op.out.numel}
    added = op.described("elementwise", sizes, {"function": "add"}, outputs=(between,))
    bent = op.described("elementwise", sizes, {"function": function}, inputs=(between,))
    return [added, bent]


@lowers("com.microsoft::BiasSplitGelu")
def gated(op: NodeOperands) -> Lowered:
    """X + bias in halves: one times the gelu of the other."""
    between = op.temporary(op.x().shape, op.x().dtype)
    whole, half = {"elements": between.numel}, {"elements": op.out.numel}
    added = op.described("elementwise", whole, {"function": "add"}, outputs=(between,))
    return [added, op.described("elementwise", half, {"function": "geglu"}, inputs=(between,))]


@lowers("Swish")
def swish(op: NodeOperands) -> Lowered:
    """X · sigmoid(alpha · x)."""
    return elementwise(op, "silu" if op.attr("alpha", 1.0) == 1.0 else "quick_gelu")


@lowers("SwiGLU")
def swiglu(op: NodeOperands) -> Lowered:
    """silu(a) · b, a result of each pair."""
    return elementwise(op, "swiglu")


@lowers("com.microsoft::BiasAdd")
def bias_add(op: NodeOperands) -> Lowered:
    """X + bias + skip."""
    sizes = {"elements": op.out.numel * max(len(op.read) - 1, 1)}
    return op.described("elementwise", sizes, {"function": "add"})


@lowers("Cast", "CastLike", "BitCast")
def cast(op: NodeOperands) -> Lowered:
    """A copy in another number format."""
    return op.described("copy", attrs={"function": "cast"}, inputs=(op.x(),))


def variadic(op: NodeOperands) -> Lowered:
    """NodeOperands folded one after another; a mean divides."""
    count = len(op.read) - 1 + (op.step.op == "Mean")
    sizes = {"elements": op.out.numel * max(count, 1)}
    return op.described("elementwise", sizes, {"function": _VARIADIC[op.step.op]})


@lowers("Dropout")
def dropout(op: NodeOperands) -> Lowered:
    """Of training: a random mask and a scaled product."""
    return elementwise(op, "native_dropout")


for _op in FUNCTIONS:
    lowers(_op)(plain)
for _op in _VARIADIC:
    lowers(_op)(variadic)
