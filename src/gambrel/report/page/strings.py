"""Texts and numbers as columns: each distinct text of a page stands in it once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from gambrel.report.text import clean

#: Significant digits of numbers in a page: more than any text beside them shows.
DIGITS: Final = 7
_ROUNDED: Final = f"%.{DIGITS}g"
#: Whole numbers that a script reads exactly.
_EXACT: Final = 1 << 53


class Strings:
    """The string table of a page."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The index of a text; control characters are made visible."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self._places)
        return place

    def all(self, texts: Iterable[str]) -> list[int]:
        """The indices of a column of texts."""
        return [self.of(text) for text in texts]

    def table(self) -> list[str]:
        """The texts by their index."""
        return [clean(text) for text in self._places]


def number(value: object) -> float | int | None:
    """A number as it stands in a page; None for what is unknown, infinite or no number."""
    kind = type(value)
    if kind is float and value - value == 0:  # type: ignore[operator]  # finite
        return float(_ROUNDED % value)
    if kind is int and -_EXACT < value < _EXACT:  # type: ignore[operator]
        return value  # type: ignore[return-value]
    return _unusual(value)


def _unusual(value: object) -> float | None:
    """Large whole numbers, and numbers of other types such as numpy's."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(_ROUNDED % value)


def numbers(values: Iterable[object]) -> list[float | int | None] | None:
    """A column of numbers; None where there is none."""
    column = [None if value is None else number(value) for value in values]
    return column if any(value is not None for value in column) else None


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A record without what is empty or unknown."""
    return {key: value for key, value in row.items() if value not in (None, "", [], {})}
