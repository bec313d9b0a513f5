"""Quantities as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import InputError
from gambrel.units import (
    exact_text,
    format_capacity,
    format_count,
    format_number,
    format_percent,
    format_si,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("989T", "rate", 989e12),
        ("989.4 TFLOP/s", "rate", 989.4e12),
        ("275TOPS", "rate", 275e12),
        ("3.35T", "bandwidth", 3.35e12),
        ("3350GB/s", "bandwidth", 3.35e12),
        ("4096MB", "size", 4.096e9),
        ("4GiB", "size", 4 * 1024**3),
        ("80 GiB", "size", 80 * 1024**3),
        ("10ms", "time", 0.01),
        ("250us", "time", 250e-6),
        ("15W", "power", 15),
        ("1e12", "rate", 1e12),
    ],
)
def test_parse(text, quantity, value):
    assert parse_quantity(text, quantity) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "quantity", "sentence"),
    [
        ("fast", "rate", "'fast' is not a rate; write for example 989T"),
        ("10 parsec", "time", "unknown unit 'parsec' for a time"),
        ("-5T", "rate", "not a positive, finite rate"),
        ("0", "bandwidth", "not a positive, finite bandwidth"),
        ("1e999T", "rate", "not a positive, finite rate"),
        ("10", "time", "unknown unit '' for a time"),
        ("3GiB/s", "size", "unknown unit 'GiB/s' for a size"),
        ("", "rate", "is not a rate"),
    ],
)
def test_refuse(text, quantity, sentence):
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        parse_quantity(text, quantity)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.178e9, "FLOP", "8.178 GFLOP"),
        (2.039e12, "byte/s", "2.039 Tbyte/s"),
        (0, "FLOP", "0 FLOP"),
        (None, "s", "unknown"),
        (1.23e-5, "s", "12.3 µs"),
        (999_960, "byte", "1 Mbyte"),
        (1000, "", "1 k"),
        (float("inf"), "FLOP/byte", "∞ FLOP/byte"),
        (12, "byte", "12 byte"),
    ],
)
def test_format(value, unit, text):
    assert format_si(value, unit) == text


def test_other_formats():
    assert format_capacity(80 * 2**30) == "80 GiB"
    assert format_capacity(8 * 2**20) == "8 MiB"
    assert format_capacity(100) == "100 B"
    assert format_capacity(None) == "unknown"
    assert format_number(153.02) == "153"
    assert format_number(float("inf")) == "∞"
    assert format_number(None) == "unknown"
    assert format_percent(0.123) == "12.3%"
    assert format_percent(None) == "unknown"


@given(st.floats(1e-11, 1e20))
def test_what_is_written_reads_back(value):
    assert parse_quantity(format_si(value, "s", 17), "time") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("device",), "1 device"),
        (0, ("device",), "0 devices"),
        (2048, ("device",), "2,048 devices"),
        (1, ("launch", "launches"), "1 launch"),
        (2, ("launch", "launches"), "2 launches"),
    ],
)
def test_one_thing_is_not_several(count, words, text):
    assert format_count(count, *words) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1e13, "", "10T"),
        (1.5e12, "B", "1.5TB"),
        (1e-3, "s", "1ms"),
        (30.0, "", "30"),
        (9e3, "s", "9000s"),
    ],
)
def test_a_value_is_typed_with_its_prefix(value, unit, text):
    assert exact_text(value, unit) == text


@given(st.floats(1e-15, 1e25))
def test_a_typed_value_is_exact(value):
    assert parse_quantity(exact_text(value, "s"), "time") == value
    assert parse_quantity(exact_text(value, ""), "rate") == value
