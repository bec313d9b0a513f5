"""What is skipped is not read: strides, reductions of images, gradients that need no values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.ops.base import as_read
from tests.ops.builders import costed, op, tensor, vector


def strided_1x1(batch: int = 1):
    """The shortcut at the head of ResNet-50's second stage: 56 x 56 to 28 x 28."""
    sizes = {"batch": batch, "out_channels": 512, "in_channels": 256}
    return op(
        "convolution",
        sizes | {"kernel": (1, 1), "spatial": (28, 28)},
        inputs=(tensor(batch, 256, 56, 56), tensor(512, 256, 1, 1)),
        outputs=(tensor(batch, 512, 28, 28),),
    )


def test_a_strided_1x1_reads_a_quarter_of_the_image():
    found = costed(strided_1x1())
    # 256 x 28 x 28 pixels and 512 x 256 weights, 4 bytes each
    assert found.read_bytes == 802_816 + 524_288
    image, weight = as_read(strided_1x1().inputs, found)
    assert (image.nbytes, weight.nbytes) == (802_816, 524_288)


def test_of_a_sweep_each_point_reads_its_quarter():
    found = costed(strided_1x1(np.array([1, 8])))
    assert list(found.read_bytes) == [1_327_104, 8 * 802_816 + 524_288]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9))
def test_pixels_under_windows(kernel, stride, outputs):
    """Against the set of positions that the windows visit, along one axis without padding."""
    side = (outputs - 1) * stride + kernel
    visited = {o * stride + k for o, k in itertools.product(range(outputs), range(kernel))}
    view = op(
        "convolution",
        {"batch": 1, "out_channels": 1, "in_channels": 1, "kernel": (kernel,)}
        | {"spatial": (outputs,)},
        inputs=(tensor(1, 1, side), tensor(1, 1, kernel)),
    )
    assert costed(view).read_bytes == 4 * (len(visited) + kernel)


def test_deformed_and_transposed_convolutions_may_meet_every_pixel():
    sizes = {"batch": 1, "out_channels": 1, "in_channels": 1, "kernel": (1,), "spatial": (4,)}
    operands = (tensor(1, 1, 16), tensor(1, 1, 1))
    for attrs in ({"deformable": True}, {"transposed": True}):
        assert costed(op("convolution", sizes, inputs=operands, **attrs)).read_bytes == 4 * 17


@pytest.mark.parametrize(("grad_weight", "read"), [(True, 16 + 64 + 4), (False, 16 + 4)])
def test_gradient_of_a_strided_weight_reads_the_same_pixels(grad_weight, read):
    view = op(
        "convolution_backward",
        {"batch": 1, "out_channels": 1, "in_channels": 4, "kernel": (1, 1), "spatial": (2, 2)},
        inputs=(tensor(1, 1, 2, 2), tensor(1, 4, 4, 4), tensor(1, 1, 1, 1)),
        grad_weight=grad_weight,
    )
    assert costed(view).read_bytes == read


def test_gradient_of_a_bias_from_one_expanded_number():
    """``y.sum().backward()`` hands a single number, expanded, to the convolution."""
    view = op(
        "convolution_backward",
        {"batch": 2, "out_channels": 32, "in_channels": 1, "kernel": (1, 1), "spatial": (8, 8)},
        inputs=(tensor(2, 32, 8, 8, elements=1), tensor(2, 1, 8, 8), tensor(32, 1, 1, 1)),
        grad_bias=True,
    )
    assert vector(view) == 2 * 32 * 64 - 32


def test_a_pool_of_one_with_a_stride():
    view = op(
        "pooling",
        {"outputs": 16 * 256, "window": 1},
        inputs=(tensor(1, 16, 32, 32),),
        function="max",
    )
    assert costed(view).read_bytes == 4 * 16 * 256
    overlapping = op(
        "pooling",
        {"outputs": 64 * 56 * 56, "window": 9},
        inputs=(tensor(1, 64, 112, 112),),
        function="max",
    )
    assert costed(overlapping).read_bytes == 4 * 64 * 112 * 112


@pytest.mark.parametrize(
    ("function", "places", "read"),
    [
        ("max", (tensor(4, 4, dtype="int64"),), 64 + 128),  # gradient and places
        ("max", (), 64 + 256),  # looks for the places in the image again
        ("avg", (), 64),
        ("adaptive_avg", (), 64),
    ],
)
def test_gradient_of_a_pool_does_not_read_the_image(function, places, read):
    view = op(
        "pooling_backward",
        {"outputs": 16, "window": 4},
        inputs=(tensor(4, 4), tensor(8, 8), *places),
        function=function,
    )
    assert costed(view).read_bytes == read


@pytest.mark.parametrize(
    ("mode", "side", "pixels"),
    [
        ("nearest", 16, 8 * 256),  # one pixel a result: a sixteenth of 64 x 64
        ("bilinear", 16, 4 * 8 * 256),
        ("bilinear", 128, 8 * 4_096),  # enlarged: all of them
    ],
)
def test_a_smaller_image_reads_its_taps(mode, side, pixels):
    view = op(
        "interpolation",
        {"outputs": 8 * side * side},
        inputs=(tensor(1, 8, 64, 64),),
        outputs=(tensor(1, 8, side, side),),
        mode=mode,
    )
    assert costed(view).read_bytes == 4 * pixels
