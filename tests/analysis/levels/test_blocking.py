"""Tiles of matrix products, counted by hand and by walking the loops."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.levels.blocking import Product, choose_tile
from gambrel.analysis.levels.window import Window


def product(m, n, k, batches=1, a=1, b=1, acc=1, **more):
    """Elements of ``a`` and ``b`` bytes, partial sums of ``acc`` bytes."""
    return Product(
        batches=batches,
        m=m,
        n=n,
        k=k,
        a_bytes=batches * m * k * a,
        b_bytes=batches * n * k * b,
        accumulator_bytes=acc,
        **more,
    )


def test_a_tile_by_hand():
    # 24 bytes hold 4 x 4 sums, a column of 4 and a row of 4. The 8 x 8 result is four such tiles:
    # two columns of tiles read a twice, two rows of tiles read b twice: 64 + 64 bytes again.
    found = choose_tile(product(8, 8, 8), 24)
    assert (found.rows, found.columns, found.a_passes, found.b_passes) == (4, 4, 2, 2)
    assert found.reread_bytes == 128


def test_half_precision_with_wide_sums_by_hand():
    # 1024^3 in 2 bytes, sums of 4 bytes: 256 x 256 x 4 + 256 x 2 + 256 x 2 = 263,168 bytes. Four
    # tiles a side: each operand (2 MiB) is read four times, three times more than once.
    found = choose_tile(product(1024, 1024, 1024, a=2, b=2, acc=4), 263_168)
    assert (found.rows, found.columns) == (256, 256)
    assert found.reread_bytes == 2 * 3 * 2 * 2**20


def test_narrow_weights_make_tall_tiles():
    # b costs a quarter of a: reading it more often and a less often is cheaper.
    found = choose_tile(product(4096, 4096, 4096, a=2, b=0.5, acc=4), 400_000)
    assert found.rows < found.columns
    assert found.a_passes < found.b_passes


def test_what_fits_is_read_once():
    # b (8 x 8) stays, with one row of a (8) and one row of sums (8): 64 + 8 + 8 = 80 bytes.
    assert choose_tile(product(1000, 8, 8), 80).reread_bytes == 0
    assert choose_tile(product(1000, 8, 8), 79).reread_bytes > 0
    assert choose_tile(product(8, 1000, 8), 80).reread_bytes == 0


def test_every_memory_loads_its_own_copy():
    # Four memories that each keep b: three copies more than one. Tiles would be cheaper only if
    # they read less than 3 * 64 bytes again.
    assert choose_tile(product(1000, 8, 8), 80, 4).reread_bytes == 3 * 64


def test_no_memory_at_all_reads_both_operands_for_every_product():
    found = choose_tile(product(6, 5, 4), 1)
    # a (24 bytes) for each of 5 columns, b (20 bytes) for each of 6 rows
    assert found.reread_bytes == 24 * 4 + 20 * 5


def walk(p, tile):
    """Loads of single elements: a tile's rows of a and columns of b, for every k."""
    loads = 0
    for _ in range(p.batches):
        for i in range(0, p.m, tile.rows):
            for j in range(0, p.n, tile.columns):
                for _ in range(p.k):
                    loads += min(tile.rows, p.m - i) + min(tile.columns, p.n - j)
    return loads


SMALL = st.integers(1, 24)


@given(SMALL, SMALL, st.integers(1, 6), st.integers(1, 3), st.integers(8, 400))
@settings(deadline=None)
def test_the_walk_over_the_tiles_loads_as_much(m, n, k, batches, capacity):
    p = product(m, n, k, batches)
    found = choose_tile(p, capacity)
    stays = found.rows == 1 or found.columns == 1  # or one operand stays: nothing to walk
    if not stays:
        assert walk(p, found) == p.a_bytes + p.b_bytes + found.reread_bytes
        assert found.rows * found.columns + found.rows + found.columns <= capacity


@given(SMALL, SMALL, st.integers(1, 6), st.integers(8, 400))
@settings(deadline=None)
def test_no_tile_that_fits_is_much_better(m, n, k, capacity):
    p = product(m, n, k)
    found = choose_tile(p, capacity)
    best = min(
        (-(-n // c) - 1) * m * k + (-(-m // r) - 1) * n * k
        for r in range(1, m + 1)
        for c in range(1, n + 1)
        if (r == 1 and c == 1) or r * c + r + c <= capacity
    )
    once = p.a_bytes + p.b_bytes
    assert once + found.reread_bytes <= 1.34 * (once + best)


@given(SMALL, SMALL, SMALL, st.integers(1, 1000), st.integers(1, 4))
@settings(deadline=None)
def test_between_once_and_every_time(m, n, k, capacity, instances):
    found = choose_tile(product(m, n, k), capacity, instances)
    assert 0 <= found.reread_bytes <= m * k * (n - 1) + n * k * (m - 1)


@given(st.integers(8, 300), st.integers(8, 300), st.integers(8, 300), st.integers(32, 4000))
@settings(deadline=None)
def test_never_below_the_lower_bound(m, n, k, capacity):
    # Kwasniewski et al. 2019: 2mnk/sqrt(S) + mn words with S words of memory.
    p = product(m, n, k)
    moved = p.a_bytes + p.b_bytes + choose_tile(p, capacity).reread_bytes + m * n
    if capacity < m * k and capacity < n * k and capacity < m * n:
        assert moved >= 2 * m * n * k / math.sqrt(capacity)


@given(SMALL, SMALL, SMALL, st.integers(1, 500))
@settings(deadline=None)
def test_batches_are_independent(m, n, k, capacity):
    one = choose_tile(product(m, n, k), capacity).reread_bytes
    assert choose_tile(product(m, n, k, 5), capacity).reread_bytes == 5 * one


@given(SMALL, SMALL, SMALL, st.integers(1, 500))
@settings(deadline=None)
def test_the_operands_may_change_places(m, n, k, capacity):
    there = choose_tile(product(m, n, k), capacity).reread_bytes
    back = choose_tile(product(n, m, k), capacity).reread_bytes
    assert there == back


def test_neighbouring_tiles_share_inputs():
    # 8 outputs, 3 taps: 10 inputs. Two tiles of 4 outputs span 6 inputs each: 12 for 10.
    window = Window(outputs=(8,), kernel=(3,), stride=(1.0,))
    assert window.read_bytes(4, 1000) == pytest.approx(1200)
    # Stride 2: 8 outputs span 17 inputs, 4 outputs span 9: 18 for 17.
    wide = Window(outputs=(8,), kernel=(3,), stride=(2.0,))
    assert wide.read_bytes(4, 1700) == pytest.approx(1800)
    # Tiles of whole images, and of several, share nothing.
    assert window.read_bytes(8, 1000) == window.read_bytes(80, 1000) == 1000


def test_square_tiles_of_an_image():
    # 16 x 16 outputs, 3 x 3 taps, 18 x 18 inputs: tiles of 4 x 4 outputs span 6 x 6 inputs, and 16
    # of them read 576 for 324.
    window = Window(outputs=(16, 16), kernel=(3, 3), stride=(1.0, 1.0))
    assert window.read_bytes(16, 324) == pytest.approx(576)
    # Single outputs read every tap: 256 x 9.
    assert window.read_bytes(1, 324) == pytest.approx(2304)


def test_a_convolution_pays_for_the_overlap():
    window = Window(outputs=(16, 16), kernel=(3, 3), stride=(1.0, 1.0))
    flat = product(256, 64, 9 * 4, acc=4)
    overlapping = product(256, 64, 9 * 4, acc=4, window=window)
    assert choose_tile(overlapping, 1500).reread_bytes > choose_tile(flat, 1500).reread_bytes
