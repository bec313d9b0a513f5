"""Filters over columns, as people write them: ``fits and expected_time_s < 33ms``.

A small language of its own: names of columns, numbers with units, texts, comparisons, ``and``,
``or``, ``not``, the four operations and brackets. Nothing is executed: texts and numbers with units
are named, Python's own parser makes the tree, and each node of it is checked. A comparison with an
unknown figure is unknown; only what is known to hold passes.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel.closest import closest
from gambrel.engine.tables import FLAG, TEXT, DataField, PointTable, Words
from gambrel.errors import InputError, UnknownNameError, shown
from gambrel.units import parse_quantity

Mask: TypeAlias = NDArray[np.bool_]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>%|[A-Za-zµ]+(?:/[A-Za-z]+)?)?"
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign><=|>=|==|!=|[<>=()+\-*/]))"
)
#: What a text is compared with where it stands without quotation marks, as ``h100-sxm5-80gb``.
_BARE: Final = re.compile(r"\s*([\w.]+(?:-[\w.]+)*)")
_WORDS: Final = ("and", "or", "not")
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
#: Arithmetic and comparisons of numbers and of arrays, by their node.
OPERATIONS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


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
        #: What the names in the tree stand for.
        self._named: dict[str, _Token] = {}
        self._tree = self._parsed()
        self._check(self._tree)

    def __reduce__(self) -> tuple[type[Condition], tuple[str, tuple[DataField, ...]]]:
        return Condition, (self.text, tuple(self._fields.values()))

    def holds(self, table: PointTable) -> Mask:
        """Where it is known to hold."""
        found: Mask = self._truth(self._tree, table).yes
        return found

    def _parsed(self) -> ast.expr:
        """The tree over names for everything that is not Python's own."""
        given, source, starts = list(self._tokens()), "", []
        for i, token in enumerate(given):
            starts.append(len(source))
            name = f"v{i}"
            if token.kind == "sign":
                name = "==" if token.text == "=" else token.text
            elif token.kind == "name" and token.text.lower() in _WORDS:
                name = token.text.lower()
            else:
                self._named[name] = token
            source += f"{name} "
        try:
            return ast.parse(source.strip(), mode="eval").body
        except SyntaxError as error:
            at = (error.offset or 0) - 1
            if "never closed" in error.msg:
                self._refuse("a bracket is not closed")
            if at < 0 or at >= len(source.rstrip()):
                self._refuse("a number or the name of a column is missing")
            token = given[bisect_right(starts, at) - 1]
            self._refuse(f"{shown(token.text)} is not expected there")
        except (RecursionError, MemoryError):
            self._refuse("it nests too deeply")

    def _tokens(self) -> Iterator[_Token]:
        text, at, brackets = self.text, 0, 0
        if len(text) > _LONGEST:
            raise InputError(f"where {shown(text)}: longer than {_LONGEST:,} characters.")
        before: list[_Token] = []
        while text[at:].strip():
            bare = _BARE.match(text, at) if self._wants_text(before) else None
            match = _TOKEN.match(text, at) if bare is None else bare
            if match is None:
                self._refuse(f"{shown(text[at:].strip()[:1])} is not known")
            if bare is not None:
                token = _Token("text", bare[1])
            else:
                kind = "number" if match.lastgroup == "unit" else match.lastgroup or ""
                token = _Token(kind, match[kind], match["unit"] or "")
            brackets += {"(": 1, ")": -1}.get(token.text, 0)
            if brackets > _DEEPEST:
                self._refuse("it nests too deeply")
            before, at = [*before[-1:], token], match.end()
            yield token

    def _wants_text(self, before: Sequence[_Token]) -> bool:
        """Whether a column of texts and ``==`` stand before."""
        field = self._fields.get(before[0].text) if len(before) == 2 else None
        return field is not None and field.kind == TEXT and before[1].text in ("=", "==", "!=")

    def _check(self, node: ast.expr, depth: int = 0) -> None:
        """Refuses what is no statement."""
        if depth > _DEEPEST:
            self._refuse("it nests too deeply")
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._check(part, depth + 1)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._check(node.operand, depth + 1)
        elif isinstance(node, ast.Compare):
            self._check_comparison(node, depth)
        elif not (isinstance(node, ast.Name) and self._column(node, FLAG)):
            for name in (n for n in ast.walk(node) if isinstance(n, ast.Name)):
                self._unit(name)
            self._refuse("a comparison is missing, e.g. expected_time_s < 33ms")

    def _check_comparison(self, node: ast.Compare, depth: int) -> None:
        text = self._column(node.left, TEXT)
        if text:
            (sign, *more), (right, *_) = node.ops, node.comparators
            if more or not isinstance(sign, (ast.Eq, ast.NotEq)) or not self._text(right):
                self._refuse(f"{text} is a text: compare it with == or !=")
            return
        units = [self._unit(side, depth) for side in (node.left, *node.comparators)]
        for a, b in pairwise(units):
            self._same(a, b)

    def _unit(self, node: ast.expr, depth: int = 0) -> str | None:
        """The unit of a number; refuses what is none."""
        if depth > _DEEPEST:
            self._refuse("it nests too deeply")
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            left, right = (self._unit(side, depth + 1) for side in (node.left, node.right))
            if isinstance(node.op, (ast.Add, ast.Sub)):
                self._same(left, right)
                return left or right
            if right:
                return right if not left and isinstance(node.op, ast.Mult) else None
            return left
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._unit(node.operand, depth + 1)
        token = self._named.get(node.id) if isinstance(node, ast.Name) else None
        if token is None or token.kind == "text":
            self._refuse("a number or the name of a column is missing")
        if token.kind == "number":
            return self._value(token)[1]
        field = self._fields.get(token.text)
        if field is None:
            near = closest(token.text, self._fields, 3, 40) or list(self._fields)
            raise UnknownNameError("column", token.text, near)
        if field.kind == TEXT:
            self._refuse(f"{field.name} is a text: compare it with == or !=")
        return field.unit if field.unit not in ("", "1") else ""

    def _column(self, node: ast.expr, kind: str) -> str:
        """The name of a column of a kind; empty for anything else."""
        token = self._named.get(node.id) if isinstance(node, ast.Name) else None
        field = self._fields.get(token.text) if token is not None else None
        return field.name if field is not None and field.kind == kind else ""

    def _text(self, node: ast.expr) -> str:
        token = self._named.get(node.id) if isinstance(node, ast.Name) else None
        return token.text.strip("'\"") if token is not None and token.kind == "text" else ""

    def _value(self, token: _Token) -> tuple[float, str | None]:
        number, unit = float(token.text), token.unit
        if not unit or unit == "%":
            return number / 100 if unit else number, None
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
        raise InputError(f"where {shown(self.text)}: {why}.")

    def _truth(self, node: ast.expr, table: PointTable) -> _Truth:
        if isinstance(node, ast.BoolOp):
            parts = [self._truth(part, table) for part in node.values]
            both = isinstance(node.op, ast.And)
            yes, no = [p.yes for p in parts], [p.no for p in parts]
            every, some = np.logical_and.reduce, np.logical_or.reduce
            return _Truth((every if both else some)(yes), (some if both else every)(no))
        if isinstance(node, ast.UnaryOp):
            inner = self._truth(node.operand, table)
            return _Truth(inner.no, inner.yes)
        if isinstance(node, ast.Name):
            flags = table[self._column(node, FLAG)]
            assert not isinstance(flags, Words)  # the check has looked
            return _Truth(flags == 1, flags == 0)
        assert isinstance(node, ast.Compare)
        sides = [node.left, *node.comparators]
        made = [
            self._compared(*one, table) for one in zip(node.ops, sides, sides[1:], strict=False)
        ]
        return _Truth(
            np.logical_and.reduce([m.yes for m in made]), np.logical_or.reduce([m.no for m in made])
        )

    def _compared(
        self, sign: ast.cmpop, left: ast.expr, right: ast.expr, table: PointTable
    ) -> _Truth:
        text = self._column(left, TEXT)
        if text:
            words, wanted = table[text], self._text(right)
            assert isinstance(words, Words)  # the check has looked
            same = np.array([name == wanted for name in words.names] or [False])[words.codes]
            return _Truth(same, ~same) if isinstance(sign, ast.Eq) else _Truth(~same, same)
        with np.errstate(all="ignore"):
            a, b = self._amount(left, table), self._amount(right, table)
            holds = OPERATIONS[type(sign)](a, b)
            known = np.isfinite(a) & np.isfinite(b)
        return _Truth(holds & known, ~holds & known)

    def _amount(self, node: ast.expr, table: PointTable) -> Any:
        if isinstance(node, ast.BinOp):
            sides = (self._amount(side, table) for side in (node.left, node.right))
            return OPERATIONS[type(node.op)](*sides)
        if isinstance(node, ast.UnaryOp):
            return -self._amount(node.operand, table)
        assert isinstance(node, ast.Name)
        token = self._named[node.id]
        if token.kind == "number":
            return np.float64(self._value(token)[0])
        return np.asarray(table[token.text], dtype=np.float64)
