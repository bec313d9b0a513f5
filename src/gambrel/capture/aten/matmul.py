"""Products of matrices: dense, batched, scaled, weight-only quantized, grouped, einsum."""

from __future__ import annotations

from math import prod
from typing import Any

from gambrel.capture.aten.call import Call, Described, TensorArg
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes, Sizes


@rule("aten.mm", "aten._int_mm", "aten.bmm")
def plain(call: Call) -> Described:
    """Of (b, m, k) × (b, k, n), b possibly absent."""
    return call.described("matmul", product_sizes(call.tensor(0), call.tensor(1, "mat2")))


@rule("aten.addmm", "aten._addmm_activation", "aten.baddbmm", "aten.addmv")
def with_bias(call: Call) -> Described:
    """Of self + (m, k) × (k, n); matrices, batches of them, or a matrix and a vector."""
    names = {"baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}
    first, second = names.get(call.name, ("mat1", "mat2"))
    a, b = call.tensor(1, first), call.tensor(2, second)
    return _added(call, product_sizes(a, b), a, b)


@rule("aten.addbmm")
def summed_batches(call: Call) -> Described:
    """Of self + Σ_b (m, k) × (k, n): the batch lengthens the sum."""
    x, y = call.tensor(1, "batch1"), call.tensor(2, "batch2")
    b, m, k = x.shape
    return _added(call, {"b": 1, "m": m, "n": y.shape[2], "k": b * k}, x, y)


@rule("aten.addr")
def outer_update(call: Call) -> Described:
    """Of self + vec1 × vec2ᵀ."""
    x, y = call.tensor(1, "vec1"), call.tensor(2, "vec2")
    return _added(call, {"b": 1, "m": x.numel, "n": y.numel, "k": 1}, x, y)


@rule("aten.mv", "aten.dot", "aten.vdot", "aten.matmul", "aten.linalg_matmul")
def general(call: Call) -> Described:
    """torch.matmul: vectors, matrices, and batches that broadcast."""
    name = {"mv": "vec", "dot": "tensor"}.get(call.name, "other")
    return call.described("matmul", product_sizes(call.tensor(0), call.tensor(1, name)))


@rule("aten.inner", "aten.linalg_vecdot")
def inner(call: Call) -> Described:
    """Products along the last dimension of both: every result sums k products."""
    k = call.tensor(0).shape[-1]
    return call.described("matmul", {"b": 1, "m": call.out.numel, "n": 1, "k": k})


@rule("aten.linear", "aten.mkldnn_linear")
def linear(call: Call) -> Described:
    """Of x Wᵀ + bias with W (n, k)."""
    x, weight = call.tensor(0, "input"), call.tensor(1, "weight")
    bias = call.optional(2, "bias")
    return call.described("matmul", _linear_sizes(x, weight.shape[0]), _bias(bias))


@rule("aten._scaled_mm", "aten._scaled_mm_v2")
def scaled(call: Call) -> Described:
    """fp8 (m, k) × (k, n) with scales; computes in the format of the operands."""
    a = call.tensor(0)
    bias = call.optional(8 if call.name == "_scaled_mm_v2" else 4, "bias")
    attrs: Attributes = {**_bias(bias), "compute_dtype": a.dtype}
    return call.described("matmul", product_sizes(a, call.tensor(1, "mat2")), attrs)


@rule(
    "aten._weight_int8pack_mm",
    "aten._weight_int4pack_mm",
    "aten._weight_int4pack_mm_for_cpu",
    "aten._weight_int4pack_mm_with_scales_and_zeros",
    "aten._dyn_quant_matmul_4bit",
)
def weight_only(call: Call) -> Described:
    """Integer weights expanded on the fly to the activations' format; packing hides n and k."""
    x = call.tensor(0)
    attrs: Attributes = {"bias": False, "compute_dtype": x.dtype, "dequantize": True}
    return call.described("matmul", _linear_sizes(x, call.out.shape[-1]), attrs)


@rule("aten._grouped_mm", "aten._scaled_grouped_mm")
def grouped(call: Call) -> Described:
    """Rows sorted by expert, each group times its own matrix.

    ATen does not say how many experts a token was sent to: every row counts as a token of its own
    (top_k 1); a front end that knows better replaces top_k and tokens.
    """
    a, b = call.tensor(0), call.tensor(1, "mat2")
    offsets = call.optional(2 if call.op == "aten._grouped_mm" else 4, "offs")
    if len(a.shape) == len(b.shape) == 3:
        return call.described("matmul", product_sizes(a, b))
    if len(a.shape) == len(b.shape):  # (k, rows) × (rows, n): a product for each group of rows
        (k, rows), (_, n), experts = a.shape, b.shape, call.out.shape[0]
        shared: Sizes = {"rows": rows, "n": n, "k": k, "experts": experts}
        sizes = {**shared, "top_k": 1, "tokens": rows}
        return call.described("grouped_matmul", sizes, {"weight_gradient": True})
    if len(a.shape) == 2:
        (rows, k), (experts, _, n), order = a.shape, b.shape, (a, b, offsets)
    else:  # (experts, m, k) × (k, columns): the mirror image
        (experts, n, k), (_, rows), order = a.shape, b.shape, (b, a, offsets)
    others = [t for t in call.inputs if t not in order]
    sizes = {"rows": rows, "n": n, "k": k, "experts": experts, "top_k": 1, "tokens": rows}
    return call.described("grouped_matmul", sizes, inputs=[*order, *others])


@rule("aten.linear_backward")
def linear_backward(call: Call) -> Described:
    """Gradients of x and W: each as many products as the forward one."""
    x, weight = call.tensor(0), call.tensor(2, "weight")
    mask = tuple(call.arg(3, "output_mask", (True, True, True)))
    m = prod(x.shape[:-1])
    k, n = weight.shape[1], weight.shape[0]
    sizes: Sizes = {"b": sum(map(bool, mask[:2])), "m": m, "n": n, "k": k}
    return call.described("matmul", sizes)


@rule("aten.bilinear")
def bilinear(call: Call) -> Described:
    """y_o = Σ_ij x_i W_oij z_j: x W over i gives (o, j) a row, which z then sums over j.

    Rows × outputs × j sums of i products, each with one more multiply-add: k = j·(i + 1).
    """
    weight = call.tensor(2, "weight").shape
    rows = prod(call.tensor(0).shape[:-1])
    sizes: Sizes = {"b": 1, "m": rows, "n": weight[0], "k": weight[2] * (weight[1] + 1)}
    return call.described("matmul", sizes, _bias(call.optional(3, "bias")))


@rule("aten._trilinear")
def trilinear(call: Call) -> Described:
    """i1, i2, i3, expand1, expand2, expand3, sumdim: two contractions, as ATen runs it.

    The first sums i1 i2 over the summed dimensions that i3 lacks, the second the result with i3
    over the others (ATen/native/Linear.cpp, _trilinear).
    """
    expanded = [set(call.arg(3 + i, f"expand{i + 1}", ())) for i in range(3)]
    a, b, c = (_unsqueezed(call.tensor(i, f"i{i + 1}").shape, expanded[i]) for i in range(3))
    first = [max(sizes) for sizes in zip(a, b, strict=True)]
    early = set(call.arg(6, "sumdim", ())) & expanded[2]
    between = [1 if dim in early else n for dim, n in enumerate(first)]
    second = [max(sizes) for sizes in zip(between, c, strict=True)]
    products, outputs = prod(first) + prod(second), call.out.numel
    if products % outputs:
        return call.described("matmul", {"b": 1, "m": products, "n": 1, "k": 1})
    return call.described("matmul", {"b": 1, "m": outputs, "n": 1, "k": products // outputs})


def _unsqueezed(shape: tuple[int, ...], dims: set[int]) -> list[int]:
    found = list(shape)
    for dim in sorted(dims):
        found.insert(dim, 1)
    return found


@rule("aten.einsum")
def einsum(call: Call) -> Described:
    """One contraction of two operands; more operands are left to the caller (unmodelled)."""
    if call.overload == "sublist":
        raise ValueError("labels as lists")
    equation, operands = call.arg(0, "equation"), call.arg(1, "tensors")
    if len(operands) != 2 or "." in equation:
        raise ValueError("an einsum of another form than one contraction")
    left, _, result = equation.replace(" ", "").partition("->")
    a, b = left.split(",")
    length: dict[str, int] = {}
    for labels, tensor in zip((a, b), operands, strict=True):
        length.update(zip(labels, tensor.shape, strict=True))
    if not result:
        result = "".join(sorted(c for c in length if (a + b).count(c) == 1))
    return call.described("matmul", _contraction(set(a), set(b), set(result), length))


def _added(call: Call, sizes: Sizes, a: TensorArg, b: TensorArg) -> Described:
    """A product added to the first argument: the operands come first, the addend last."""
    inputs = [a, b, call.tensor(0)]
    return call.described("matmul", sizes, {"bias": True}, inputs=inputs)


def product_sizes(a: TensorArg, b: TensorArg) -> Sizes:
    """b, m, n, k of ``a @ b`` after torch.matmul's rules for vectors and broadcasting."""
    m = a.shape[-2] if len(a.shape) > 1 else 1
    k = a.shape[-1]
    n = b.shape[-1] if len(b.shape) > 1 else 1
    batch_a, batch_b = a.shape[:-2], b.shape[:-2]
    if not batch_b:  # one right-hand side for all: the batch is more rows
        return {"b": 1, "m": prod(batch_a) * m, "n": n, "k": k}
    return {"b": prod(_broadcast(batch_a, batch_b)), "m": m, "n": n, "k": k}


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    longest = max(len(a), len(b))
    a, b = (1,) * (longest - len(a)) + a, (1,) * (longest - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def _contraction(a: set[str], b: set[str], result: set[str], length: dict[str, int]) -> Sizes:
    """Labels kept from both are batches, from one are m or n; those summed are k."""

    def size(labels: set[str]) -> int:
        return prod(length[c] for c in labels)

    return {
        "b": size(a & b & result),
        "m": size((a - b) & result),
        "n": size((b - a) & result),
        "k": size((a | b) - result),
    }


def _linear_sizes(x: TensorArg, n: int) -> Sizes:
    return {"b": 1, "m": prod(x.shape[:-1]), "n": n, "k": x.shape[-1]}


def _bias(tensor: Any) -> Attributes:
    return {"bias": tensor is not None}
