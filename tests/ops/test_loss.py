"""Losses and their gradients against programs that really do them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.ops import cost
from tests.ops.builders import costed, counts, op, tensor
from tests.ops.oracle import (
    Number,
    Tally,
    added,
    exp,
    least,
    log,
    log1p,
    log_softmax,
    most,
    plain,
    rounded,
    select,
)
from tests.ops.programs import sigmoid

#: Loss of one value x with target t.
VALUES = {
    "mse": lambda x, t: (d := x - t) * d,
    "l1": lambda x, t: abs(x - t),
    # 0.5 * d * d / beta with one folded constant
    "smooth_l1": lambda x, t: select((a := abs(x - t)) < 2.0, 0.25 * a * a, a - 1.0),
    "huber": lambda x, t: select((a := abs(x - t)) < 2.0, 0.5 * a * a, 2.0 * (a - 1.0)),
    "bce": lambda x, t: -(t * log(x) + (1.0 - t) * log(1.0 - x)),
    "bce_with_logits": lambda x, t: most(x, 0.0) - x * t + log1p(exp(-abs(x))),
    "kl_div": lambda x, t: t * (log(t) - x),
    "soft_margin": lambda x, t: log1p(exp(-(x * t))),
}

#: Gradient of one value; g holds the mean's factor and constants.
GRADIENTS = {
    "mse": (lambda g, x, t: (x - t) * g, 2.0),
    "l1": (lambda g, x, t: rounded(x - t, lambda v: math.copysign(1, v)) * g, 1.0),
    "smooth_l1": (lambda g, x, t: most(least((x - t) / 2.0, 1.0), -1.0) * g, 1.0),
    "huber": (lambda g, x, t: most(least(x - t, 2.0), -2.0) * g, 1.0),
    "bce": (lambda g, x, t: (x - t) / (x * (1.0 - x)) * g, 1.0),
    "bce_with_logits": (lambda g, x, t: (sigmoid(x) - t) * g, 1.0),
    "kl_div": (lambda g, x, t: -t * g, 1.0),
    "soft_margin": (lambda g, x, t: g * t / (1.0 + exp(t * x)), -1.0),
}


def mean(values: list[Number]) -> Number:
    return added(values) / float(len(values))


@settings(max_examples=10)
@given(st.integers(1, 9))
@pytest.mark.parametrize("function", sorted(VALUES))
def test_mean_over_values(function, n):
    tally = Tally()
    mean([VALUES[function](tally.number(0.3), tally.number(0.6)) for _ in range(n)])
    view = op("loss", {"elements": n, "rows": 1}, function=function)
    assert counts(view) == (0, tally.vector, tally.special)


@pytest.mark.parametrize("function", sorted(GRADIENTS))
@pytest.mark.parametrize("x", [0.3, 0.7])
def test_gradient_matches_the_program_and_the_program_the_slope(function, x):
    tally, (program, constant) = Tally(), GRADIENTS[function]
    found = program(tally.number(constant), tally.number(x), tally.number(0.6))
    view = op("loss_backward", {"elements": 7, "rows": 1}, function=function)
    assert counts(view) == (0, 7 * tally.vector, 7 * tally.special)
    other = Tally()

    def at(value: float) -> float:
        return plain(VALUES[function](other.number(value), other.number(0.6)))

    assert math.isclose(found.value, (at(x + 1e-6) - at(x - 1e-6)) / 2e-6, abs_tol=1e-4)


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(1, 6))
def test_cross_entropy_is_log_softmax_and_nll(rows, classes):
    both, nll = Tally(), Tally()
    for tally in (both, nll):
        picked = []
        for i in range(rows):
            row = tally.numbers(classes, i)
            picked.append(-(log_softmax(row) if tally is both else row)[0])
        mean(picked)
    sizes = {"elements": rows * classes, "rows": rows}
    assert counts(op("loss", sizes, function="cross_entropy")) == (0, both.vector, both.special)
    assert counts(op("loss", sizes, function="nll")) == (0, nll.vector, 0)


def test_multi_margin_by_hand():
    sizes = {"elements": 10, "rows": 2}
    # margin - x[t], + x, max with 0, sum
    assert counts(op("loss", sizes, function="multi_margin")) == (0, 40, 0)
    # comparison, selection, addition at the target
    assert counts(op("loss_backward", sizes, function="multi_margin")) == (0, 30, 0)


def test_gradient_of_cross_entropy_by_hand():
    sizes = {"elements": 10, "rows": 2}
    # exp of the log-softmax; 1 off at each target; all times g
    assert counts(op("loss_backward", sizes, function="cross_entropy")) == (0, 2 + 10, 10)
    assert counts(op("loss_backward", sizes, function="nll")) == (0, 2, 0)


def test_nll_reads_one_value_a_row():
    logs, target = tensor(128, 50_257), tensor(128, dtype="int64")
    view = op(
        "loss",
        {"elements": 128 * 50_257, "rows": 128},
        inputs=(logs, target),
        outputs=(tensor(),),
        function="nll",
    )
    found = costed(view)
    assert (found.read_bytes, found.write_bytes) == (128 * 4 + 128 * 8, 4)


def test_gradient_of_nll_writes_the_zeros_too():
    g, target = tensor(), tensor(128, dtype="int64")
    view = op(
        "loss_backward",
        {"elements": 128 * 1000, "rows": 128},
        inputs=(g, target),
        outputs=(tensor(128, 1000),),
        function="nll",
    )
    found = costed(view)
    assert (found.read_bytes, found.write_bytes) == (4 + 1024, 512_000)


@pytest.mark.parametrize("kind", ["loss", "loss_backward"])
def test_unknown_loss_is_unmodelled(kind):
    # Which pairs a multi-label margin compares depends on the values.
    assert cost(op(kind, {"elements": 1, "rows": 1}, function="multilabel_margin")) is None
