"""Scaled dot-product attention as one fused op, and what its scores add where it is not."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from gambrel.dtypes import width_bytes
from gambrel.ops.base import Cost, OpView, Size, TensorView, distinct_bytes, formula, minimum, work
from gambrel.roofline import maximum


@formula("attention")
def attention(op: OpView) -> Cost:
    """2·batch·heads·pairs·(head_dim + v_head_dim), and a softmax over the visible pairs.

    A visible query-key pair costs one product of length head_dim (its score) and one scaled
    addition of a value row of length v_head_dim. On the vector engine a pair costs one
    multiplication by the scale, one addition of the mask, and its share of the softmax (see
    `gambrel.ops.normalization.softmax`: 4 a value, less 2 a row; one exponential); dropout
    multiplies by its mask and rescales. ``rotary_dim`` values of each new query and key that the
    kernel rotates first (x·cos + x'·sin) cost 3 each.

    Sizes: batch, heads, kv_heads (heads), q_len, kv_len, head_dim, v_head_dim (head_dim), window;
    pairs, where the visible ones of a head are known and follow no such form (a block mask).
    Attrs: rotary_dim, causal, causal_alignment (``"lower_right"``: the last query sees all keys;
    ``"upper_left"``: the first query sees the first key), mask, dropout.
    Inputs: query, key, value, then mask. Keys and values are read once per key/value head, however
    often the framework repeated them for the query heads, and only where some query sees them.
    """
    pairs = op.size("batch") * op.size("heads") * visible_pairs(op)
    rows = op.size("batch") * op.size("heads") * _seeing_queries(op)
    d, dv = _head_dims(op)
    vector = pairs * (5 + bool(op.attrs.get("mask")) + 2 * bool(op.attrs.get("dropout"))) - 2 * rows
    if op.attrs.get("rotary_dim"):
        turned = op.size("heads") + op.size("kv_heads", op.size("heads"))
        rotated = op.size("batch") * op.size("q_len") * turned
        vector = vector + 3 * rotated * op.attrs["rotary_dim"]
    return Cost(
        work=work(op.operand_dtype(1), matrix=2 * pairs * (d + dv), vector=vector, special=pairs),
        read_bytes=distinct_bytes(_unrepeated(op, op.inputs, 1, _seen_keys(op))),
    )


#: What may be several kernels, between which scores pass through memory.
SPLIT: Final = frozenset({"attention", "attention_backward"})


class SplitScores(msgspec.Struct, frozen=True):
    """Bytes of scores that the kernels of an attention pass through memory.

    Attributes:
        once: All scores, masked ones as well.
        products: What the products read and write.
        softmax: What the softmax, or its gradient, reads and writes.
        written: Of both, what is written.
    """

    once: Size
    products: Size
    softmax: Size
    written: Size


def split_scores(op: OpView) -> SplitScores:
    """Of an attention, or of its gradients, as two or four products around a softmax."""
    pairs = op.size("batch") * op.size("heads") * op.size("q_len") * op.size("kv_len")
    once = pairs * width_bytes(op.operand_dtype(1))
    if op.kind == "attention":
        return SplitScores(once, 2 * once, 2 * once, 2 * once)
    # P read, dP written, dS read twice; then P and dP read and dS written.
    return SplitScores(once, 4 * once, 3 * once, 2 * once)


@formula("attention_scores")
def attention_scores(op: OpView) -> Cost:
    """2·batch·pairs·heads·head_dim: scores of an indexer, which stay in memory.

    The score of a visible query-key pair is the sum over heads of a weight times the rectified
    product of length head_dim: of each head a maximum, a multiplication and an addition (the first
    head adds to nothing). All heads share one key.

    Sizes: batch, heads, q_len, kv_len, head_dim, window. Attrs: causal, causal_alignment.
    Inputs: query, key, weights of heads. Output: scores.
    """
    pairs = op.size("batch") * visible_pairs(op)
    heads = op.size("heads")
    matrix = 2 * pairs * heads * op.size("head_dim")
    vector = work("fp32", vector=pairs * (3 * heads - 1))
    return Cost(work=work(op.operand_dtype(1), matrix=matrix) | vector)


@formula("attention_scores_backward")
def attention_scores_backward(op: OpView) -> Cost:
    """4·batch·pairs·heads·head_dim: the gradients dQ = dS·K and dK = dSᵀ·Q.

    The products are formed again to know which were rectified: 2·pairs·heads·head_dim more. Vector
    work of a pair and head: the mask, the weight, and the gradient of the weight with its addition.

    Sizes and attrs: as attention_scores. Inputs: gradient of the scores, query, key, weights.
    """
    pairs = op.size("batch") * visible_pairs(op) * op.size("heads")
    matrix = work(op.operand_dtype(1), matrix=6 * pairs * op.size("head_dim"))
    return Cost(work=matrix | work("fp32", vector=4 * pairs))


@formula("attention_backward")
def attention_backward(op: OpView) -> Cost:
    """Five products instead of two: 2·batch·heads·pairs·(3·head_dim + 2·v_head_dim).

    With S = QKᵀ, P = softmax(S), O = PV: the fused kernel keeps no P, so it forms S again
    (head_dim), then dV = PᵀdO and dP = dO·Vᵀ (v_head_dim each), dQ = dS·K and dK = dSᵀ·Q (head_dim
    each). Source: Dao, "FlashAttention-2" (2023), section 3.1.2. ``recompute=False`` leaves out the
    first. A kernel of one gradient forms S and dP again for itself (``gradients="query"``: S, dP
    and dQ; ``"keys"``: S, dP, dV and dK), and is given D.

    Vector work of a pair: S·scale, minus the saved log-sum, exp (one evaluation), dS = P·(dP - D)
    with two, times the scale: 5; an added mask 1; dropout 4 (mask and scale on P and on dP). A row
    needs D = sum(dO·O): v_head_dim products and v_head_dim - 1 additions.

    Sizes and attrs: as attention, recompute (True) and gradients (all).
    Inputs: grad_output, query, key, value, output, logsumexp, mask. Outputs: the gradients of
    query, key, value.
    """
    heads = op.size("batch") * op.size("heads")
    pairs = heads * visible_pairs(op)
    d, dv = _head_dims(op)
    own = {"query": 2 * d + dv, "keys": 2 * d + 2 * dv}
    whole = (3 if op.attrs.get("recompute", True) else 2) * d + 2 * dv
    wanted = str(op.attrs.get("gradients"))
    products = own.get(wanted, whole)
    rows = 0 if wanted in own else heads * _seeing_queries(op) * (2 * dv - 1)
    per_pair = 5 + bool(op.attrs.get("mask")) + 4 * bool(op.attrs.get("dropout"))
    vector = pairs * per_pair + rows
    return Cost(
        work=work(op.operand_dtype(1), matrix=2 * pairs * products, vector=vector, special=pairs),
        read_bytes=distinct_bytes(_unrepeated(op, op.inputs, 2, _seen_keys(op))),
        write_bytes=distinct_bytes(_unrepeated(op, op.outputs, 1, op.size("kv_len"))),
    )


def visible_pairs(op: OpView) -> Size:
    """Query-key pairs of one head that the mask leaves, under the convention of ``op``.

    Query i (from 0) of q sees, of kv keys, all; or, causal: i + 1 keys aligned upper left (at most
    kv), or kv - q + 1 + i keys aligned lower right (at least 0): it stands behind kv - q cached
    ones. A window leaves at most that many of them. With t(n) = 1 + 2 + ... + n, each summand cut
    at the window, the sums are t(q), cut at kv as well, and t(kv) - t(kv - q).
    """
    if "pairs" in op.sizes:
        return op.size("pairs")
    q, kv = op.size("q_len"), op.size("kv_len")
    most = minimum(op.size("window", kv), kv)
    if not op.attrs.get("causal") or op.conventions.causal == "full":
        return q * most
    if _is_upper_left(op):
        return _cut_triangle(q, most)
    return _cut_triangle(kv, most) - _cut_triangle(maximum(kv - q, 0), most)


def _cut_triangle(n: Size, most: Size) -> Size:
    """``sum(min(i, most) for i in 1..n)``: a triangle up to ``most``, then a rectangle."""
    rising = minimum(n, most)
    return rising * (rising + 1) // 2 + (n - rising) * most


def _seeing_queries(op: OpView) -> Size:
    """Queries that see a key: aligned lower right, the first q - kv of them see none."""
    q, kv = op.size("q_len"), op.size("kv_len")
    causal = op.attrs.get("causal") and op.conventions.causal != "full"
    return minimum(q, kv) if causal and not _is_upper_left(op) else q


def _seen_keys(op: OpView) -> Size:
    """Keys that some query sees, whatever the convention for counting work.

    Aligned lower right, the windows of q consecutive queries cover q + window - 1 keys; aligned
    upper left, queries reach no key behind the q-th.
    """
    q, kv = op.size("q_len"), op.size("kv_len")
    if op.attrs.get("causal") and _is_upper_left(op):
        return minimum(q, kv)
    return minimum(kv, q + op.size("window", kv) - 1)


def _is_upper_left(op: OpView) -> bool:
    return bool(op.attrs.get("causal_alignment") == "upper_left")


def _head_dims(op: OpView) -> tuple[Size, Size]:
    d = op.size("head_dim")
    return d, op.size("v_head_dim", d)


def _unrepeated(
    op: OpView, tensors: tuple[TensorView, ...], first: int, keys: Size
) -> tuple[TensorView, ...]:
    """``tensors`` with keys and values (at ``first`` and behind it) cut to ``keys`` a kv head."""
    if len(tensors) < first + 2:
        return tensors
    rows = op.size("batch") * op.size("kv_heads", op.size("heads")) * keys
    key, value = (
        replace(t, elements=minimum(t.elements, rows * width))
        for t, width in zip(tensors[first : first + 2], _head_dims(op), strict=True)
    )
    return (*tensors[:first], key, value, *tensors[first + 2 :])
