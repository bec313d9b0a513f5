"""Symbolic dimensions: reading, writing, evaluating."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import WorkloadError
from gambrel.workload import Polynomial, Symbol, evaluate, parse, symbols_of

monomials = st.dictionaries(st.sampled_from(["batch", "seq", "image"]), st.integers(1, 3)).map(
    lambda powers: tuple(sorted(powers.items()))
)
polynomials = st.dictionaries(monomials, st.fractions(max_denominator=60), max_size=5).map(
    Polynomial
)


@given(polynomials)
def test_what_is_written_reads_back(polynomial):
    assert parse(str(polynomial)) == polynomial


@given(polynomials, st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_value_equals_the_sum_of_its_terms(polynomial, batch, seq, image):
    values = {"batch": batch, "seq": seq, "image": image}
    expected = Fraction(0)
    for monomial, coefficient in polynomial.terms.items():
        term = coefficient
        for name, power in monomial:
            for _ in range(power):
                term *= values[name]
        expected += term
    if expected.denominator == 1:
        assert polynomial.evaluate(values) == expected
    else:
        with pytest.raises(WorkloadError, match="is not an integer"):
            polynomial.evaluate(values)


def test_triangle_numbers():
    pairs = parse("1/2*seq^2 + 1/2*seq")
    assert [pairs.evaluate({"seq": n}) for n in (1, 2, 3, 4)] == [1, 3, 6, 10]
    assert str(pairs) == "1/2*seq^2 + 1/2*seq"


def test_arrays_give_arrays():
    found = evaluate("12*batch*seq - 3", {"batch": np.array([1.0, 2.0]), "seq": 5})
    assert found.tolist() == [57, 117]


def test_constants_are_ints():
    assert evaluate(7, {}) == 7
    assert parse("3 + 4").as_dim() == 7
    assert parse("2*batch").as_dim() == "2*batch"
    assert parse("1/2").as_dim() == "1/2"
    assert symbols_of([3, "batch*seq", "batch"]) == {"batch", "seq"}


@pytest.mark.parametrize("text", ["", "batch**2", "batch+", "2batch", "batch^-1", "a b", "1/0"])
def test_other_texts_are_refused(text):
    with pytest.raises(WorkloadError, match="dimension"):
        parse(text)


def test_a_symbol_without_value_is_named():
    with pytest.raises(WorkloadError, match="no value for symbol 'seq'"):
        evaluate("batch*seq", {"batch": 1})


def test_a_symbol_states_what_it_takes():
    side = Symbol(name="image", default=224, minimum=64, maximum=1024, multiple_of=32)
    side.check(224)
    with pytest.raises(WorkloadError, match=r"image=32: this model takes at least 64 and at most"):
        side.check(32)
    with pytest.raises(WorkloadError, match=r"takes multiples of 32; nearest: 192, 224\."):
        side.check(200)
