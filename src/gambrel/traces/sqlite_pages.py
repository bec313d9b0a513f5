"""Whole columns of numbers from the pages of a SQLite file.

The `sqlite3` module makes a Python object of each value, a microsecond a row; tables of Nsight
Systems hold tens of millions of rows. Here the pages of one table are decoded with numpy, some
megabytes at a time. The layout is the public one of the "SQLite Database File Format": a table is
a tree of pages; a cell of a leaf holds the length of a record, the row's number and the record; a
record is a header of one type a column, and the values.

Whatever is not plain (text among the numbers, values on further pages, damage) raises
`UnusualError`, and the caller reads the table with `sqlite3` instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

#: Stands for NULL.
NULL: Final = np.iinfo(np.int64).min
#: Bytes of pages that are decoded at once.
_AT_ONCE: Final = 1 << 21
_DEEPEST: Final = 20
_LEAF: Final = 0x0D
_INNER: Final = 0x05
_VARINT: Final = 9
#: Bytes before and after a batch, so that reading beside a damaged cell stays inside.
_MARGIN: Final = 4096
#: Bytes of a value by its type; -1 for types that are no whole number and have no fixed place.
_SIZES: Final = np.full(256, -1, dtype=np.int16)
_SIZES[:10] = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_SIZES[12:128] = [(kind - 12) // 2 for kind in range(12, 128)]
_WHOLE: Final = np.isin(np.arange(256), (0, 1, 2, 3, 4, 5, 6, 8, 9))
_ZERO, _ONE = 8, 9

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class UnusualError(Exception):
    """The table is not laid out plainly; read it with `sqlite3`."""


@dataclass(frozen=True, slots=True)
class _File:
    stream: BinaryIO
    page: int
    usable: int
    pages: int


def columns(
    base: sqlite3.Connection, path: Path, table: str, wanted: Sequence[str]
) -> Iterator[Numbers]:
    """Reads columns of whole numbers.

    Args:
        base: The open database, for its schema.
        path: Of the same database.
        table: Name of the table.
        wanted: Names of columns.

    Yields:
        Blocks, one row a column in the order of `wanted`; `NULL` stands for NULL.

    Raises:
        UnusualError: Anything that is not plain, also after some blocks.
    """
    places, root = _layout(base, table, wanted)
    count = 0
    with path.open("rb") as stream:
        file = _opened(stream)
        for numbers in _leaves(file, root):
            block = _decode(file, numbers, places)
            count += block.shape[1]
            yield block
    if count != base.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]:
        raise UnusualError("rows are missing")


def _layout(
    base: sqlite3.Connection, table: str, wanted: Sequence[str]
) -> tuple[tuple[int, ...], int]:
    """Places of the columns in a record, and the first page of the table."""
    found = base.execute(
        "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    rows = base.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    at = {str(row[1]): int(row[0]) for row in rows}
    # A hidden column is computed, and a primary key may be the row's number: neither is stored.
    plain = found and not any(row[5] or row[6] for row in rows) and set(wanted) <= set(at)
    if not plain or "WITHOUT" in str(found[1]).upper():
        raise UnusualError("schema")
    return tuple(at[name] for name in wanted), int(found[0])


def _opened(stream: BinaryIO) -> _File:
    head = stream.read(100)
    size = stream.seek(0, 2)
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    if len(head) < 100 or page < 512:
        raise UnusualError("header")
    return _File(stream, page, page - head[20], size // page)


def _leaves(file: _File, root: int) -> Iterator[Numbers]:
    """Numbers of the leaves in the order of rows, a batch at a time."""
    level = np.array([root], dtype=np.int64)
    for _ in range(_DEEPEST):
        kind = int(_pages(file, level[:1])[_MARGIN])
        if kind == _LEAF:
            step = max(_AT_ONCE // file.page, 1)
            yield from (level[i : i + step] for i in range(0, len(level), step))
            return
        if kind != _INNER:
            break
        level = np.concatenate([_children(file, int(number)) for number in level])
        if len(level) > file.pages:
            break
    raise UnusualError("no tree")


def _children(file: _File, number: int) -> Numbers:
    data = _pages(file, np.array([number]))[_MARGIN : _MARGIN + file.page]
    count = int(data[3]) << 8 | int(data[4])
    if data[0] != _INNER or 12 + 2 * count > file.page:
        raise UnusualError("inner page")
    places = data[12 : 12 + 2 * count].view(">u2").astype(np.int64)
    if len(places) and int(places.max()) + 4 > file.page:
        raise UnusualError("cell")
    left = _windows(data, ">u4")[places].astype(np.int64)
    return np.append(left, int.from_bytes(data[8:12].tobytes(), "big"))


def _pages(file: _File, numbers: Numbers) -> Bytes:
    """Pages one behind the other, with a margin at both ends."""
    if int(numbers.min()) < 2 or int(numbers.max()) > file.pages:
        raise UnusualError("page number")
    out = np.zeros(len(numbers) * file.page + 2 * _MARGIN, dtype=np.uint8)
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    view = memoryview(out.data)
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(numbers)], strict=True):
        file.stream.seek((int(numbers[low]) - 1) * file.page)
        begin, end = _MARGIN + low * file.page, _MARGIN + high * file.page
        if file.stream.readinto(view[begin:end]) != end - begin:  # type: ignore[attr-defined]
            raise UnusualError("end of file")
    return out


def _windows(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """The number that begins at each byte."""
    size = np.dtype(kind).itemsize
    return np.ndarray((len(data) - size + 1,), dtype=kind, buffer=data, strides=(1,))


def _decode(file: _File, numbers: Numbers, places: Sequence[int]) -> Numbers:
    """The wanted columns of all rows of a batch of leaves."""
    data = _pages(file, numbers)
    records, ends = _records(file, data, len(numbers))
    block = np.empty((len(places), len(records)), dtype=np.int64)
    if not len(records):
        return block
    width = max(places) + 1
    heads = data[records].astype(np.int64)
    if int(heads.min()) <= width or int(heads.max()) > 127:
        raise UnusualError("header of a record")
    headers = np.ndarray((len(data) - width, width), np.uint8, data, strides=(1, 1))[records + 1]
    # Most columns have one type in all records, which then need no look at each.
    same = (headers == headers[0]).all(axis=0).tolist()
    words, at = _windows(data, ">i8"), records + heads
    for place in range(width):
        types = headers[:1, place] if same[place] else headers[:, place]
        sizes = _SIZES[types].astype(np.int64)
        at = at + sizes
        if (sizes < 0).any() or (place in places and not _WHOLE[types].all()):
            raise UnusualError("type")
        if place in places:
            at = np.minimum(at, len(words))
            values = words[at - 8].astype(np.int64)
            block[places.index(place)] = _narrow(values, types, sizes)
    if (at > ends).any():
        raise UnusualError("length of a record")
    return block


def _narrow(values: Numbers, types: Bytes, sizes: Numbers) -> Numbers:
    """Keeps of words of eight bytes the last ones, which belong to the value, with its sign."""
    away = np.minimum(64 - 8 * sizes, 63)
    values = values << away >> away
    for kind, value in ((0, NULL), (_ZERO, 0), (_ONE, 1)):
        mask = types == kind
        if mask.any():
            values = np.where(mask, value, values)
    return values


def _records(file: _File, data: Bytes, count: int) -> tuple[Numbers, Numbers]:
    """Where each record begins and where it has to end, leaf by leaf in the order of rows."""
    pages = _MARGIN + np.arange(count, dtype=np.int64) * file.page
    cells = data[pages + 3].astype(np.int64) << 8 | data[pages + 4]
    if (data[pages] != _LEAF).any() or (8 + 2 * cells > file.page).any():
        raise UnusualError("leaf")
    first = np.repeat(np.cumsum(cells) - cells, cells)
    home = np.repeat(pages, cells)
    slot = home + 8 + 2 * (np.arange(len(home)) - first)
    place = data[slot].astype(np.int64) << 8 | data[slot + 1]
    if len(place) and int(place.max()) >= file.usable:
        raise UnusualError("cell")
    at, length = _varint(data, home + place)
    at, _ = _varint(data, at)
    # A longer record goes on at another page.
    if len(length) and int(length.max()) > file.usable - 35:
        raise UnusualError("overflow")
    ends = at + length
    if (ends > home + file.usable).any():
        raise UnusualError("cell")
    return at, ends


def _varint(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers of seven bits a byte: where each ends, and its value."""
    value = np.zeros(len(at), dtype=np.int64)
    more = np.ones(len(at), dtype=bool)
    for _ in range(_VARINT):
        byte = data[at]
        value = np.where(more, value << 7 | (byte & 0x7F), value)
        at = at + more
        more &= byte > 127
        if not more.any():
            return at, value
    return at, value
