"""The tiling search against brute force, published bounds and laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gambrel.advise.design.tiles import AttentionShape, ConvShape, GemmShape, Widths, tile_curve

BYTES = Widths(inputs=1, weights=1, outputs=1, sums=1)
REAL = Widths(inputs=1, weights=2, outputs=1, sums=4)


def simulated(s, tile, order, w):
    """(room, traffic) of one tiling by running its loops with one tile of each operand on chip."""
    trips = {d: math.ceil(getattr(s, d) / tile[d]) for d in "mnk"}

    def size(d, i):
        return min(tile[d], getattr(s, d) - i * tile[d])

    held, moved, seen = {}, 0, set()
    for place in itertools.product(*(range(trips[d]) for d in order)):
        at = dict(zip(order, place, strict=True))
        for name, dims, width in (("a", "mk", w.inputs), ("b", "kn", w.weights)):
            key = tuple(at[d] for d in dims)
            if held.get(name) != key:
                held[name] = key
                moved += math.prod(size(d, at[d]) for d in dims) * width
        key = at["m"], at["n"]
        if held.get("c") != key:
            if held.get("c") is not None:
                moved += held["c_size"] * w.sums  # leaves as partial sums, corrected below
            if key in seen:
                moved += size("m", at["m"]) * size("n", at["n"]) * w.sums
            seen.add(key)
            held["c"], held["c_size"] = key, size("m", at["m"]) * size("n", at["n"])
    moved += held["c_size"] * w.sums
    # the last time that a tile leaves it is a result
    moved -= s.m * s.n * (w.sums - w.outputs)
    area = {d: tile[d] for d in "mnk"}
    room = (
        area["m"] * area["k"] * w.inputs
        + area["k"] * area["n"] * w.weights
        + area["m"] * area["n"] * w.sums
    )
    return room, moved


@pytest.mark.parametrize("s", [GemmShape(m=6, n=5, k=4), GemmShape(m=3, n=8, k=7)])
@pytest.mark.parametrize("w", [BYTES, REAL])
def test_the_curve_is_the_best_of_all_tilings_and_orders(s, w):
    tried = [
        simulated(s, dict(zip("mnk", tile, strict=True)), order, w)
        for tile in itertools.product(range(1, s.m + 1), range(1, s.n + 1), range(1, s.k + 1))
        for order in itertools.permutations("mnk")
    ]
    curve = tile_curve(s, w)
    for room in range(1, 200):
        fits = [moved for need, moved in tried if need <= room]
        found = float(curve.at(room))
        assert found == (min(fits) if fits else math.inf), room


def test_a_gemm_by_hand():
    # 64 x 64 x 64 in bytes: the result stays (64*64), a column and a row stream
    curve = tile_curve(GemmShape(m=64, n=64, k=64), BYTES)
    assert curve.least == 3 * 64 * 64
    assert float(curve.at(64 * 64 + 64 + 64)) == 3 * 64 * 64
    found = curve.tiling(64 * 64 + 64 + 64)
    assert found.traffic_bytes == 3 * 4096
    # half of the rows stay: B is read twice
    assert float(curve.at(32 * 64 + 32 + 64)) == 4096 + 2 * 4096 + 4096


def image(s, w):
    return s.batch * s.in_channels * (s.out[0] + s.kernel[0] - 1) * (s.out[1] + s.kernel[1] - 1)


def test_a_convolution_by_hand():
    s = ConvShape(batch=1, out_channels=8, in_channels=4, out=(6, 6), kernel=(3, 3))
    curve = tile_curve(s, BYTES)
    weights, results = 8 * 4 * 9, 8 * 36
    assert curve.least == weights + results + image(s, BYTES)
    # all weights, three rows of the image and a row of results on chip: everything crosses once
    assert float(curve.at(weights + 3 * 8 * 4 + 6 * 8)) == curve.least
    # one by one kernels of stride two read a quarter of the image
    small = ConvShape(
        batch=1, out_channels=1, in_channels=1, out=(4, 4), kernel=(1, 1), stride=(2, 2)
    )
    assert tile_curve(small, BYTES).least == 1 + 16 + 16


def test_a_1x1_convolution_is_a_gemm_with_plenty_and_never_beats_it():
    conv = ConvShape(batch=1, out_channels=24, in_channels=16, out=(8, 8), kernel=(1, 1))
    gemm = GemmShape(m=64, n=24, k=16)
    a, b = tile_curve(conv, REAL), tile_curve(gemm, REAL)
    assert a.least == b.least
    for room in (40, 100, 200, 400, 800, 1600, 3200):
        assert float(a.at(room)) >= float(b.at(room))


shapes = st.one_of(
    st.builds(GemmShape, m=st.integers(1, 400), n=st.integers(1, 400), k=st.integers(1, 400)),
    st.builds(
        ConvShape,
        batch=st.integers(1, 3),
        out_channels=st.integers(1, 40),
        in_channels=st.integers(1, 40),
        out=st.tuples(st.integers(1, 20), st.integers(1, 20)),
        kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
        stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    ),
    st.builds(
        AttentionShape,
        rows=st.integers(1, 300),
        keys=st.integers(1, 300),
        width=st.integers(1, 64),
        value_width=st.integers(1, 64),
        causal=st.booleans(),
    ),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(shapes)
def test_more_memory_never_means_more_traffic_and_the_bound_holds(shape):
    curve = tile_curve(shape, BYTES)
    rooms = np.unique(np.geomspace(1, 1e7, 60).astype(int))
    found = curve.at(rooms)
    assert (np.diff(found[np.isfinite(found)]) <= 0).all()
    assert found[-1] == curve.least
    if isinstance(shape, GemmShape):
        m, n, k = shape.m, shape.n, shape.k
        bound = 2 * m * n * k / np.sqrt(rooms) - 2 * rooms - m * n
        assert (found >= bound).all()
    for room in (200, 5000):
        tiling = curve.tiling(room)
        assert tiling is None or tiling.on_chip_bytes <= room
