"""Dimensions that depend on named symbols: exact polynomials, written as short text.

A dimension of a stored workload is an ``int`` or a text such as ``"12*batch*seq"`` or
``"1/2*seq^2 + 1/2*seq"``. Text keeps files small, readable and independent of this class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any, Final, TypeAlias

import msgspec

from gambrel.errors import WorkloadError

Dim: TypeAlias = int | str
#: A power product: ``(("batch", 1), ("seq", 2))`` is batch·seq². The empty one is 1.
Monomial: TypeAlias = tuple[tuple[str, int], ...]


class Symbol(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named size that the user may choose.

    Attributes:
        name: As used in dimensions, e.g. ``"batch"``.
        default: The value when the user says nothing.
        minimum: Smallest value for which the workload was verified.
        maximum: Largest such value, or None when unlimited.
        multiple_of: Only multiples of this are described exactly.
        about: What it is, e.g. ``"image side in pixels"``.
    """

    name: str
    default: int
    minimum: int = 1
    maximum: int | None = None
    multiple_of: int = 1
    about: str = ""

    def check(self, value: int) -> None:
        """Raises WorkloadError unless the workload is exact at ``value``."""
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            upper = "" if self.maximum is None else f" and at most {self.maximum}"
            raise WorkloadError(
                f"{self.name}={value}: this model takes at least {self.minimum}{upper}."
            )
        if value % self.multiple_of:
            lower = value - value % self.multiple_of
            near = [v for v in (lower, lower + self.multiple_of) if v >= self.minimum]
            raise WorkloadError(
                f"{self.name}={value}: this model takes multiples of {self.multiple_of}; "
                f"nearest: {', '.join(map(str, near))}."
            )


class Polynomial:
    """An exact polynomial with rational coefficients in named symbols. Immutable."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Fraction | int]) -> None:
        self.terms: dict[Monomial, Fraction] = {
            m: Fraction(c) for m, c in sorted(terms.items(), key=_order) if c != 0
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def __repr__(self) -> str:
        return f"Polynomial({str(self)!r})"

    def __str__(self) -> str:
        text = " + ".join(_term(m, c) for m, c in self.terms.items()) or "0"
        return text.replace("+ -", "- ")

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols that occur."""
        return frozenset(name for monomial in self.terms for name, _ in monomial)

    def as_dim(self) -> Dim:
        """The stored form: an int where constant, else text."""
        if not self.symbols:
            constant = self.terms.get((), Fraction(0))
            if constant.denominator == 1:
                return int(constant)
        return str(self)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value at ``values``.

        Args:
            values: An int for each symbol, giving an exact int; or arrays, giving a float array.

        Raises:
            WorkloadError: A symbol without a value, or a result that is no integer.
        """
        total: Any = 0
        scale = lcm(*(c.denominator for c in self.terms.values()))
        for monomial, c in self.terms.items():
            term: Any = int(c * scale)
            for name, power in monomial:
                if name not in values:
                    raise WorkloadError(f"no value for symbol {name!r} in {self}.")
                term = term * values[name] ** power
            total = total + term
        if not isinstance(total, int):
            return total / scale
        quotient, rest = divmod(total, scale)
        if rest:
            raise WorkloadError(f"{self} is not an integer at {dict(values)}.")
        return quotient


_TERM: Final = re.compile(r"\s*([+-])?\s*([^+-]+)")
_FACTOR: Final = re.compile(r"^(?:(\d+)(?:/(\d+))?|([A-Za-z_]\w*)(?:\^(\d+))?)$")


@lru_cache(maxsize=65536)
def parse(text: str) -> Polynomial:
    """Reads a polynomial from text.

    Args:
        text: Terms joined by ``+`` or ``-``; a term is factors joined by ``*``; a factor is an
            integer, a fraction ``a/b``, or a symbol with an optional power ``^n``.

    Raises:
        WorkloadError: The text is no such polynomial.
    """
    terms: dict[Monomial, Fraction] = {}
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise WorkloadError(f"cannot read the dimension {text!r}.")
        position = match.end()
        coefficient = Fraction(-1 if match.group(1) == "-" else 1)
        powers: dict[str, int] = {}
        for factor in match.group(2).split("*"):
            found = _FACTOR.match(factor.strip())
            if found is None or found.group(2) == "0":
                raise WorkloadError(f"cannot read the dimension {text!r} near {factor!r}.")
            if found.group(3):
                powers[found.group(3)] = powers.get(found.group(3), 0) + int(found.group(4) or 1)
            else:
                coefficient *= Fraction(int(found.group(1)), int(found.group(2) or 1))
        monomial = tuple(sorted(powers.items()))
        terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
    if not text.strip():
        raise WorkloadError("an empty dimension.")
    return Polynomial(terms)


def evaluate(dim: Dim, values: Mapping[str, Any]) -> Any:
    """The size of a dimension: exact ints from ints, float arrays from arrays."""
    return dim if not isinstance(dim, str) else parse(dim).evaluate(values)


def added(a: Dim, b: Dim) -> Dim:
    """The sum of two dimensions."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return parse(f"{a} + {b}").as_dim()


def symbols_of(dims: Iterable[Dim]) -> frozenset[str]:
    """Names of all symbols in ``dims``."""
    return frozenset(s for d in dims if isinstance(d, str) for s in parse(d).symbols)


def _order(item: tuple[Monomial, Fraction | int]) -> tuple[int, Monomial]:
    return (-sum(power for _, power in item[0]), item[0])


def _term(monomial: Monomial, coefficient: Fraction) -> str:
    factors = [name if power == 1 else f"{name}^{power}" for name, power in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)
