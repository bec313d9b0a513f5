"""Convolutions: hand arithmetic, loops that visit every tap, laws."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.builders import costed, counts, matrix, op, tensor, vector
from tests.ops.oracle import Conv


@st.composite
def convolutions(draw, *, padded=True):
    axes = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    kernel, dilation = each(1, 3), each(1, 2)
    least = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    return Conv(
        batch=draw(st.integers(1, 2)),
        groups=draw(st.integers(1, 3)),
        group_in=draw(st.integers(1, 2)),
        group_out=draw(st.integers(1, 2)),
        kernel=kernel,
        dilation=dilation,
        stride=each(1, 2),
        padding=each(0, 1) if padded else (0,) * axes,
        image=tuple(low + extra for low, extra in zip(least, each(0, 2), strict=True)),
    )


def sizes(conv: Conv, spatial: tuple[int, ...]) -> dict:
    return {
        "batch": conv.batch,
        "out_channels": conv.groups * conv.group_out,
        "in_channels": conv.groups * conv.group_in,
        "groups": conv.groups,
        "kernel": conv.kernel,
        "spatial": spatial,
    }


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_as_visited_tap_by_tap(conv):
    assert matrix(op("convolution", sizes(conv, conv.out))) == 2 * conv.multiply_adds()


@settings(max_examples=60, deadline=None)
@given(convolutions(padded=False))
def test_transposed_as_spread_tap_by_tap(conv):
    view = op("convolution", sizes(conv, conv.image), transposed=True)
    assert matrix(view) == 2 * conv.transposed_multiply_adds()


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_each_gradient_repeats_the_forward_products(conv):
    """Every product of weight and input gives one for the input's and one for the weight's."""
    count = 2 * conv.multiply_adds()
    both = op("convolution_backward", sizes(conv, conv.out), grad_input=True, grad_weight=True)
    one = op("convolution_backward", sizes(conv, conv.out), grad_input=False, grad_weight=True)
    neither = op("convolution_backward", sizes(conv, conv.out), grad_input=False, grad_weight=False)
    assert (matrix(both), matrix(one), matrix(neither)) == (2 * count, count, 0)


def conv3x3(**attrs):
    return op(
        "convolution",
        {"batch": 8, "out_channels": 16, "in_channels": 16, "kernel": (3, 3), "spatial": (32, 32)},
        inputs=(tensor(8, 16, 32, 32), tensor(16, 16, 3, 3), tensor(16)),
        outputs=(tensor(8, 16, 32, 32),),
        **attrs,
    )


def test_3x3_on_8x16x32x32():
    found = costed(conv3x3(bias=True))
    # 131,072 results of 16 * 9 = 144 products
    assert found.work == {("matrix", "fp32"): 37_748_736, ("vector", "fp32"): 131_072}
    # input 0.524e6 and weight 9.2e3, read once however windows overlap; bias 64
    assert found.read_bytes == 524_288 + 9_216 + 64
    assert found.write_bytes == 524_288


def test_resnet_stem():
    # 64 filters of 7 * 7 * 3 on 112 * 112 places: 118,013,952 multiply-adds
    stem = {"batch": 1, "out_channels": 64, "in_channels": 3, "kernel": (7, 7)}
    assert matrix(op("convolution", stem | {"spatial": (112, 112)})) == 236_027_904


def test_depthwise_counts_one_channel_a_filter():
    depthwise = {"batch": 2, "out_channels": 32, "in_channels": 32, "groups": 32}
    view = op("convolution", depthwise | {"kernel": (3, 3), "spatial": (10, 10)})
    assert matrix(view) == 115_200  # 2 * 2 * 32 * 9 * 100


def test_depthwise_backward_is_twice_forward():
    depthwise = {"batch": 2, "out_channels": 32, "in_channels": 32, "groups": 32}
    view = op("convolution_backward", depthwise | {"kernel": (3, 3), "spatial": (10, 10)})
    assert matrix(view) == 230_400


def test_transposed_with_groups():
    # DCGAN-like: 4x4 kernel, 8 input places, 2 groups of 3 -> 5 channels each
    view = op(
        "convolution",
        {
            "batch": 1,
            "out_channels": 10,
            "in_channels": 6,
            "groups": 2,
            "kernel": (4, 4),
            "spatial": (2, 4),
        },
        outputs=(tensor(1, 10, 4, 8),),
        transposed=True,
        bias=True,
    )
    # 6 * 8 input values, each into 5 channels of 16 taps; 320 results get a bias
    assert counts(view) == (7_680, 320, 0)


def test_bias_without_outputs():
    view = op(
        "convolution",
        {"batch": 2, "out_channels": 3, "in_channels": 1, "kernel": (1,), "spatial": (5,)},
        bias=True,
    )
    assert vector(view) == 30


@pytest.mark.parametrize(
    ("grad_input", "grad_weight", "read"),
    [
        (True, True, 524_288 + 524_288 + 9_216),
        (False, True, 524_288 + 524_288),  # the weight is not needed for its own gradient
        (True, False, 524_288 + 9_216),
    ],
)
def test_backward_reads_what_it_needs(grad_input, grad_weight, read):
    forward = conv3x3()
    backward = op(
        "convolution_backward",
        dict(forward.sizes),
        inputs=(tensor(8, 16, 32, 32), *forward.inputs[:2]),
        outputs=(tensor(8, 16, 32, 32), tensor(16, 16, 3, 3), tensor(16)),
        grad_input=grad_input,
        grad_weight=grad_weight,
        grad_bias=True,
    )
    found = costed(backward)
    assert found.read_bytes == read
    assert found.work["vector", "fp32"] == 131_072 - 16  # 16 sums of 8,192 values


def test_bias_gradient_without_inputs():
    view = op(
        "convolution_backward",
        {"batch": 2, "out_channels": 3, "in_channels": 1, "kernel": (1,), "spatial": (5,)},
        grad_bias=True,
    )
    assert vector(view) == 30 - 3


def test_deformable_blends_four_pixels_a_tap():
    common = {"batch": 1, "out_channels": 4, "in_channels": 2, "kernel": (3, 3), "spatial": (5, 5)}
    view = op("convolution", common, deformable=True)
    # 2 channels * 9 taps * 25 places = 450 samples of 9 operations
    assert counts(view) == (2 * 4 * 450, 4_050, 0)


channels = st.integers(1, 512)


@given(
    st.integers(1, 64), channels, channels, st.lists(st.integers(1, 300), min_size=1, max_size=3)
)
def test_1x1_is_a_matmul(batch, cin, cout, spatial):
    conv = {"batch": batch, "out_channels": cout, "in_channels": cin}
    view = op("convolution", conv | {"kernel": (1,) * len(spatial), "spatial": tuple(spatial)})
    rows = batch * math.prod(spatial)
    assert matrix(view) == matrix(op("matmul", {"m": rows, "n": cout, "k": cin}))


@given(st.integers(1, 64), channels, channels, st.integers(1, 8), st.integers(1, 7))
def test_groups_divide_the_work_and_batches_multiply_it(batch, cin, cout, groups, kernel):
    conv = {"in_channels": cin * groups, "out_channels": cout * groups, "spatial": (9, 9)}
    conv |= {"kernel": (kernel, kernel)}
    whole = matrix(op("convolution", conv | {"batch": 1, "groups": 1}))
    grouped = matrix(op("convolution", conv | {"batch": 1, "groups": groups}))
    assert whole == groups * grouped
    assert matrix(op("convolution", conv | {"batch": batch, "groups": groups})) == batch * grouped
