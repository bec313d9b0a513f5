"""Ops that move data: what they read and write, by hand."""

from __future__ import annotations

import pytest

from gambrel.ops import cost
from tests.ops.builders import costed, counts, op, tensor


def moved(view):
    found = costed(view)
    return found.read_bytes, found.write_bytes


def test_concatenation_reads_each_and_writes_all():
    a, b = tensor(10, 3), tensor(10, 5)
    assert moved(op("copy", inputs=(a, b), outputs=(tensor(10, 8),), function="cat")) == (320, 320)


def test_copy_of_an_expanded_view_reads_its_distinct_elements():
    row = tensor(1000, 8, elements=8)
    assert moved(op("copy", inputs=(row,), outputs=(tensor(1000, 8),))) == (32, 32_000)


def test_cast_moves_both_formats_and_does_no_arithmetic():
    cast = op("copy", inputs=(tensor(100),), outputs=(tensor(100, dtype="fp16"),), function="cast")
    assert moved(cast) == (400, 200)
    assert costed(cast).work == {}


def test_fill_reads_nothing():
    template = tensor(100)
    assert moved(op("fill", inputs=(template,), outputs=(tensor(100),))) == (0, 400)


@pytest.mark.parametrize(
    ("function", "vector", "special"),
    [
        ("uniform", 2, 1),  # low + u * (high - low)
        ("normal", 4, 3),  # Box-Muller; mean + deviation * z
        ("integers", 2, 1),
        ("permutation", 0, 1),
        ("bernoulli", 1, 1),  # u < p
        ("exponential", 1, 2),  # log(u) / -rate
        ("multinomial", 2, 2),
    ],
)
def test_random_numbers(function, vector, special):
    view = op("random", {"elements": 10}, outputs=(tensor(10),), function=function)
    assert counts(view) == (0, 10 * vector, 10 * special)
    assert moved(view) == (0, 40)


def test_random_reads_probabilities_but_no_template():
    x = tensor(10)
    out = (tensor(10, dtype="bool"),)
    bernoulli = op("random", {"elements": 10}, inputs=(x,), outputs=out, function="bernoulli")
    uniform = op("random", {"elements": 10}, inputs=(x,), outputs=out, function="uniform")
    assert moved(bernoulli) == (40, 10)
    assert moved(uniform) == (0, 10)
    assert {dtype for _, dtype in costed(bernoulli).work} == {"fp32"}


def test_unknown_distribution_is_unmodelled():
    assert cost(op("random", {"elements": 10}, function="zipf")) is None


def test_gather_reads_the_gathered_elements_only():
    table, index = tensor(1_000_000, 64, dtype="fp16"), tensor(10, dtype="int64")
    view = op(
        "gather", {"elements": 640}, inputs=(table, index), outputs=(tensor(10, 64, dtype="fp16"),)
    )
    assert moved(view) == (640 * 2 + 80, 1280)
    assert costed(view).work == {}


def test_gather_of_more_than_there_is_reads_all_once():
    table, index = tensor(2, 3), tensor(100, dtype="int64")
    view = op("gather", {"elements": 300}, inputs=(table, index), outputs=(tensor(100, 3),))
    assert moved(view) == (24 + 800, 1200)


def test_write_of_one_token_into_a_cache():
    cache = tensor(1, 8, 4096, 128, dtype="fp16", storage=5)
    new, index = tensor(1, 8, 1, 128, dtype="fp16"), tensor(1, dtype="int64")
    view = op("scatter", {"elements": 1024}, inputs=(index, new), outputs=(cache,))
    assert moved(view) == (8 + 2048, 2048)
    listed = op("scatter", {"elements": 1024}, inputs=(cache, index, new), outputs=(cache,))
    assert moved(listed) == (8 + 2048, 2048)


def test_scatter_add_reads_what_it_adds_to():
    target = tensor(1000, storage=5)
    index, source = tensor(10, dtype="int64"), tensor(10)
    view = op(
        "scatter",
        {"elements": 10},
        inputs=(index, source, target),
        outputs=(target,),
        accumulate=True,
    )
    assert moved(view) == (80 + 40 + 40, 40)
    assert counts(view) == (0, 10, 0)


def test_histogram_touches_no_more_than_its_bins():
    bins, index = tensor(16, storage=5), tensor(10_000, dtype="int64")
    view = op("scatter", {"elements": 10_000}, inputs=(index,), outputs=(bins,), accumulate=True)
    assert moved(view) == (80_000 + 64, 64)


def test_scatter_out_of_place_copies_the_target():
    target, result = tensor(1000), tensor(1000)
    index, source = tensor(10, dtype="int64"), tensor(10)
    view = op(
        "scatter",
        {"elements": 10},
        inputs=(index, source, target),
        outputs=(result,),
        in_place=False,
    )
    assert moved(view) == (80 + 40 + 4000, 4000)


def test_without_tensors_traffic_is_nothing_known():
    assert moved(op("gather", {"elements": 10})) == (0, 0)
    assert moved(op("scatter", {"elements": 10})) == (0, 0)
