"""Filters over columns, as people write them: ``fits and expected_time_s < 33ms``.

A small language of its own: names of columns, numbers with units, texts, comparisons, ``and``,
``or``, ``not``, the four operations and brackets. Nothing is executed. A comparison with an unknown
figure is unknown; only what is known to hold passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel.engine.tables import FLAG, TEXT, DataField, PointTable, Words
from gambrel.errors import InputError, UnknownNameError, shown
from gambrel.units import parse_quantity

Mask: TypeAlias = NDArray[np.bool_]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>%|[A-Za-zµ]+(?:/[A-Za-z]+)?)?"
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign><=|>=|==|!=|[<>=()+\-*/]))"
)
#: Unit of columns → how a number of it is read.
_QUANTITIES: Final = {
    "s": "time",
    "W": "power",
    "J": "energy",
    "byte": "size",
    "FLOP/s": "rate",
    "byte/s": "bandwidth",
    "1/s": "throughput",
}
#: Quantity → how its units end; a prefix alone is no unit.
_ENDS: Final = {
    "time": re.compile(r"^[a-zµ]?s(ec)?$"),
    "power": re.compile(r"^[a-zA-Zµ]?W$"),
    "energy": re.compile(r"^[a-zA-Zµ]?J$"),
    "size": re.compile(r"^[A-Za-z]{0,2}B(yte|ytes)?$|^bytes?$"),
    "rate": re.compile(r"FLOP/s$|OP/s$", re.IGNORECASE),
    "bandwidth": re.compile(r"B/s$|byte/s$"),
    "throughput": re.compile(r"^[a-zA-Z]?(fps|qps|/s|items/s)$"),
}
_DEEPEST: Final = 50
_LONGEST: Final = 10_000
_COMPARED: Final = {"<", "<=", ">", ">=", "==", "!=", "="}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a statement is known to hold, and where it is known not to."""

    yes: Mask
    no: Mask


class Condition:
    """A filter, checked against the columns that there are.

    Args:
        text: As the user wrote it.
        fields: The columns.

    Raises:
        InputError: It cannot be read, or compares what cannot be compared.
        UnknownNameError: No such column.
    """

    def __init__(self, text: str, fields: tuple[DataField, ...]) -> None:
        self.text = text
        self._fields = {field.name: field for field in fields}
        self._tree = _Parser(text, self._fields).parse()

    def __reduce__(self) -> tuple[type[Condition], tuple[str, tuple[DataField, ...]]]:
        return Condition, (self.text, tuple(self._fields.values()))

    def holds(self, table: PointTable) -> Mask:
        """Where it is known to hold."""
        found: Mask = self._truth(self._tree, table).yes
        return found

    def _truth(self, node: Any, table: PointTable) -> _Truth:
        kind = node[0]
        if kind in ("and", "or"):
            a, b = self._truth(node[1], table), self._truth(node[2], table)
            both = kind == "and"
            return _Truth(
                a.yes & b.yes if both else a.yes | b.yes, a.no | b.no if both else a.no & b.no
            )
        if kind == "not":
            inner = self._truth(node[1], table)
            return _Truth(inner.no, inner.yes)
        if kind == "flag":
            flags = table[node[1]]
            assert not isinstance(flags, Words)  # the parser has looked
            return _Truth(flags == 1, flags == 0)
        return self._compared(node, table)

    def _compared(self, node: Any, table: PointTable) -> _Truth:
        _, sign, left, right = node
        if left[0] == "words":
            words = table[left[1]]
            assert isinstance(words, Words)  # the parser has looked
            same = np.array([name == right[1] for name in words.names] or [False])[words.codes]
            return _Truth(same, ~same) if sign == "==" else _Truth(~same, same)
        with np.errstate(all="ignore"):
            a, b = self._amount(left, table), self._amount(right, table)
            holds = _SIGNS[sign](a, b)
            known = np.isfinite(a) & np.isfinite(b)
        return _Truth(holds & known, ~holds & known)

    def _amount(self, node: Any, table: PointTable) -> Any:
        if node[0] == "number":
            return np.float64(node[1])
        if node[0] == "column":
            return np.asarray(table[node[1]], dtype=np.float64)
        a, b = self._amount(node[1], table), self._amount(node[2], table)
        return _OPERATIONS[node[0]](a, b)


_SIGNS: Final[Mapping[str, Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_OPERATIONS: Final[Mapping[str, Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


class _Parser:
    """From text to a tree of tuples, by recursive descent."""

    def __init__(self, text: str, fields: Mapping[str, DataField]) -> None:
        self._text = text
        self._fields = fields
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Any:
        found = self._either()
        if self._peek().kind != "end":
            self._refuse(f"{shown(self._peek().text)} is not expected there")
        return found

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, *texts: str) -> str:
        token = self._peek()
        if token.kind in ("name", "sign") and token.text.lower() in texts:
            return self._next().text.lower()
        return ""

    def _either(self) -> Any:
        found = self._both()
        while self._takes("or"):
            found = ("or", found, self._both())
        return found

    def _both(self) -> Any:
        found = self._statement()
        while self._takes("and"):
            found = ("and", found, self._statement())
        return found

    def _statement(self) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse("it nests too deeply")
        try:
            if self._takes("not"):
                return ("not", self._statement())
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Any:
        start = self._at
        if self._takes("("):
            inner = self._either_or_none()
            if inner is not None and self._takes(")") and self._ends_statement():
                return inner
            self._at = start
        name = self._peek().text
        field = self._fields.get(name) if self._peek().kind == "name" else None
        if field is not None and field.kind == FLAG:
            self._next()
            return ("flag", name)
        if field is not None and field.kind == TEXT:
            return self._words(self._next().text)
        return self._numbers()

    def _either_or_none(self) -> Any:
        """A statement in brackets; None where they hold a number, as in ``(a + b) < c``."""
        try:
            return self._either()
        except InputError as error:
            if isinstance(error, UnknownNameError):
                raise
            return None

    def _ends_statement(self) -> bool:
        token = self._peek()
        return token.kind == "end" or token.text == ")" or token.text.lower() in ("and", "or")

    def _words(self, name: str) -> Any:
        sign = self._next().text
        if sign not in ("=", "==", "!="):
            self._refuse(f"{name} is a text: compare it with == or !=")
        token = self._next()
        if token.kind not in ("text", "name", "number"):
            self._refuse(f"{name} is compared with a text in quotation marks")
        text = token.text + token.unit
        while self._peek().text == "-" and token.kind == "name":  # h100-sxm5-80gb
            self._next()
            part = self._next()
            text += f"-{part.text}{part.unit}"
        own = "!=" if sign == "!=" else "=="
        return ("compare", own, ("words", name), ("text", text.strip("'\"")))

    def _numbers(self) -> Any:
        left, unit = self._sum()
        found: Any = None
        while self._peek().text in _COMPARED and self._peek().kind == "sign":
            sign = self._next().text
            right, other = self._sum()
            self._same(unit, other)
            one = ("compare", "==" if sign == "=" else sign, left, right)
            found = one if found is None else ("and", found, one)
            left, unit = right, other
        if found is None:
            self._refuse("a comparison is missing, e.g. expected_time_s < 33ms")
        return found

    def _sum(self) -> tuple[Any, str | None]:
        node, unit = self._product()
        while sign := self._takes("+", "-"):
            right, other = self._product()
            self._same(unit, other)
            node, unit = (sign, node, right), unit or other
        return node, unit

    def _product(self) -> tuple[Any, str | None]:
        node, unit = self._factor()
        while sign := self._takes("*", "/"):
            right, other = self._factor()
            unit = unit if not other else (other if not unit and sign == "*" else None)
            node = (sign, node, right)
        return node, unit

    def _factor(self) -> tuple[Any, str | None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse("it nests too deeply")
        try:
            if self._takes("("):
                inner = self._sum()
                if not self._takes(")"):
                    self._refuse("a bracket is not closed")
                return inner
            if self._takes("-"):
                node, unit = self._factor()
                return ("-", ("number", 0.0), node), unit
            return self._leaf(self._next())
        finally:
            self._depth -= 1

    def _leaf(self, token: _Token) -> tuple[Any, str | None]:
        if token.kind == "number":
            value, unit = self._value(token)
            return ("number", value), unit
        if token.kind != "name":
            self._refuse("a number or the name of a column is missing")
        field = self._fields.get(token.text)
        if field is None:
            raise UnknownNameError("column", token.text, _near(token.text, self._fields))
        if field.kind == TEXT:
            self._refuse(f"{field.name} is a text: compare it with == or !=")
        return ("column", field.name), field.unit if field.unit not in ("", "1") else ""

    def _value(self, token: _Token) -> tuple[float, str | None]:
        number, unit = float(token.text), token.unit
        if not unit:
            return number, None
        if unit == "%":
            return number / 100, None
        own = next((u for u, end in _QUANTITIES.items() if _ENDS[end].search(unit)), None)
        if own is None:
            self._refuse(f"{token.text}{unit} has no unit that is known, such as ms, W, mJ or GiB")
        try:
            return parse_quantity(f"1{unit}", _QUANTITIES[own]) * number, own
        except InputError as error:
            self._refuse(str(error).rstrip("."))

    def _same(self, a: str | None, b: str | None) -> None:
        if a and b and a != b:
            self._refuse(f"{a} is compared with {b}")

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"where {shown(self._text)}: {why}.")


def _tokens(text: str) -> list[_Token]:
    if len(text) > _LONGEST:
        raise InputError(f"where {shown(text)}: longer than {_LONGEST:,} characters.")
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise InputError(f"where {shown(text)}: {shown(text[at:].strip()[:1])} is not known.")
        kind = match.lastgroup or ""
        kind = "number" if kind == "unit" else kind
        found.append(_Token(kind, match[kind], match["unit"] or ""))
        at = match.end()
    return [*found, _Token("end", "the end")]


def _near(name: str, known: Mapping[str, DataField]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, known, 3, 0.4) or list(known)
