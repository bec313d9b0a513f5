"""Arithmetic over named parameters: ``2 * rows * cols * clock``.

Numbers, names, brackets, ``+ - * / // % **``, comparisons, ``a if b else c`` and a few functions.
A text is parsed once and checked node by node; nothing of it is executed as Python. Values are
numbers or arrays of one number per point.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from gambrel.engine.condition import OPERATIONS
from gambrel.errors import InputError, UnknownNameError, shown
from gambrel.ops.base import Size

_LONGEST: Final = 500
_DEEPEST: Final = 30
_BINARY: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    **OPERATIONS,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.float_power,
}
#: Name → function and how many arguments it takes.
FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
    "ceil": (np.ceil, 1),
    "floor": (np.floor, 1),
    "sqrt": (np.sqrt, 1),
    "log2": (np.log2, 1),
}


class Expression:
    """A formula over parameters.

    Args:
        text: As the user wrote it.
        names: Parameters that there are.
        label: What it is the formula of, for messages.

    Raises:
        InputError: It is no such formula.
        UnknownNameError: It names no parameter.
    """

    def __init__(self, text: str, names: Mapping[str, object], label: str) -> None:
        self.text, self._label = text, label
        if len(text) > _LONGEST:
            self._refuse(f"longer than {_LONGEST} characters")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._refuse("not a formula such as 2 * rows * cols * clock")
        self.names = frozenset(self._check(self._tree, names, 0))

    def __call__(self, values: Mapping[str, Size]) -> Size:
        """Its value: a float, or an array.

        Raises:
            InputError: It is not a finite number somewhere, e.g. after a division by zero.
        """
        with np.errstate(all="ignore"):
            found = np.asarray(self._value(self._tree, values), dtype=float)
        if not np.isfinite(found).all():
            self._refuse("not a finite number for some of the values")
        return found if found.ndim else float(found)

    def _refuse(self, why: str) -> Any:
        raise InputError(f"{self._label} {shown(self.text)}: {why}.")

    def _check(self, node: ast.AST, names: Mapping[str, object], depth: int) -> list[str]:
        if depth > _DEEPEST:
            self._refuse("it nests too deeply")
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
                self._refuse(f"{shown(node.value)} is no number")
            return []
        if isinstance(node, ast.Name):
            if node.id not in names:
                raise UnknownNameError(f"{self._label}: parameter", node.id, tuple(names))
            if isinstance(names[node.id], str):
                self._refuse(f"{node.id} is a text")
            return [node.id]
        return [n for part in self._parts(node) for n in self._check(part, names, depth + 1)]

    def _parts(self, node: ast.AST) -> tuple[ast.AST, ...]:
        """What a node is made of."""
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return node.left, node.right
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return (node.operand,)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
            return node.left, node.comparators[0]
        if isinstance(node, ast.IfExp):
            return node.test, node.body, node.orelse
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            wanted = FUNCTIONS.get(node.func.id, (None, -1))[1]
            if len(node.args) == wanted:
                return tuple(node.args)
        known = ", ".join(
            f"{name}({'a, b' if n > 1 else 'a'})" for name, (_, n) in FUNCTIONS.items()
        )
        return tuple(self._refuse(f"only + - * / // % **, comparisons, a if b else c and {known}"))

    def _value(self, node: Any, values: Mapping[str, Size]) -> Any:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]  # a number, the check has looked
        if isinstance(node, ast.Name):
            return values[node.id]
        parts = [self._value(part, values) for part in self._parts(node)]
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](*parts)
        if isinstance(node, ast.Compare):
            return _BINARY[type(node.ops[0])](*parts)
        if isinstance(node, ast.UnaryOp):
            return -parts[0] if isinstance(node.op, ast.USub) else parts[0]
        if isinstance(node, ast.IfExp):
            return np.where(*parts)
        return FUNCTIONS[node.func.id][0](*parts)
