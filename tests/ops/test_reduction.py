"""Reductions, running sums, sorting, pooling, distances."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.ops import cost, reduction
from tests.ops.builders import counts, op, vector
from tests.ops.oracle import (
    Number,
    Tally,
    added,
    exp,
    exp2,
    largest,
    least,
    log,
    log1p,
    log2,
    most,
    sqrt,
)

rows = st.integers(1, 4)
widths = st.integers(1, 7)


def variance(row: list[Number]) -> Number:
    mean = added(row) / float(len(row))
    centred = [x - mean for x in row]
    return added([c * c for c in centred]) / float(max(len(row) - 1, 1))


def logsumexp(row: list[Number]) -> Number:
    top = largest(row)
    return top + log(added([exp(x - top) for x in row]))


def norm_p(row: list[Number]) -> Number:
    total = added([exp2(3.0 * log2(abs(x))) for x in row])
    return exp2(log2(total) / 3.0)


def both(row: list[Number]) -> tuple[Number, Number]:
    low = row[0]
    for x in row[1:]:
        low = least(low, x)
    return low, largest(row)


PROGRAMS = {
    "sum": added,
    "prod": lambda row: math.prod(row[1:], start=row[0]),
    "any": added,
    "all": added,
    "mean": lambda row: added(row) / float(len(row)),
    **dict.fromkeys(("max", "min", "amax", "amin", "argmax", "argmin"), largest),
    "aminmax": both,
    "count_nonzero": lambda row: added([x > 0.0 for x in row]),
    **dict.fromkeys(("var", "var_mean"), variance),
    **dict.fromkeys(("std", "std_mean"), lambda row: sqrt(variance(row))),
    "norm": lambda row: sqrt(added([x * x for x in row])),
    "sum_of_squares": lambda row: added([x * x for x in row]),
    "norm_1": lambda row: added([abs(x) for x in row]),
    "norm_inf": lambda row: largest([abs(x) for x in row]),
    "norm_p": norm_p,
    "logsumexp": logsumexp,
}


def test_every_reduction_has_a_program():
    assert reduction.REDUCTIONS.keys() == PROGRAMS.keys()


@settings(max_examples=15)
@given(rows, widths)
@pytest.mark.parametrize("function", sorted(PROGRAMS))
def test_reduction(function, r, width):
    tally = Tally()
    for i in range(r):
        PROGRAMS[function](tally.numbers(width, start=i + 0.1))
    view = op("reduction", {"elements": r * width, "outputs": r}, function=function)
    assert counts(view) == (0, tally.vector, tally.special)


def test_a_sum_of_n_values_takes_n_minus_one_additions():
    assert vector(op("reduction", {"elements": 1000, "outputs": 1}, function="sum")) == 999


def running(row: list[Number], step) -> None:
    state = row[0]
    for x in row[1:]:
        state = step(state, x)


STEPS = {
    "cumsum": lambda a, b: a + b,
    "cumprod": lambda a, b: a * b,
    "cummax": most,
    "cummin": least,
    "logcumsumexp": lambda a, b: most(a, b) + log1p(exp(-abs(a - b))),
}


@settings(max_examples=15)
@given(rows, widths)
@pytest.mark.parametrize("function", sorted(STEPS))
def test_cumulative(function, r, width):
    tally = Tally()
    for _ in range(r):
        running(tally.numbers(width), STEPS[function])
    view = op("cumulative", {"elements": r * width, "rows": r}, function=function)
    assert counts(view) == (0, tally.vector, tally.special)


def test_cumsum_takes_n_minus_one_additions_a_row():
    assert vector(op("cumulative", {"elements": 8 * 512, "rows": 8}, function="cumsum")) == 4088


@pytest.mark.parametrize(
    ("function", "sizes", "comparisons"),
    [
        ("sort", {"elements": 4 * 1024, "rows": 4}, 4 * 1024 * 10),
        ("argsort", {"elements": 1024, "rows": 1}, 10_240),
        ("unique", {"elements": 1024, "rows": 1}, 10_240 + 1023),
        ("topk", {"elements": 2 * 1000, "rows": 2, "k": 8}, 2000 + 2 * 8 * 3),
        ("topk", {"elements": 1000, "rows": 1, "k": 1}, 1000),
        ("kthvalue", {"elements": 1000, "rows": 5}, 1000),
        ("sort", {"elements": 3, "rows": 1}, 5),  # 4.75
        ("sort", {"elements": 0, "rows": 0}, 0),
    ],
)
def test_sort(function, sizes, comparisons):
    assert vector(op("sort", sizes, function=function)) == comparisons


def windows(tally: Tally, outputs: int, window: int) -> list[list[Number]]:
    return [tally.numbers(window, i) for i in range(outputs)]


POOLS = {
    "max": largest,
    "adaptive_max": largest,
    "avg": lambda w: added(w) / float(len(w)),
    "adaptive_avg": lambda w: added(w) / float(len(w)),
    "lp": lambda w: sqrt(added([x * x for x in w])),
}


@settings(max_examples=15)
@given(st.integers(1, 9), widths)
@pytest.mark.parametrize("function", sorted(POOLS))
def test_pooling(function, outputs, window):
    tally = Tally()
    for values in windows(tally, outputs, window):
        POOLS[function](values)
    view = op("pooling", {"outputs": outputs, "window": window}, function=function)
    assert counts(view) == (0, tally.vector, tally.special)


def max_gradient(tally: Tally, g: Number, x: list[Number], into: list[Number]) -> None:
    at = max(range(len(x)), key=lambda i: x[i].value)  # saved by the forward pass
    into[at] = into[at] + g


def avg_gradient(tally: Tally, g: Number, x: list[Number], into: list[Number]) -> None:
    share = g / float(len(x))
    into[:] = [i + share for i in into]


def lp_gradient(tally: Tally, g: Number, x: list[Number], into: list[Number]) -> None:
    share = g / tally.number(0.7)
    into[:] = [i + share * v for i, v in zip(into, x, strict=True)]


POOL_GRADIENTS = {
    "max": max_gradient,
    "adaptive_max": max_gradient,
    "avg": avg_gradient,
    "adaptive_avg": avg_gradient,
    "lp": lp_gradient,
}


@settings(max_examples=15)
@given(st.integers(1, 9), widths)
@pytest.mark.parametrize("function", sorted(POOL_GRADIENTS))
def test_pooling_backward(function, outputs, window):
    tally = Tally()
    for values in windows(tally, outputs, window):
        POOL_GRADIENTS[function](tally, tally.number(1.0), values, tally.numbers(window))
    view = op("pooling_backward", {"outputs": outputs, "window": window}, function=function)
    assert counts(view) == (0, tally.vector, 0)


def test_resnet_max_pool():
    # 64 channels of 56 * 56 results, each the largest of 9: 8 comparisons
    assert vector(op("pooling", {"outputs": 200_704, "window": 9}, function="max")) == 1_605_632


def test_windows_of_different_sizes():
    # 7 values into 3 adaptive windows of 3, 3, 3: 9 covered, 3 divisions, 6 additions
    sizes = {"outputs": 3, "window": 3, "covered": 9}
    assert vector(op("pooling", sizes, function="adaptive_avg")) == 9
    # 7 into 2: windows of 4 and 4 cover 8 of them, one twice
    assert vector(op("pooling", {"outputs": 2, "covered": 8}, function="adaptive_max")) == 6
    assert vector(op("pooling_backward", {"outputs": 2, "covered": 8}, function="avg")) == 10


DISTANCES = {
    2.0: lambda d: sqrt(added([x * x for x in d])),
    1.0: lambda d: added([abs(x) for x in d]),
    math.inf: lambda d: largest([abs(x) for x in d]),
    3.0: norm_p,
}


@settings(max_examples=15)
@given(st.integers(1, 2), widths, widths, widths)
@pytest.mark.parametrize("p", sorted(DISTANCES))
def test_cdist(p, b, m, n, k):
    tally = Tally()
    for i in range(b * m * n):
        x, y = tally.numbers(k, i), tally.numbers(k, i + 0.5)
        DISTANCES[p]([a - c for a, c in zip(x, y, strict=True)])
    view = op("cdist", {"batch": b, "m": m, "n": n, "k": k}, p=p)
    assert counts(view) == (0, tally.vector, tally.special)


def test_cdist_by_a_product():
    view = op("cdist", {"m": 100, "n": 50, "k": 8}, p=2.0, matmul=True)
    # norms of 150 points: 8 squares, 7 additions; 5,000 distances: -2 ·, two additions, a clamp
    assert counts(view) == (2 * 5_000 * 8, 150 * 15 + 4 * 5_000, 5_000)


@pytest.mark.parametrize("kind", ["reduction", "cumulative", "sort", "pooling", "pooling_backward"])
def test_unknown_function_is_unmodelled(kind):
    sizes = {"elements": 8, "outputs": 2, "rows": 2, "window": 4}
    assert cost(op(kind, sizes, function="frobnicate")) is None
