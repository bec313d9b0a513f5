"""Columns of points: numbers, counts, flags and texts, with the unit of each.

A number that is unknown is NaN, a flag that is unknown is -1. Texts are codes into a short list of
names, so that a column of a million device names takes four bytes per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Kinds of columns.
NUMBER, WHOLE, FLAG, TEXT = "number", "whole", "flag", "text"
_TYPES: Final = {NUMBER: np.float64, WHOLE: np.int64, FLAG: np.int8}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """One column.

    Attributes:
        name: Its heading.
        kind: `NUMBER`, `WHOLE`, `FLAG` or `TEXT`.
        unit: Of a number; empty for none.
    """

    name: str
    kind: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """A column of texts.

    Attributes:
        codes: Of each row the place of its text in `names`.
        names: Distinct texts.
    """

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def texts(self) -> NDArray[np.str_]:
        """The text of every row."""
        return np.array(self.names or ("",), dtype=str)[self.codes]


Values: TypeAlias = "NDArray[Any] | Words"
#: Name of a column → its values; all columns are of one length.
PointTable: TypeAlias = dict[str, Values]


def words(texts: Sequence[str]) -> Words:
    """A column of texts, one a row."""
    names = tuple(dict.fromkeys(texts))
    place = {name: code for code, name in enumerate(names)}
    return Words(np.array([place[text] for text in texts], dtype=np.int32), names)


def repeated(text: str, count: int) -> Words:
    """The same text in every row."""
    return Words(np.zeros(count, dtype=np.int32), (text,))


def length(table: PointTable) -> int:
    """Number of rows."""
    return len(next(iter(table.values()))) if table else 0


def empty(fields: Iterable[DataField]) -> PointTable:
    """A table without rows."""
    return {
        f.name: Words(np.zeros(0, np.int32), ())
        if f.kind == TEXT
        else np.zeros(0, dtype=_TYPES[f.kind])
        for f in fields
    }


def take(table: PointTable, chosen: Any) -> PointTable:
    """Some rows: a mask, a slice or an array of places."""
    return {
        name: Words(v.codes[chosen], v.names) if isinstance(v, Words) else v[chosen]
        for name, v in table.items()
    }


def joined(tables: Sequence[PointTable]) -> PointTable:
    """Tables with the same columns, one behind the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    return {name: _joined([table[name] for table in tables]) for name in first}


def _joined(parts: Sequence[Values]) -> Values:
    if not isinstance(parts[0], Words):
        return np.concatenate(parts)  # type: ignore[arg-type]
    names: dict[str, int] = {}
    codes = []
    for part in parts:
        assert isinstance(part, Words)  # columns of one name are of one kind
        own = [names.setdefault(name, len(names)) for name in part.names]
        codes.append(np.array(own or [0], dtype=np.int32)[part.codes])
    return Words(np.concatenate(codes), tuple(names))


def plain(values: Values) -> list[Any]:
    """As values of Python; what is unknown is None."""
    if isinstance(values, Words):
        names = values.names
        return [names[code] for code in values.codes.tolist()]
    if values.dtype == np.int8:
        return [None if flag < 0 else bool(flag) for flag in values.tolist()]
    if values.dtype.kind == "f":
        return [None if value != value else value for value in values.tolist()]
    return list(values.tolist())
