"""Optimizer steps against update rules that really run."""

from __future__ import annotations

import pytest

from gambrel.ops import cost, optimizer
from tests.ops.builders import costed, counts, op, tensor
from tests.ops.oracle import Tally
from tests.ops.programs import RULES

#: As another rule, and so many operations more.
VARIANTS = {
    "adamw": ("adam", 1),  # p * (1 - lr * decay)
    "adam_amsgrad": ("adam", 1),  # max(v, largest v so far)
    "radam": ("adam", 1),  # times the rectification
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rule_matches_the_program(rule):
    tally = Tally()
    RULES[rule](*(tally.number(v) for v in (0.5, 0.2, 0.1, 0.3)))
    view = op("optimizer", {"elements": 1000}, function=rule)
    assert counts(view) == (0, 1000 * tally.vector, 1000 * tally.special)


@pytest.mark.parametrize("rule", sorted(VARIANTS))
def test_variant(rule):
    base, more = VARIANTS[rule]
    _, vector, special = counts(op("optimizer", {"elements": 10}, function=base))
    assert counts(op("optimizer", {"elements": 10}, function=rule)) == (
        0,
        vector + 10 * more,
        special,
    )


def test_every_rule_is_tested():
    assert optimizer.RULES.keys() == RULES.keys() | VARIANTS.keys()


def test_weight_decay_is_a_product_and_an_addition():
    bare, decayed = (
        op("optimizer", {"elements": 10}, function="sgd", weight_decay=w) for w in (False, True)
    )
    assert counts(decayed)[1] - counts(bare)[1] == 20


def test_fused_adam_moves_seven_tensors():
    p, g, m, v = (tensor(1000) for _ in range(4))
    view = op(
        "optimizer", {"elements": 1000}, inputs=(p, g, m, v), outputs=(p, m, v), function="adam"
    )
    found = costed(view)
    assert (found.read_bytes, found.write_bytes) == (16_000, 12_000)


def test_unknown_rule_is_unmodelled():
    assert cost(op("optimizer", {"elements": 1}, function="shampoo")) is None
