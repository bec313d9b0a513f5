"""Filters: what passes, what is unknown, and what is refused in a sentence."""

import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.engine.condition import Condition
from gambrel.errors import GambrelError
from tests.engine.small import FIELDS, Small

TABLE = Small().evaluate(0, 100)
INDEX = TABLE["index"]


def passing(text):
    return INDEX[Condition(text, FIELDS).holds(TABLE)].tolist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("index < 3", [0, 1, 2]),
        ("1 <= index < 4", [1, 2, 3]),
        ("index == 7 or index = 9", [7, 9]),
        ("not (index > 1)", [0, 1]),
        ("index > 95 and kind == 'odd'", [97, 99]),
        ("index > 95 and kind != odd", [96, 98]),
        ("(index + 1) * 2 <= 2 + 2", [0, 1]),
        ("index - -1 < 2", [0]),
        ("index < 12 and latency_s < 1.5ms", [0, 7]),
        ("index < 12 and latency_s * 1000 < 1.5", [0, 7]),
        ("index < 12 and power_w * latency_s < 12.5mJ", [0, 7]),
        ("index < 12 and power_w >= 14W", [4, 9]),
        ("index < 10 and fits", [0, 3, 6, 9]),
        ("index < 6 and not fits", [1, 2, 4]),  # of 5 nobody knows it
        ("index < 5 and latency_s > 0", [0, 1, 2, 4]),  # nor the latency of 3
        ("index < 5 and not latency_s > 0", []),
        ("index < 5 and (latency_s < 0 or fits)", [0, 3]),
    ],
)
def test_what_is_known_to_hold_passes(text, wanted):
    assert passing(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  ", "a number or the name"),
        ("index", "comparison is missing"),
        ("latency < 3", "latency_s"),
        ("latency_s < 3W", "s is compared with W"),
        ("latency_s + power_w < 3", "s is compared with W"),
        ("latency_s < 3 parsec", "not expected"),
        ("index < 3k", "3k has no unit"),
        ("kind < 3", "== or !="),
        ("index < 'a'", "number or the name"),
        ("(index < 3", "a bracket is not closed|comparison is missing"),
        ("index < 3)", "not expected"),
        ("__import__('os')", "unknown column"),
        ("index < 3; 1", "';' is not known"),
        ("(" * 90 + "index" + ")" * 90 + " < 1", "nests too deeply"),
        ("not " * 90 + "fits", "nests too deeply"),
    ],
)
def test_what_cannot_be_read(text, said):
    with pytest.raises(GambrelError, match=said):
        Condition(text, FIELDS)


def test_a_filter_is_pickled():
    one = pickle.loads(pickle.dumps(Condition("fits and index < 9", FIELDS)))
    assert INDEX[one.holds(TABLE)].tolist() == [0, 3, 6]


@given(
    a=st.integers(0, 100),
    b=st.integers(0, 100),
    sign=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
)
def test_brackets_and_negation_agree_with_python(a, b, sign):
    own = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}[sign]
    compare = getattr(operator, own)
    wanted = [i for i in range(100) if not (compare(i, a) and i + b > 50)]
    assert passing(f"not (index {sign} {a} and index + {b} > 50)") == wanted


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        mask = Condition(text, FIELDS).holds(TABLE)
    except GambrelError:
        return
    assert mask.dtype == np.bool_
