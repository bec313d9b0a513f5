"""Sizes in exported programs: small arithmetic over symbols, evaluated without sympy.

Exporters write them either as people do (``2*s0 + 1``) or as constructors
(``Add(Mul(Integer(2), Symbol('s0', positive=True)), Integer(1))``).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from gambrel.errors import FileFormatError

#: Longest expression; real ones have a few dozen characters.
MAX_CHARACTERS: Final = 20_000
#: Largest exponent and largest value: sizes are no larger than memory.
MAX_EXPONENT: Final = 16
MAX_VALUE: Final = 2**80


def evaluate_size(text: str, values: Mapping[str, int]) -> int:
    """The value of an expression.

    Args:
        text: For example ``"s0//2"`` or ``"FloorDiv(Symbol('s0', integer=True), Integer(2))"``.
        values: A value for each symbol.

    Raises:
        FileFormatError: It is no arithmetic of the known kinds, or no integer.
    """
    found = _evaluate(_tree(text), values)
    if isinstance(found, bool) or found != int(found):
        raise FileFormatError(f"the size {text[:80]!r} is no integer.")
    return int(found)


def symbols_in(text: str) -> frozenset[str]:
    """Names of the symbols in an expression."""
    return frozenset(_symbols(_tree(text)))


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise FileFormatError(f"a size of {len(text)} characters; refused.")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FileFormatError(f"cannot read the size {text[:80]!r}.") from None


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return _value_of(node.id, values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        pair = (_evaluate(node.left, values), _evaluate(node.right, values))
        return _checked(_OPERATORS[type(node.op)], pair)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Symbol" and node.args and isinstance(node.args[0], ast.Constant):
            return _value_of(str(node.args[0].value), values)
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return _checked(function, tuple(_evaluate(a, values) for a in node.args))
    raise FileFormatError(f"cannot read the size {ast.unparse(node)[:80]!r}.")


def _checked(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        result = function(*arguments)
    except (ArithmeticError, TypeError, ValueError):
        raise FileFormatError(f"cannot compute a size from {arguments}.") from None
    if abs(result) > MAX_VALUE:
        raise FileFormatError("a size beyond any memory; refused.")
    return result


def _value_of(name: str, values: Mapping[str, int]) -> int:
    if name not in values:
        raise FileFormatError(f"no value for the size {name!r}.")
    return values[name]


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError("too large an exponent")
    return base**exponent


def _symbols(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
        if node.args and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)
        return
    if isinstance(node, ast.Call):
        for argument in node.args:
            yield from _symbols(argument)
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _symbols(child)


def _divide(a: Any, b: Any) -> Any:
    return a // b if a % b == 0 else a / b


_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: _divide,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
#: Constructors of sympy and of torch.utils._sympy.functions.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "Integer": int,
    "Rational": _divide,
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "Pow": _power,
    "PowByNatural": _power,
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "ModularIndexing": lambda a, b, c: a // b % c,
    "floor": math.floor,
    "ceiling": math.ceil,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": int,
    "ToFloat": float,
    "IntTrueDiv": operator.truediv,
}
