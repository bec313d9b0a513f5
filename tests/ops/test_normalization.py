"""Normalizations and softmax against programs that really do them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.builders import costed, counts, op, tensor
from tests.ops.oracle import Number, Tally, added, exp, log_softmax, rsqrt, softmax

rows = st.integers(1, 4)
widths = st.integers(1, 6)
Row = list[Number]


def layer_norm(row: Row, weight: Row | None, bias: Row | None) -> Row:
    n = float(len(row))
    mean = added(row) / n
    centred = [x - mean for x in row]
    variance = added([c * c for c in centred]) / n
    scale = rsqrt(variance + 1e-5)
    result = [c * scale for c in centred]
    if weight is None or bias is None:
        return result
    return [x * w + b for x, w, b in zip(result, weight, bias, strict=True)]


def rms_norm(row: Row, weight: Row | None) -> Row:
    mean_square = added([x * x for x in row]) / float(len(row))
    scale = rsqrt(mean_square + 1e-5)
    result = [x * scale for x in row]
    return result if weight is None else [x * w for x, w in zip(result, weight, strict=True)]


@settings(max_examples=30)
@given(rows, widths, st.booleans(), st.sampled_from(["layer_norm", "group_norm", "batch_norm"]))
def test_with_mean_and_variance(r, width, affine, function):
    tally = Tally()
    for _ in range(r):
        parameters = [tally.numbers(width) if affine else None for _ in range(2)]
        layer_norm(tally.numbers(width), *parameters)
    sizes = {"elements": r * width, "groups": r}
    view = op("normalization", sizes, function=function, affine=affine)
    assert counts(view) == (0, tally.vector, tally.special)


@settings(max_examples=30)
@given(rows, widths, st.booleans())
def test_rms(r, width, affine):
    tally = Tally()
    for _ in range(r):
        rms_norm(tally.numbers(width), tally.numbers(width) if affine else None)
    sizes = {"elements": r * width, "groups": r}
    view = op("normalization", sizes, function="rms_norm", affine=affine)
    assert counts(view) == (0, tally.vector, tally.special)


@settings(max_examples=30)
@given(rows, widths, st.booleans())
def test_batch_norm_at_inference_is_a_scale_and_a_shift(channels, places, affine):
    tally = Tally()
    for _ in range(channels):
        mean, variance, weight, bias = (tally.number(0.5) for _ in range(4))
        scale = rsqrt(variance + 1e-5)
        if affine:
            scale = scale * weight
            shift = bias - mean * scale
            [x * scale + shift for x in tally.numbers(places)]
        else:
            shift = mean * scale
            [x * scale - shift for x in tally.numbers(places)]
    view = op(
        "normalization",
        {"elements": channels * places, "groups": channels},
        function="batch_norm",
        statistics=False,
        affine=affine,
    )
    assert counts(view) == (0, tally.vector, tally.special)


def test_running_averages():
    sizes = {"elements": 640, "groups": 64}
    # (1 - f) * old + f * new for mean and variance of 64 channels
    bare = op("normalization", sizes, function="batch_norm")
    running = op("normalization", sizes, function="batch_norm", running=True)
    assert counts(running)[1] - counts(bare)[1] == 64 * 2 * 3


def test_gpt2_layer_norm():
    x, weight, bias = tensor(128, 768), tensor(768), tensor(768)
    view = op(
        "normalization",
        {"elements": 128 * 768, "groups": 128},
        inputs=(x, weight, bias),
        outputs=(tensor(128, 768),),
        function="layer_norm",
        affine=True,
    )
    # 7 * 98,304 + 128
    assert counts(view) == (0, 688_256, 128)
    assert costed(view).read_bytes == (98_304 + 2 * 768) * 4


def normalization_backward(
    tally: Tally, r: int, width: int, *, affine: bool, rms: bool
) -> tuple[list[Row], Row, Row]:
    """Gradients of layer norm (or RMS norm) over r rows; weights shared by the rows."""
    weight = tally.numbers(width)
    products: list[Row] = []
    gradients: list[Row] = []
    results: list[Row] = []
    for i in range(r):
        x, dy = tally.numbers(width, i), tally.numbers(width, i + 0.5)
        mean, rstd = tally.number(0.2), tally.number(1.5)  # saved by the forward pass
        hat = [v * rstd for v in x] if rms else [(v - mean) * rstd for v in x]
        g = [d * w for d, w in zip(dy, weight, strict=True)] if affine else dy
        second = added([a * b for a, b in zip(g, hat, strict=True)]) / float(width)
        if rms:
            results.append([(a - h * second) * rstd for a, h in zip(g, hat, strict=True)])
        else:
            first = added(g) / float(width)
            results.append([(a - first - h * second) * rstd for a, h in zip(g, hat, strict=True)])
        if affine:
            products.append([d * h for d, h in zip(dy, hat, strict=True)])
            gradients.append(dy)
    columns = [added(c) for c in zip(*products, strict=True)]
    biases = [] if rms else [added(c) for c in zip(*gradients, strict=True)]
    return results, columns, biases


@settings(max_examples=30)
@given(rows, widths, st.booleans(), st.booleans())
def test_backward(r, width, affine, rms):
    tally = Tally()
    normalization_backward(tally, r, width, affine=affine, rms=rms)
    function = "rms_norm" if rms else "layer_norm"
    sizes = {"elements": r * width, "groups": r}
    view = op("normalization_backward", sizes, function=function, affine=affine)
    assert counts(view) == (0, tally.vector, 0)


@settings(max_examples=30)
@given(rows, widths, st.booleans())
def test_batch_norm_backward(channels, places, affine):
    tally = Tally()
    for _ in range(channels):
        x, dy = tally.numbers(places), tally.numbers(places, 0.5)
        mean, rstd, weight = (tally.number(v) for v in (0.2, 1.5, 0.7))
        hat = [(v - mean) * rstd for v in x]
        bias_gradient = added(dy)
        weight_gradient = added([d * h for d, h in zip(dy, hat, strict=True)])
        first, second = bias_gradient / float(places), weight_gradient / float(places)
        scale = rstd * weight if affine else rstd
        [(d - first - h * second) * scale for d, h in zip(dy, hat, strict=True)]
    sizes = {"elements": channels * places, "groups": channels}
    view = op("normalization_backward", sizes, function="batch_norm", affine=affine)
    assert counts(view) == (0, tally.vector, 0)


def test_frozen_batch_norm_backward():
    sizes = {"elements": 1000, "groups": 10}
    plain = op("normalization_backward", sizes, function="batch_norm", statistics=False)
    assert counts(plain) == (0, 1000 + 10, 0)  # a product a value, the scale once a channel
    affine = op(
        "normalization_backward", sizes, function="batch_norm", statistics=False, affine=True
    )
    # normalized value 2000, its product with dy 1000, two sums of 990 additions
    assert counts(affine) == (0, 1010 + 3000 + 2 * 990, 0)


def test_group_norm_backward_has_weights_of_its_own_number():
    sizes = {"elements": 1000, "groups": 10}
    fewer = op("normalization_backward", sizes | {"parameters": 20}, affine=True)
    more = op("normalization_backward", sizes | {"parameters": 30}, affine=True)
    assert counts(fewer)[1] - counts(more)[1] == 20  # two sums, ten additions less each


@settings(max_examples=30)
@given(rows, widths, st.sampled_from([softmax, log_softmax]))
def test_softmax(r, width, program):
    tally = Tally()
    for _ in range(r):
        program(tally.numbers(width))
    view = op("softmax", {"elements": r * width, "rows": r}, function=program.__name__)
    assert counts(view) == (0, tally.vector, tally.special)


@settings(max_examples=30)
@given(rows, widths)
def test_softmax_backward(r, width):
    plain, logs = Tally(), Tally()
    for _ in range(r):
        y, g = plain.numbers(width), plain.numbers(width)
        total = added([a * b for a, b in zip(g, y, strict=True)])
        [b * (a - total) for a, b in zip(g, y, strict=True)]
        y, g = logs.numbers(width), logs.numbers(width)
        total = added(g)
        [a - exp(b) * total for a, b in zip(g, y, strict=True)]
    sizes = {"elements": r * width, "rows": r}
    view = op("softmax_backward", sizes, function="softmax")
    assert counts(view) == (0, plain.vector, 0)
    view = op("softmax_backward", sizes, function="log_softmax")
    assert counts(view) == (0, logs.vector, logs.special)


@pytest.mark.parametrize("kind", ["softmax", "softmax_backward"])
def test_rows_add_up(kind):
    one = counts(op(kind, {"elements": 1000, "rows": 1}))
    assert counts(op(kind, {"elements": 7000, "rows": 7})) == tuple(7 * n for n in one)
