"""GEMMs: one contraction over k, batched or grouped by expert."""

from __future__ import annotations

from functools import lru_cache

from gambrel.ops.base import Cost, OpView, Size, distinct_bytes, formula, rounded, work
from gambrel.ops.elementwise import FUNCTIONS


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

    What the kernel does to its results before it writes them: ``activation`` (a function of
    `gambrel.ops.elementwise`, once for each result, or for each pair of results when ``gated``),
    ``combine`` (times the router's weight, added to the other experts' results of its token: 2).
    ``dequantize``: weights stored narrower than they are multiplied, 2 for each touched one.

    Sizes: rows (= tokens·top_k), n, k, experts, top_k, tokens.
    Attrs: bias, activation, gated, combine, dequantize, routing_skew, and expert_inputs: how many
    inputs after the rows hold a part for each expert (1, the weights; then scales, biases).
    Inputs: the rows, the weights of all experts, then scales and biases, then offsets. With
    ``weight_gradient`` the product is the gradient of the weights: the experts are an output, and
    the traffic is that of any other op. With ``own_rows`` kernels pass over the rows of this device
    alone, as in training, where tokens are exchanged; it counts for the expected time.
    """
    rows, n, k = op.size("rows"), op.size("n"), op.size("k")
    per_result, special = _epilogue(op)
    vector = rows * n * per_result[0] // per_result[1] if per_result[0] else 0
    if op.attrs.get("weight_gradient") or len(op.inputs) < 2:
        return Cost(work=work(op.operand_dtype(2), matrix=2 * rows * n * k, vector=vector))
    share = touched_share(
        op.size("experts"),
        op.size("top_k"),
        op.size("tokens"),
        float(op.attrs.get("routing_skew", 0.0)),
    )
    if op.attrs.get("dequantize"):
        vector = vector + 2 * rounded(op.inputs[1].elements * share)
    done = work(
        op.operand_dtype(2),
        matrix=2 * rows * n * k,
        vector=vector,
        # A plain zero, not zero times an array: engines with nothing to do are left out.
        special=rows * n * special // per_result[1] if special else 0,
    )
    held = 1 + int(op.attrs.get("expert_inputs", 1))
    of_experts = distinct_bytes(op.inputs[1:held])
    rest = distinct_bytes((op.inputs[0], *op.inputs[held:]))
    least = of_experts * op.size("top_k") / op.size("experts")
    return Cost(
        work=done,
        read_bytes=rest + rounded(of_experts * share),
        least_read_bytes=rest + rounded(least),
    )


def _epilogue(op: OpView) -> tuple[tuple[int, int], int]:
    """Vector FLOP for each result as a fraction, and evaluations over the same denominator."""
    vector = int(bool(op.attrs.get("bias"))) + 2 * int(bool(op.attrs.get("combine")))
    counts = FUNCTIONS.get(str(op.attrs.get("activation")), (0, 0))
    if op.attrs.get("gated"):
        return (2 * vector + counts[0], 2), counts[1]
    return (vector + counts[0], 1), counts[1]


def touched_share(experts: Size, top_k: Size, tokens: Size, skew: float = 0.0) -> Size:
    """Expected share of the experts that at least one token is sent to.

    A token misses a given expert with probability 1 - k/E (it picks k of E without replacement);
    T independent tokens all miss it with (1 - k/E)^T. Uniform routing touches the most experts.
    With a skew, the expert of rank r is picked in proportion to r^-skew (Zipf), never by more than
    every token.

    Args:
        experts: Number of experts, E.
        top_k: Experts a token is sent to, k.
        tokens: Number of tokens, T.
        skew: Exponent; 0 is uniform.

    Returns:
        Between k/E (one token) and 1.
    """
    if not skew:
        return 1 - (1 - top_k / experts) ** tokens
    picked = _pick_probabilities(int(experts), int(top_k), skew)
    missed: Size = 0
    for probability in picked:
        missed = missed + (1 - probability) ** tokens
    return 1 - missed / len(picked)


@lru_cache(maxsize=64)
def _pick_probabilities(experts: int, top_k: int, skew: float) -> tuple[float, ...]:
    """How likely a token passes each expert; they sum to ``top_k`` and none exceeds 1."""
    weights = [rank**-skew for rank in range(1, experts + 1)]
    certain = 0  # experts that every token passes
    while certain < top_k:
        scale = (top_k - certain) / sum(weights[certain:])
        if weights[certain] * scale <= 1:
            break
        certain += 1
    left = (top_k - certain) / sum(weights[certain:]) if certain < experts else 0.0
    return tuple(1.0 if i < certain else w * left for i, w in enumerate(weights))
