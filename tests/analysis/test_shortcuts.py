"""Ways around the arithmetic of a convolution, counted by hand and by brute force."""

from __future__ import annotations

import math

import pytest

import gambrel
from gambrel.analysis.shortcuts import LENGTHS


def hits(inputs, taps, stride, pad):
    """Taps on the input along a dimension, window by window."""
    windows = (inputs + 2 * pad - taps) // stride + 1
    on = [0 <= o * stride - pad + t < inputs for o in range(windows) for t in range(taps)]
    return sum(on) / len(on)


def saved_by_padding(size, taps, stride, pad):
    model = f"conv:n=8,c=256,h={size},w={size},k=256,kernel={taps},stride={stride},pad={pad},fp16"
    return gambrel.analyze(model, hardware="a100").sol


@pytest.mark.parametrize(
    ("size", "taps", "stride", "pad"), [(7, 3, 1, 1), (56, 3, 2, 1), (224, 7, 2, 3), (14, 5, 2, 2)]
)
def test_positions_of_padding_are_counted(size, taps, stride, pad):
    sol = saved_by_padding(size, taps, stride, pad)
    share = 1 - hits(size, taps, stride, pad) ** 2
    assert f"not be multiplied, {100 * share:.1f}" in sol.caveats[-1].replace(" 0%", " 0.0%")


def test_a_window_of_seven_at_stride_two_by_hand():
    """Along 224 places 112 windows miss 3 + 1 taps at the start and 2 at the end: 778 of 784."""
    assert hits(224, 7, 2, 3) == 778 / 784
    sol = saved_by_padding(224, 7, 2, 3)
    assert math.isclose(sol.counted_floor_s / sol.time_s, (778 / 784) ** 2, rel_tol=1e-9)


def test_one_multiplication_for_each_output_is_left_at_stride_one():
    sol = saved_by_padding(56, 3, 1, 1)
    assert math.isclose(sol.counted_floor_s / sol.time_s, 1 / 9, rel_tol=1e-9)
    assert sol.floor_time_s == sol.counted_floor_s


def test_a_product_has_no_way_around():
    sol = gambrel.analyze("matmul:m=4096,n=4096,k=4096,fp16", hardware="a100").sol
    assert sol.caveats == ()
    assert sol.floor_time_s == sol.counted_floor_s == sol.time_s


def test_masked_tokens_may_leave_nothing_but_traffic():
    sol = gambrel.analyze("bert-base", hardware="a100", batch_size=64).sol
    assert sol.caveats == (LENGTHS,)
    assert sol.floor_time_s < sol.counted_floor_s == sol.time_s


def test_weights_that_cross_a_link_may_be_packed():
    """How far is not known, so that the arithmetic alone is certain."""
    sol = gambrel.analyze("resnet152", hardware="coral").sol
    assert "cross the link in fewer bytes" in sol.caveats[0]
    assert 0 < sol.floor_time_s < sol.time_s
