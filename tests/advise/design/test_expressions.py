"""Formulas over parameters: arithmetic, arrays, and everything that is refused."""

import numpy as np
import pytest

from gambrel.advise.design.expressions import Expression
from gambrel.errors import InputError, UnknownNameError

NAMES = {"rows": 4.0, "cols": 8.0, "dram": "ddr3"}


def value(text, **values):
    return Expression(text, NAMES, "device.peak")(values or NAMES)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2 * rows * cols", 64.0),
        ("rows ** 2 - cols // 3", 14.0),
        ("-(rows + 1.5e3) % 7", (-1504.0) % 7),
        ("max(rows, cols) / min(rows, 16)", 2.0),
        ("ceil(cols / 3) + floor(2.9) + sqrt(rows) + log2(cols)", 3 + 2 + 2 + 3),
        ("10 if rows < cols else 20", 10.0),
    ],
)
def test_arithmetic(text, wanted):
    assert value(text) == wanted


def test_arrays_are_taken_point_by_point():
    rows = np.array([1.0, 2.0, 3.0])
    assert value("rows * cols if rows > 1 else 0", rows=rows, cols=2.0).tolist() == [0, 4, 6]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "rows.real",
        "rows[0]",
        "(lambda: 1)()",
        "[rows for rows in (1,)]",
        "rows and cols",
        "'text'",
        "True",
        "rows :=1",
        "max(rows)",
        "min(rows, cols, key=1)",
        "1 < rows < 9",
        "rows +",
        "",
        "(" * 200,
        "+".join(["rows"] * 300),
        "-" * 60 + "rows",
        "2 * dram",
    ],
)
def test_anything_else_is_refused_in_one_sentence(text):
    with pytest.raises(InputError, match=r"^device\.peak") as told:
        Expression(text, NAMES, "device.peak")
    assert len(str(told.value)) < 500


def test_an_unknown_name_and_a_number_that_is_none():
    with pytest.raises(UnknownNameError, match=r"unknown device\.peak: parameter 'row'"):
        value("row * 2")
    with pytest.raises(InputError, match="not a finite number"):
        value("1 / (rows - 4)")
    with pytest.raises(InputError, match="not a finite number"):
        value("9 ** 9 ** 9")
