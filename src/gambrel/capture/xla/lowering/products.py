"""Products: dot_general, ragged_dot, convolutions in any layout."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from gambrel.capture.aten import TensorArg
from gambrel.capture.onnx.lowering.registry import Lowered, NodeOperands, lowers
from gambrel.workload import Attributes, Sizes

#: A product and the bias added to it, as patterns find it: a, b, bias.
BIASED_DOT = "xla::biased dot"
BIASED_CONVOLUTION = "xla::biased convolution"


def dot_sizes(a: tuple[int, ...], b: tuple[int, ...], op: NodeOperands) -> Sizes:
    """b, m, n, k: batches, what only the first, only the second has, what is summed."""
    (left, right), (left_batch, right_batch) = op.attr("contract"), op.attr("batch")
    return {
        "b": _over(a, left_batch),
        "m": _over(a, set(range(len(a))) - {*left, *left_batch}),
        "n": _over(b, set(range(len(b))) - {*right, *right_batch}),
        "k": _over(a, left),
    }


def _over(shape: tuple[int, ...], dims: Iterable[int]) -> int:
    return prod(shape[d] for d in dims)


@lowers("xla::dot_general", BIASED_DOT)
def dot_general(op: NodeOperands) -> Lowered:
    """Contracted and batch dimensions by number."""
    a, b, bias = op.x(0), op.x(1), op.optional(2)
    attrs: Attributes = {"bias": bias is not None}
    if _is_narrow(b) and not _is_narrow(a):
        attrs |= {"dequantize": True, "compute_dtype": a.dtype}
    return op.described("matmul", dot_sizes(a.shape, b.shape, op), attrs, inputs=(a, b, bias))


def _is_narrow(x: TensorArg) -> bool:
    return x.dtype in ("int8", "uint8", "int4", "int2", "fp8", "fp4")


@lowers("xla::ragged_dot")
def ragged_dot(op: NodeOperands) -> Lowered:
    """Rows sorted by group (rows, k), a matrix for each group (groups, k, n), sizes of groups.

    How many groups a token was sent to is not in the operation: each row counts as a token.
    """
    rows, matrices = op.x(0), op.x(1)
    if len(rows.shape) != 2 or len(matrices.shape) != 3:
        raise ValueError("a ragged product of another form")
    groups, k, n = matrices.shape
    sizes: Sizes = {"rows": rows.shape[0], "n": n, "k": k, "experts": groups}
    sizes |= {"top_k": 1, "tokens": rows.shape[0]}
    inputs = (rows, matrices, op.optional(2))
    return op.described("grouped_matmul", sizes, inputs=inputs)


@lowers("xla::convolution", BIASED_CONVOLUTION)
def convolution(op: NodeOperands) -> Lowered:
    """Layouts are (batch, feature, spatial ...), (out, in, spatial ...), like the first.

    With a dilated input (a transposed convolution, the gradient of a strided one) only the
    elements of the input are multiplied, not the zeros between them.
    """
    x, weight, bias = op.x(0), op.x(1), op.optional(2)
    x_spec, w_spec, out_spec = (list(op.attr(k)) for k in ("lhs", "rhs", "out"))
    groups, batch_groups = int(op.attr("groups", 1)), int(op.attr("batch_groups", 1))
    transposed = any(d > 1 for d in op.attr("lhs_dilation") or ())
    space = [x.shape[d] for d in x_spec[2:]] if transposed else None
    sizes: Sizes = {
        # Of a convolution in groups of the batch each group of results sees its own images.
        "batch": x.shape[x_spec[0]] // batch_groups,
        "out_channels": weight.shape[w_spec[0]],
        "in_channels": weight.shape[w_spec[1]] * groups,
        "groups": groups,
        "kernel": tuple(weight.shape[d] for d in w_spec[2:]),
        "spatial": tuple(space or [op.out.shape[d] for d in out_spec[2:]]),
    }
    if x.shape[x_spec[1]] != weight.shape[w_spec[1]] * groups:
        raise ValueError("channels that do not fit")
    attrs: Attributes = {"transposed": transposed, "bias": bias is not None}
    return op.described("convolution", sizes, attrs, inputs=(x, weight, bias))
