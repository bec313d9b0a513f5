"""Fourier transforms and linear algebra: customary counts, and eliminations that really run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.ops import cost
from tests.ops.builders import costed, counts, matrix, op, tensor, vector


@pytest.mark.parametrize(
    ("length", "transforms", "real", "flops"),
    [
        (1024, 1, False, 51_200),  # 5 * 1024 * 10
        (1024, 3, True, 76_800),
        (
            2,
            1,
            False,
            10,
        ),  # one butterfly: a sum and a difference of complex numbers, and a product
        (1, 5, False, 0),
        (1000, 1, False, 49_829),  # 5000 * log2(1000)
    ],
)
def test_fft(length, transforms, real, flops):
    sizes = {"length": length, "transforms": transforms, "elements": length * transforms}
    assert vector(op("fft", sizes, real=real)) == flops


def test_fft_is_counted_in_real_numbers():
    z = tensor(8, dtype="complex64")
    found = costed(op("fft", {"length": 8, "transforms": 1}, inputs=(z,), outputs=(z,)))
    assert found.work == {("vector", "fp32"): 120}
    assert (found.read_bytes, found.write_bytes) == (64, 64)


def lu(n: int) -> int:
    """Gaussian elimination, operation by operation."""
    count = 0
    for k in range(n):
        count += 1  # the reciprocal of the pivot, as LAPACK forms it
        for _ in range(k + 1, n):
            count += 1  # a multiplier
            for _ in range(k + 1, n):
                count += 2
    return count


def substitution(n: int, *, unit: bool) -> int:
    count = 0
    for row in range(n):
        count += 2 * row + (0 if unit else 1)
    return count


def cholesky(n: int) -> int:
    count = 0
    for j in range(n):
        count += 2 * j + 1  # the root of a_jj - sum of squares
        for _ in range(j + 1, n):
            count += 2 * j + 1
    return count


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_factorizations_step_by_step(n, rhs, batch):
    sizes = {"n": n, "rhs": rhs, "batch": batch}

    def found(function: str) -> int:
        return matrix(op("linalg", sizes, function=function))

    assert found("lu") == batch * lu(n)
    assert found("cholesky") == batch * cholesky(n)
    both = substitution(n, unit=True) + substitution(n, unit=False)
    assert found("solve") == batch * (lu(n) + rhs * both)
    assert found("triangular_solve") == batch * rhs * substitution(n, unit=False)
    assert found("factored_solve") == batch * rhs * 2 * substitution(n, unit=False)
    assert found("det") == batch * (lu(n) + n - 1)


@pytest.mark.parametrize(
    ("function", "m", "n", "flops"),
    [
        ("inverse", 30, 30, 52_725),  # 2n³ - 3/2 n² + 5/2 n = 54,000 - 1,350 + 75
        ("qr", 60, 30, 180_000),  # 4mn² - 4/3 n³ = 216,000 - 36,000
        ("householder_product", 60, 30, 90_000),
        ("svd", 60, 30, 972_000),  # 14mn² + 8n³ = 756,000 + 216,000
        ("svdvals", 60, 30, 180_000),
        ("eigh", 30, 30, 243_000),
        ("eigvalsh", 30, 30, 36_000),
        ("eig", 30, 30, 675_000),
        ("eigvals", 30, 30, 270_000),
        ("ldl", 30, 30, 9_000),
        ("lstsq", 60, 30, 90_000 + 2 * 6_300),  # and 4mn - n² a right-hand side
    ],
)
def test_published_counts(function, m, n, flops):
    assert matrix(op("linalg", {"m": m, "n": n, "rhs": 2}, function=function)) == flops


def test_complex_linear_algebra_is_four_real_ones():
    z = tensor(3, 3, dtype="complex64")
    view = op("linalg", {"n": 3}, inputs=(z,), outputs=(z,), function="lu")
    assert costed(view).work == {("matrix", "fp32"): 4 * lu(3)}


def test_unknown_function_is_unmodelled():
    # The squarings of a matrix exponential depend on the values.
    assert cost(op("linalg", {"n": 3}, function="matrix_exp")) is None
    assert counts(op("linalg", {"n": 1}, function="lu")) == (1, 0, 0)
