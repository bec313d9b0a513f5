"""Products of matrices: plain, general, fused with their surroundings, of narrow weights."""

from __future__ import annotations

from math import prod

from gambrel.capture.aten import Described, TensorArg
from gambrel.capture.aten.matmul import product_sizes
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

#: A product with a bias, as patterns find it: x, weight, bias.
LINEAR = "gambrel::Linear"


@lowers("MatMul", LINEAR)
def matmul(op: NodeOperands) -> Lowered:
    """Matrices, or batches that broadcast; a bias third."""
    a, b, bias = op.x(0), op.x(1), op.optional(2)
    return op.described("matmul", product_sizes(a, b), _attrs(op, bias), inputs=(a, b, bias))


@lowers("Gemm", "com.microsoft::FusedGemm")
def gemm(op: NodeOperands) -> Lowered:
    """alpha·A·B + beta·C, A and B possibly transposed."""
    a, b, c = op.x(0), op.x(1), op.optional(2)
    m, k = reversed(a.shape) if op.attr("transA") else a.shape
    n = b.shape[0] if op.attr("transB") else b.shape[1]
    sizes: Sizes = {"b": 1, "m": m, "n": n, "k": k}
    product = op.described("matmul", sizes, _attrs(op, c), inputs=(a, b, c))
    return _activated(op, product)


@lowers("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def fused(op: NodeOperands) -> Lowered:
    """alpha·A·B with the last two dimensions possibly swapped."""
    a, b = _turned(op.x(0), op.attr("transA")), _turned(op.x(1), op.attr("transB"))
    return op.described("matmul", product_sizes(a, b), _attrs(op, None))


@lowers("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4")
def narrow(op: NodeOperands) -> Lowered:
    """Weights of few bits, expanded to the activations' format on the fly."""
    x, weight = op.x(0), op.x(1)
    sizes: Sizes = {"b": 1, "m": x.numel // x.shape[-1], "n": op.attr("N"), "k": op.attr("K")}
    bias = op.optional(5) if op.step.op.endswith("NBits") else None
    attrs: Attributes = {"bias": bias is not None, "dequantize": True, "compute_dtype": x.dtype}
    others = [t for t in op.read if t not in (x, weight, bias)]
    return op.described("matmul", sizes, attrs, inputs=(x, weight, bias, *others))


@lowers("MatMulInteger", "com.microsoft::DynamicQuantizeMatMul")
def integers(op: NodeOperands) -> Lowered:
    """Products of 8-bit integers, summed in 32 bits."""
    a, b = op.x(0), op.x(1)
    found = op.described("matmul", product_sizes(a, b), {"bias": False, "compute_dtype": "int8"})
    if op.step.op == "MatMulInteger":
        return found
    rounded = op.temporary(a.shape, "uint8")
    first = op.described(
        "elementwise",
        {"elements": a.numel},
        {"function": "quantize"},
        inputs=(a,),
        outputs=(rounded,),
    )
    rest = tuple(t for t in op.read if t is not a)
    return [first, op.described("matmul", found.sizes, found.attrs, inputs=(rounded, *rest))]


@lowers("com.microsoft::MatMulIntegerToFloat")
def scaled_integers(op: NodeOperands) -> Lowered:
    """The same, scaled to real numbers."""
    attrs: Attributes = {"bias": op.optional(6) is not None, "compute_dtype": "int8"}
    return op.described("matmul", product_sizes(op.x(0), op.x(1)), attrs)


@lowers("QLinearMatMul")
def quantized(op: NodeOperands) -> Lowered:
    """a, scale, zero, b, scale, zero, scale, zero."""
    a, b = op.x(0), op.x(3)
    attrs: Attributes = {"bias": False, "compute_dtype": "int8"}
    rest = tuple(t for t in op.read if t not in (a, b))
    return op.described("matmul", product_sizes(a, b), attrs, inputs=(a, b, *rest))


@lowers("com.microsoft::QGemm")
def quantized_gemm(op: NodeOperands) -> Lowered:
    """A, scale, zero, B, scale, zero, C, scale, zero."""
    a, b, c = op.x(0), op.x(3), op.optional(6)
    m, k = reversed(a.shape) if op.attr("transA") else a.shape
    n = b.shape[0] if op.attr("transB") else b.shape[1]
    attrs: Attributes = {"bias": c is not None, "compute_dtype": "int8"}
    return op.described("matmul", {"b": 1, "m": m, "n": n, "k": k}, attrs, inputs=(a, b, c))


@lowers("Einsum")
def einsum(op: NodeOperands) -> Lowered:
    """A contraction of two operands; of one, a sum or a view."""
    equation = str(op.attr("equation")).replace(" ", "")
    if len(op.step.inputs) == 2:
        return _contracted(op, equation)
    if len(op.step.inputs) > 2:
        raise ValueError("a contraction of more than two operands")
    x, out = op.x(), op.out
    if x.numel == out.numel:
        return op.described("copy", attrs={"function": "contiguous"})
    return op.described(
        "reduction", {"elements": x.numel, "outputs": out.numel}, {"function": "sum"}
    )


def _contracted(op: NodeOperands, equation: str) -> Described:
    """Dots stand for leading dimensions that broadcast: each becomes a letter of its own."""
    left, arrow, result = equation.partition("->")
    a, b = left.split(",")
    ranks = [len(op.x(i).shape) for i in range(2)]
    hidden = max(
        n - len(labels.replace("...", "")) for n, labels in zip(ranks, (a, b), strict=True)
    )
    letters = [chr(0x3B1 + i) for i in range(max(hidden, 0))]

    def spelled(labels: str, rank: int | None) -> str:
        plain = labels.replace("...", "")
        count = hidden if rank is None else rank - len(plain)
        return labels.replace("...", "".join(letters[len(letters) - count :]) if count else "")

    text = f"{spelled(a, ranks[0])},{spelled(b, ranks[1])}"
    if arrow:
        text += f"->{spelled(result, None)}"
    found = op.aten("aten.einsum", text, [op.x(0), op.x(1)])
    if found.kind != "matmul":
        raise ValueError(equation)
    return found


def _turned(x: TensorArg, swapped: object) -> TensorArg:
    if not swapped:
        return x
    return TensorArg(x.id, (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _attrs(op: NodeOperands, bias: TensorArg | None) -> Attributes:
    """Of a product: a bias; the format that quantization chose for it."""
    found: Attributes = {"bias": bias is not None}
    found.update(op.attr("quantized") or {})
    return found


def _activated(op: NodeOperands, product: Described) -> Lowered:
    """The function that a fused product ends with runs in the same kernel and counts as an op."""
    name = op.attr("activation")
    functions = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyRelu": "leaky_relu"}
    functions.update({"Clip": "clamp", "HardSigmoid": "hardsigmoid"})
    if name not in functions:
        return product
    between = op.temporary(op.out.shape, op.out.dtype)
    first = Described(product.kind, product.sizes, product.attrs, product.inputs, (between,))
    attrs: Attributes = {"function": functions[name]}
    sizes: Sizes = {"elements": prod(op.out.shape)}
    return [first, op.described("elementwise", sizes, attrs, inputs=(between,))]


activated = _activated
quantized_attrs = _attrs
