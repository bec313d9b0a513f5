"""The same counts as torch's own formulas, where those are right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.builders import matrix, op

pytestmark = pytest.mark.torch
formulas = pytest.importorskip("torch.utils.flop_counter")

size = st.integers(1, 64)


@settings(max_examples=50)
@given(size, size, size, size)
def test_products(b, m, n, k):
    view = op("matmul", {"b": b, "m": m, "n": n, "k": k})
    assert matrix(view) == formulas.bmm_flop((b, m, k), (b, k, n))
    single = op("matmul", {"m": m, "n": n, "k": k})
    assert matrix(single) == formulas.mm_flop((m, k), (k, n))


@settings(max_examples=50)
@given(size, size, size, size, st.integers(1, 7), st.integers(1, 50), st.booleans())
def test_convolution(batch, out, per_group, groups, kernel, side, transposed):
    in_channels, out_channels = per_group * groups, out * groups
    sizes = {"batch": batch, "out_channels": out_channels, "in_channels": in_channels}
    sizes |= {"groups": groups, "kernel": (kernel, kernel), "spatial": (side, side)}
    x, y = [batch, in_channels, side, side], [batch, out_channels, side, side]
    weight = [in_channels, out] if transposed else [out_channels, per_group]
    expected = formulas.conv_flop_count(x, [*weight, kernel, kernel], y, transposed)
    assert matrix(op("convolution", sizes, transposed=transposed)) == expected


@settings(max_examples=50)
@given(size, size, size, size, size)
def test_attention_without_mask(batch, heads, q, kv, d):
    sizes = {"batch": batch, "heads": heads, "q_len": q, "kv_len": kv, "head_dim": d}
    shapes = (batch, heads, q, d), (batch, heads, kv, d), (batch, heads, kv, d)
    assert matrix(op("attention", sizes)) == formulas.sdpa_flop_count(*shapes)
    backward = formulas.sdpa_backward_flop_count((batch, heads, q, d), *shapes)
    assert matrix(op("attention_backward", sizes)) == backward


def test_depthwise_backward_where_torch_counts_too_much():
    """A known deviation: torch 2.13 ignores the groups in the gradient of the weight."""
    sizes = {"batch": 1, "out_channels": 8, "in_channels": 8, "groups": 8}
    sizes |= {"kernel": (3, 3), "spatial": (6, 6)}
    ours = matrix(op("convolution_backward", sizes))
    image, weight = [1, 8, 6, 6], [8, 1, 3, 3]
    skipped = (None, None, None, None, False, None, 8)
    theirs = formulas.conv_backward_flop(
        image, image, weight, *skipped, [True, True, False], out_val=[image, weight, [8]]
    )
    # per gradient 8 channels * 36 places * 9 taps
    assert ours == 2 * 2 * 8 * 36 * 9
    assert theirs > ours
