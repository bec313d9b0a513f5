"""Arithmetic on dimensions: plain ints stay ints, polynomials in symbols stay text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import inf
from typing import TypeGuard

from gambrel.workload import Dim, Symbol
from gambrel.workload.symbols import Monomial, Polynomial, parse


def is_number(dim: Dim) -> TypeGuard[int]:
    """Whether a dimension is a plain number."""
    return not isinstance(dim, str)


def times(*dims: Dim) -> Dim:
    """The product; 1 for none."""
    number, texts = 1, []
    for dim in dims:
        if isinstance(dim, str):
            texts.append(dim)
        else:
            number *= dim
    if not texts:
        return number
    polynomial = reduce(_product, map(parse, texts))
    return _product(polynomial, Polynomial({(): number})).as_dim()


def plus(*dims: Dim) -> Dim:
    """The sum; 0 for none."""
    if not any(isinstance(dim, str) for dim in dims):
        return sum(dims)  # type: ignore[arg-type]  # all are ints
    terms: dict[Monomial, Fraction] = {}
    for dim in dims:
        for monomial, c in _polynomial(dim).terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + c
    return Polynomial(terms).as_dim()


def share(dim: Dim, part: int, whole: int) -> Dim:
    """``dim * part / whole``: rounded up for a number, exact for a polynomial."""
    if part == whole:
        return dim
    if not isinstance(dim, str):
        return -(-dim * part // whole)
    return _product(parse(dim), Polynomial({(): Fraction(part, whole)})).as_dim()


def at_most(dim: Dim, limit: int | None, symbols: Sequence[Symbol] = ()) -> Dim:
    """The smaller of a dimension and a limit; a polynomial that may be either is kept."""
    return limit if limit is not None and range_of(dim, symbols)[0] >= limit else dim


def range_of(dim: Dim, symbols: Sequence[Symbol]) -> tuple[float, float]:
    """The least and the greatest value that a dimension takes within the limits of its symbols."""
    if not isinstance(dim, str):
        return dim, dim
    polynomial = parse(dim)
    least = {s.name: float(s.minimum) for s in symbols}
    most = {s.name: inf if s.maximum is None else float(s.maximum) for s in symbols}
    if not polynomial.symbols <= least.keys() or min(polynomial.terms.values()) < 0:
        return 0, inf
    return polynomial.evaluate(least), polynomial.evaluate(most)


def _polynomial(dim: Dim) -> Polynomial:
    return parse(dim) if isinstance(dim, str) else Polynomial({(): dim})


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    terms: dict[Monomial, Fraction] = {}
    for left, x in a.terms.items():
        for right, y in b.terms.items():
            powers: dict[str, int] = dict(left)
            for name, power in right:
                powers[name] = powers.get(name, 0) + power
            key = tuple(sorted(powers.items()))
            terms[key] = terms.get(key, Fraction(0)) + x * y
    return Polynomial(terms)
