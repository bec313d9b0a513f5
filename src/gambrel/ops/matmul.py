"""Matrix products: one contraction over k, batched or grouped by expert."""

from __future__ import annotations

from gambrel.ops.base import Cost, OpView, Size, distinct_bytes, formula, rounded, work


@formula("matmul")
def matmul(op: OpView) -> Cost:
    """2·b·m·n·k: each of the b·m·n results adds k products.

    k products and k - 1 additions make 2k - 1 operations; as every product is accumulated by one
    fused multiply-add (into zero at first), the customary count is k FMA = 2k FLOP. A bias is one
    addition per result. Weights stored narrower than they are multiplied (``dequantize``) cost a
    subtraction of the zero point and a multiplication by the scale per weight. A complex
    multiply-add is four real ones: (a+bi)(c+di) has four products, each accumulated.

    Sizes: b (1), m, n, k. Inputs: the two operands first, then bias and scales.
    """
    b, m, n, k = op.size("b", 1), op.size("m"), op.size("n"), op.size("k")
    real_per_complex = 4 if op.is_complex else 1
    bias = b * m * n if op.attrs.get("bias") else 0
    dequantize = 2 * b * n * k if op.attrs.get("dequantize") else 0
    flops = 2 * real_per_complex * b * m * n * k
    return Cost(work=work(op.operand_dtype(2), matrix=flops, vector=bias + dequantize))


@formula("grouped_matmul")
def grouped_matmul(op: OpView) -> Cost:
    """2·rows·n·k: every row meets the weights of one expert; only touched experts are read.

    Sizes: rows (= tokens·top_k), n, k, experts, top_k, tokens.
    Inputs: the rows, the weights of all experts, then offsets and scales. With
    ``weight_gradient`` the product is the gradient of the weights: the experts are an output, and
    the traffic is that of any other op.
    """
    rows, n, k = op.size("rows"), op.size("n"), op.size("k")
    bias = rows * n if op.attrs.get("bias") else 0
    done = work(op.operand_dtype(2), matrix=2 * rows * n * k, vector=bias)
    if op.attrs.get("weight_gradient") or len(op.inputs) < 2:
        return Cost(work=done)
    x, weights, *rest = op.inputs
    share = touched_share(op.size("experts"), op.size("top_k"), op.size("tokens"))
    return Cost(work=done, read_bytes=distinct_bytes((x, *rest)) + rounded(weights.nbytes * share))


def touched_share(experts: Size, top_k: Size, tokens: Size) -> Size:
    """Expected share of the experts that at least one token is sent to.

    A token misses a given expert with probability 1 - k/E (it picks k of E without replacement);
    T independent tokens all miss it with (1 - k/E)^T. The routing is taken as uniform, which
    touches the most experts.

    Args:
        experts: Number of experts, E.
        top_k: Experts a token is sent to, k.
        tokens: Number of tokens, T.

    Returns:
        Between k/E (one token) and 1.
    """
    return 1 - (1 - top_k / experts) ** tokens
