"""What language models ask of the formulas beyond a framework's ops, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gambrel.ops.matmul import touched_share
from tests.ops.builders import costed, counts, op, tensor


def grouped(**attrs: object) -> object:
    x, out = tensor(6, 5, dtype="bf16"), tensor(6, 4, dtype="bf16")
    weights = tensor(8, 5, 4, dtype="bf16")
    sizes = {"rows": 6, "n": 4, "k": 5, "experts": 8, "top_k": 2, "tokens": 3}
    return op("grouped_matmul", sizes, inputs=(x, weights), outputs=(out,), **attrs)


def test_an_activation_in_the_grouped_kernel():
    assert counts(grouped()) == (2 * 6 * 4 * 5, 0, 0)
    # swiglu: 4 and an evaluation for each pair of the 6·4 results.
    assert counts(grouped(activation="swiglu", gated=True)) == (240, 4 * 12, 12)
    # relu: 1 for each result.
    assert counts(grouped(activation="relu")) == (240, 24, 0)
    # The router's weight and the sum over experts: 2 for each result; the bias 1.
    assert counts(grouped(combine=True)) == (240, 48, 0)
    assert counts(grouped(combine=True, bias=True, activation="swiglu", gated=True)) == (
        240,
        3 * 24 + 4 * 12,
        12,
    )


def test_scales_and_biases_of_experts_are_read_like_their_weights():
    x, out = tensor(2, 5, dtype="bf16"), tensor(2, 4, dtype="bf16")
    weights, scales = tensor(8, 5, 4, dtype="int8"), tensor(8, 4, dtype="fp16")
    offsets = tensor(8, dtype="int32")
    sizes = {"rows": 2, "n": 4, "k": 5, "experts": 8, "top_k": 2, "tokens": 1}
    view = op("grouped_matmul", sizes, inputs=(x, weights, scales, offsets), outputs=(out,),
              expert_inputs=2, dequantize=True)  # fmt: skip
    found = costed(view)
    # One token touches 2 of 8: a quarter of 160 bytes of weights, 64 of
    # scales; x 20, offsets 32.
    assert found.read_bytes == 40 + 16 + 20 + 32
    # 2 for each of the 40 touched weights.
    assert counts(view)[1] == 80


def test_a_skew_by_hand():
    """Two experts, one picked, exponent 1: 2/3 and 1/3 of the tokens.

    Two tokens: neither misses the first with 1 - 1/9, the second with 1 - 4/9: 13/9 of 2 experts.
    """
    assert touched_share(2, 1, 2, 1.0) == pytest.approx(13 / 18)
    many = touched_share(2, 1, np.array([1.0, 2.0]), 1.0)
    assert many == pytest.approx([1 / 2, 13 / 18])
    # So steep that every token passes the first: 1 and 1 of three, never more than 1.
    assert touched_share(3, 2, 1, 50.0) == pytest.approx(2 / 3)


def test_a_residual_addition_in_front_of_a_norm():
    plain = {"elements": 24, "groups": 4}
    # rms_norm 3n + r, affine n; the sum n more.
    assert counts(op("normalization", plain, function="rms_norm", affine=True))[1] == 4 * 24 + 4
    view = op("normalization", plain, function="rms_norm", affine=True, residual=True)
    assert counts(view)[1] == 5 * 24 + 4


def test_rotation_inside_attention():
    sizes = {"batch": 2, "heads": 4, "kv_heads": 1, "q_len": 3, "kv_len": 9, "head_dim": 8}
    bare = counts(op("attention", sizes))
    # 3 for each of 8 values of the 4 queries and 1 key of 2·3 new tokens.
    assert counts(op("attention", sizes, rotary_dim=8))[1] - bare[1] == 3 * 8 * 5 * 6


def test_gated_delta_rule_step_by_step():
    """A brute-force recurrence of one head, every multiply-add with the state counted."""
    dk, dv, seq = 3, 5, 4
    products = decays = 0
    for _ in range(seq):
        for _ in range(dk * dv):
            decays += 1
            products += 2 * 3  # what it holds for the key, the update, the read-out
    sizes = {"batch": 1, "seq": seq, "heads": 1, "key_dim": dk, "value_dim": dv}
    found = counts(op("delta_scan", sizes))
    assert found[0] == products
    # Beside the decays: (v - held)·β 2·5, lengths 6·3, rates 4; 6 evaluations.
    assert found[1] == decays + seq * (10 + 18 + 4)
    assert found[2] == seq * 6
    plain = counts(op("delta_scan", sizes, correct=False))
    assert plain == (4 * seq * dk * dv, decays + 4 * seq, 4 * seq)


def test_rwkv_7_step_by_step():
    """As above: what the state holds for one key, two outer products, the read-out."""
    dk, dv, seq, heads = 3, 5, 4, 2
    products = decays = 0
    for _ in range(seq * heads * dk * dv):
        decays += 1
        products += 2 * 4
    sizes = {"batch": 1, "seq": seq, "heads": heads, "key_dim": dk, "value_dim": dv}
    # exp(-exp(w)) of every key channel.
    assert counts(op("wkv7_scan", sizes)) == (products, decays, 2 * seq * heads * dk)


def test_backward_of_the_delta_rule():
    sizes = {"batch": 2, "seq": 5, "heads": 3, "key_dim": 4, "value_dim": 8}
    found = counts(op("delta_scan_backward", sizes, rates=False))
    # 30 tokens and heads: two gradients of three products, and the state's two once more:
    # 30 * 8 * 2*4*8 = 15,360
    assert found[0] == 15_360
    # three times dk·dv + 2·dv + 6·dk = 32 + 16 + 24: 30 * 3 * 72
    assert found[1] == 6_480
    # the decay's exponential and the two lengths: 30 * 3
    assert found[2] == 90
