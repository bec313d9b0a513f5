from __future__ import annotations

import pytest

from gambrel.capture.files.sizes import evaluate_size, symbols_in
from gambrel.errors import FileFormatError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s0", 7),
        ("2*s0 + 1", 15),
        ("s0//2", 3),
        ("(s0 - 1)*(s1 + 2)", 30),
        ("s0**2", 49),
        ("Symbol('s0', positive=True, integer=True)", 7),
        ("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))", 15),
        ("FloorDiv(Symbol('s0', integer=True), Integer(2))", 3),
        ("Mod(s0, 4)", 3),
        ("Max(s0, s1)", 7),
        ("Mul(Rational(1, 2), s1 + 1)", 2),
        ("-s0 + 10", 3),
        ("CeilDiv(s0, 2)", 4),
    ],
)
def test_values(text, expected):
    assert evaluate_size(text, {"s0": 7, "s1": 3}) == expected


def test_symbols():
    assert symbols_in("Add(Symbol('s0', positive=True), Mul(2, s1))") == {"s0", "s1"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("__import__('os').system('touch owned')", "cannot read the size"),
        ("s0.__class__", "cannot read the size"),
        ("[1, 2]", "cannot read the size"),
        ("s0 if s0 else 1", "cannot read the size"),
        ("open('x')", "cannot read the size"),
        ("s9", "no value for the size 's9'"),
        ("s0/2", "is no integer"),
        ("s0//0", "cannot compute"),
        ("9**9**9**9", "cannot compute"),
        ("s0 +", "cannot read the size"),
        ("(" * 500 + ")" * 500, "cannot read the size"),
        ("1+" * 20_000 + "1", "characters; refused"),
        ("9999999999999*9999999999999*9999999999999", "beyond any memory"),
    ],
)
def test_anything_else_is_refused(text, sentence):
    with pytest.raises(FileFormatError, match=sentence):
        evaluate_size(text, {"s0": 7})
