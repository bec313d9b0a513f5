"""NVTX ranges of a database of Nsight Systems: which one each launch was made in."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gambrel.traces.kineto.tree import Nest
from gambrel.traces.sqlite_pages import UnusualError, columns

#: Rows that are taken from a database at once.
AT_ONCE: Final = 16384
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_LARGEST: Final = 2**62
#: Launch numbers count up from 0; larger ones than this are damage.
_MOST_LAUNCHES: Final = 1 << 28
_CALL: Final = ("correlationId", "start", "globalTid")
NONE: Final = -1


class Ranges:
    """Ranges by launch.

    Attributes:
        names: Of ranges.
    """

    def __init__(self, names: list[str], by_launch: npt.NDArray[np.int32]) -> None:
        self.names = names
        self._by_launch = by_launch

    def of(self, launches: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number of the range of each launch; `NONE` where there is none."""
        known = (launches >= 0) & (launches < len(self._by_launch))
        found = np.full(len(launches), NONE, dtype=np.int64)
        found[known] = self._by_launch[launches[known]]
        return found


def read(
    base: sqlite3.Connection,
    path: Path,
    tables: Mapping[str, Collection[str]],
    strings: Mapping[int, str],
) -> Ranges | None:
    """Finds the innermost range around each call that launched something.

    Args:
        base: The database.
        path: Its file.
        tables: Its tables with their columns.
        strings: Texts by number.

    Returns:
        None where no ranges were recorded.
    """
    marks = tables.get("NVTX_EVENTS", ())
    needed = {"correlationId", "start", "globalTid"} <= set(tables.get(RUNTIME, ()))
    if not needed or not {"start", "end", "globalTid"} <= set(marks):
        return None
    threads: dict[Any, int] = {}
    labels: dict[str, int] = {}
    blocks = list(_blocks(base, marks, strings, threads, labels))
    if not any(map(len, blocks)):
        return None
    table = np.concatenate(blocks)
    blocks.clear()
    nest = Nest(table[:, 0], table[:, 1], table[:, 2])
    numbers = np.append(table[:, 3], NONE).astype(np.int32)
    return Ranges(list(labels), _by_launch(base, path, threads, nest, numbers))


def _blocks(
    base: sqlite3.Connection,
    columns: Collection[str],
    strings: Mapping[int, str],
    threads: dict[Any, int],
    labels: dict[str, int],
) -> Iterator[npt.NDArray[np.int64]]:
    """Thread, start, end and name of ranges, all by number."""
    texts = [c for c in ("text", "textId") if c in columns]
    if not texts:
        return
    cursor = base.execute(
        f'SELECT start, "end", globalTid, {", ".join(texts)} FROM NVTX_EVENTS '
        'WHERE "end" IS NOT NULL'
    )
    numbers: dict[tuple[Any, ...], int] = {}
    for rows in iter(lambda: cursor.fetchmany(AT_ONCE), []):
        for found in dict.fromkeys(row[3:] for row in rows):
            if found not in numbers:
                label = _label(found, strings)
                numbers[found] = labels.setdefault(label, len(labels)) if label else NONE
        block = [
            (threads.setdefault(row[2], len(threads)), row[0], row[1], numbers[row[3:]])
            for row in rows
            if _usable(row)
        ]
        table = np.array(block, dtype=np.int64).reshape(-1, 4)
        yield table[table[:, 3] != NONE]


def _label(found: tuple[Any, ...], strings: Mapping[int, str]) -> str:
    text = next((t for t in found if t is not None), None)
    return strings.get(text, str(text)) if isinstance(text, int) else str(text or "")


def _usable(row: tuple[Any, ...]) -> bool:
    whole = isinstance(row[0], int) and isinstance(row[1], int)
    return whole and -_LARGEST < row[0] <= row[1] < _LARGEST


def _by_launch(
    base: sqlite3.Connection,
    path: Path,
    threads: Mapping[Any, int],
    nest: Nest,
    numbers: npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """Number of the range by number of the launch."""
    found = np.full(1 << 16, NONE, dtype=np.int32)
    for way in (_calls_by_pages, _calls_by_rows):
        try:
            for launches, starts, keys in way(base, path, threads):
                good = (launches >= 0) & (launches < _MOST_LAUNCHES) & (keys != NONE)
                if not good.any():
                    continue
                most = int(launches[good].max())
                if most >= len(found):
                    more = np.full(most + 1 + (1 << 20) - len(found), NONE, dtype=np.int32)
                    found = np.concatenate((found, more))
                found[launches[good]] = numbers[nest.around(keys[good], starts[good])]
            return found
        except UnusualError:
            continue
    return found


_Column = npt.NDArray[np.int64]
_Calls = Iterator[tuple[_Column, _Column, _Column]]


def _calls_by_pages(base: sqlite3.Connection, path: Path, threads: Mapping[Any, int]) -> _Calls:
    """Launch, start and thread of calls, from the pages of the file."""
    known = sorted((key, n) for key, n in threads.items() if isinstance(key, int))
    names = np.array([key for key, _ in known], dtype=np.int64)
    numbers = np.array([n for _, n in known], dtype=np.int64)
    for launches, starts, keys in columns(base, path, RUNTIME, _CALL):
        place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
        keys = np.where(names[place] == keys, numbers[place], NONE)
        yield launches, starts, keys


def _calls_by_rows(base: sqlite3.Connection, _: Path, threads: Mapping[Any, int]) -> _Calls:
    """The same as the database hands them out, of any types."""
    cursor = base.execute(f"SELECT {', '.join(_CALL)} FROM {RUNTIME}")
    for rows in iter(lambda: cursor.fetchmany(AT_ONCE), []):
        good = [r for r in rows if all(isinstance(x, int) and abs(x) < _LARGEST for x in r[:2])]
        table = np.array([row[:2] for row in good], dtype=np.int64).reshape(-1, 2)
        keys = np.array([threads.get(row[2], NONE) for row in good], dtype=np.int64)
        yield table[:, 0], table[:, 1], keys
