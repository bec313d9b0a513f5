"""Cycles of arrays: counted by hand, by a simulation of every unit, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.advise.design.systolic import DATAFLOWS, Arrays, Gemm, cycles, streamed_words


def array(rows, cols, dataflow, *, count=1, hidden=False):
    return Arrays(
        rows=np.array([float(rows)]),
        cols=np.array([float(cols)]),
        count=np.array([float(count)]),
        dataflow=np.array([DATAFLOWS.index(dataflow)]),
        hidden=hidden,
    )


def turns(product, *shape, **more):
    return float(cycles(product, array(*shape, **more))[0])


def simulated(m, n, k, rows, cols):
    """Last cycle in which a unit of an output-stationary array works, fold by fold, and its drain.

    Unit (i, j) sees operand t of its sum in cycle i + j + t: rows and columns enter skewed.
    """
    total = 0
    for _ in range(math.ceil(m / rows) * math.ceil(n / cols)):
        busy = [i + j + t for i in range(rows) for j in range(cols) for t in range(k)]
        total += max(busy) + 1 + rows  # the results leave down the columns
    return total


@pytest.mark.parametrize(
    "shape", [(4, 4, 4, 4, 4), (5, 9, 3, 4, 2), (1, 1, 1, 2, 3), (8, 3, 7, 3, 8)]
)
def test_output_stationary_is_what_every_unit_does(shape):
    m, n, k, rows, cols = shape
    assert turns(Gemm(m=m, n=n, k=k), rows, cols, "output") == simulated(*shape)


def test_by_hand():
    # K 512 and N 256 on 128 x 128: 4 x 2 folds of 2*128 + 128 + 1000 - 2 cycles
    product = Gemm(m=1000, n=256, k=512)
    assert turns(product, 128, 128, "weight") == 8 * 1382
    # the next weights load behind 1000 rows; the array fills and drains once
    assert turns(product, 128, 128, "weight", hidden=True) == 8 * 1000 + 254
    # inputs stay: K 512 and M 1000 are placed, 4 x 8 folds that stream N = 256
    assert turns(product, 128, 128, "input", hidden=True) == 32 * 256 + 254
    # few rows cannot hide the loading of 128 rows of weights
    assert turns(Gemm(m=10, n=128, k=128), 128, 128, "weight", hidden=True) == 128 + 254


def test_row_stationary_is_that_of_eyeriss():
    # AlexNet on 12 x 14 units; what the chip's paper calls active: 154, 135, 156, 156, 156
    layers = [
        (Gemm(m=55 * 55, n=96, k=3 * 121, filter_rows=11, out_rows=55), 11 * 55 / 4),
        (Gemm(m=27 * 27, n=256, k=48 * 25, filter_rows=5, out_rows=27), 135),
        (Gemm(m=13 * 13, n=384, k=256 * 9, filter_rows=3, out_rows=13), 156),
    ]
    for product, active in layers:
        assert product.macs / turns(product, 12, 14, "row") == pytest.approx(active, rel=1e-3)


products = st.builds(
    Gemm,
    m=st.integers(1, 300),
    n=st.integers(1, 300),
    k=st.integers(1, 300),
    groups=st.integers(1, 5),
)
sides = st.integers(1, 64)


@given(products, sides, sides, st.sampled_from(DATAFLOWS), st.booleans(), st.integers(1, 4))
def test_no_array_beats_its_units(product, rows, cols, dataflow, hidden, count):
    found = turns(product, rows, cols, dataflow, hidden=hidden, count=count)
    assert found * rows * cols * count >= product.macs
    assert found <= turns(product, rows, cols, dataflow, count=count)  # hiding never costs
    one = turns(product, rows, cols, dataflow, hidden=hidden)
    assert found <= one <= found * count


@given(products, sides, sides, st.sampled_from(DATAFLOWS))
def test_operands_are_read_at_least_once(product, rows, cols, dataflow):
    reads, results = streamed_words(product, array(rows, cols, dataflow))
    once = product.groups * (product.m * product.k + product.k * product.n)
    assert reads[0] >= once
    assert results[0] >= product.groups * product.m * product.n
