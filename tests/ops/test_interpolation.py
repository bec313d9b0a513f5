"""Resampling against blends that really run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.ops import cost
from tests.ops.builders import costed, counts, op, tensor, vector
from tests.ops.oracle import Number, Tally

AXES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def blend(tally: Tally, axes: int, taps: int) -> Number:
    """Blends ``taps`` values along an axis, each a blend along the axes below."""
    values = [tally.number(0.1) if axes == 1 else blend(tally, axes - 1, taps) for _ in range(taps)]
    total = values[0] * 0.5
    for value in values[1:]:
        total = total + value * 0.5
    return total


@pytest.mark.parametrize("mode", sorted(AXES))
def test_blends(mode):
    tally = Tally()
    blend(tally, AXES[mode], 4 if mode == "bicubic" else 2)
    assert counts(op("interpolation", {"outputs": 10}, mode=mode)) == (0, 10 * tally.vector, 0)


@pytest.mark.parametrize("mode", sorted(AXES))
def test_gradient_is_spread_over_the_taps(mode):
    tally, axes = Tally(), AXES[mode]
    gradient = tally.number(1.0)
    for _ in range((4 if mode == "bicubic" else 2) ** axes):
        weight = tally.number(0.5)
        for _ in range(axes - 1):
            weight = weight * 0.5
        tally.number(0.2) + gradient * weight
    assert vector(op("interpolation_backward", {"outputs": 10}, mode=mode)) == 10 * tally.vector


def test_nearest_only_moves():
    image, result = tensor(1, 3, 8, 8), tensor(1, 3, 16, 16)
    view = op("interpolation", {"outputs": 768}, inputs=(image,), outputs=(result,), mode="nearest")
    found = costed(view)
    assert (found.work, found.read_bytes, found.write_bytes) == ({}, 192 * 4, 768 * 4)
    assert vector(op("interpolation_backward", {"outputs": 768}, mode="nearest")) == 768


@given(
    st.integers(1, 3),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 30),
)
@pytest.mark.parametrize(("mode", "reach"), [("bilinear", 1), ("bicubic", 2)])
def test_antialiased_axis_after_axis(mode, reach, channels, h, w, rows, columns):
    def taps(source: int, target: int) -> int:
        return -(-2 * reach * max(source, target) // target)

    across, down = channels * h * columns, channels * rows * columns  # results of the two passes
    multiply_adds = across * taps(w, columns) + down * taps(h, rows)
    image, result = tensor(1, channels, h, w), tensor(1, channels, rows, columns)
    sizes = {"outputs": down}
    forward = op(
        "interpolation", sizes, inputs=(image,), outputs=(result,), mode=mode, antialias=True
    )
    assert vector(forward) == 2 * multiply_adds - across - down
    backward = op(
        "interpolation_backward",
        sizes,
        inputs=(result,),
        outputs=(image,),
        mode=mode,
        antialias=True,
    )
    assert vector(backward) == 2 * multiply_adds


def test_by_taps():
    # area: the mean of 3 * 3 weighted pixels, 9 products and 8 additions
    assert vector(op("interpolation", {"outputs": 10, "taps": 9}, mode="area")) == 170
    assert vector(op("interpolation_backward", {"outputs": 10, "taps": 9}, mode="area")) == 180


@pytest.mark.parametrize("kind", ["interpolation", "interpolation_backward"])
@pytest.mark.parametrize("attrs", [{"mode": "area"}, {"mode": "bilinear", "antialias": True}, {}])
def test_unknown_filters_are_unmodelled(kind, attrs):
    assert cost(op(kind, {"outputs": 10}, **attrs)) is None
    images = (tensor(1, 3, 8, 8, 8),), (tensor(1, 3, 4, 4, 4),)
    odd = op(kind, {"outputs": 10}, inputs=images[0], outputs=images[1], mode="trilinear")
    assert cost(odd) is not None
    odd = op(
        kind, {"outputs": 10}, inputs=images[0], outputs=images[1], mode="trilinear", antialias=True
    )
    assert cost(odd) is None
