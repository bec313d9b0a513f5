"""NVTX ranges of a database of Nsight Systems: which one each launch was made in."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gambrel.traces.kineto.tree import Nest

#: Rows that are taken from a database at once.
AT_ONCE: Final = 16384
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_LARGEST: Final = 2**62
#: Launch numbers count up from 0; larger ones than this are damage.
_MOST_LAUNCHES: Final = 1 << 28
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
    tables: Mapping[str, Collection[str]],
    strings: Mapping[int, str],
) -> Ranges | None:
    """Finds the innermost range around each call that launched something.

    Args:
        base: The database.
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
    if not blocks:
        return None
    table = np.concatenate(blocks)
    nest = Nest(table[:, 0], table[:, 1], table[:, 2])
    numbers = np.append(table[:, 3], NONE).astype(np.int32)
    return Ranges(list(labels), _by_launch(base, threads, nest, numbers))


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
    for rows in iter(lambda: cursor.fetchmany(AT_ONCE), []):
        block = []
        for start, end, thread, *found in rows:
            text = next((t for t in found if t is not None), None)
            label = strings.get(text, str(text)) if isinstance(text, int) else str(text or "")
            whole = isinstance(start, int) and isinstance(end, int)
            if label and whole and -_LARGEST < start <= end < _LARGEST:
                number = labels.setdefault(label, len(labels))
                block.append((threads.setdefault(thread, len(threads)), start, end, number))
        if block:
            yield np.array(block, dtype=np.int64)


def _by_launch(
    base: sqlite3.Connection,
    threads: Mapping[Any, int],
    nest: Nest,
    numbers: npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """Number of the range by number of the launch."""
    found = np.full(1 << 16, NONE, dtype=np.int32)
    cursor = base.execute(f"SELECT correlationId, start, globalTid FROM {RUNTIME}")
    for rows in iter(lambda: cursor.fetchmany(AT_ONCE), []):
        try:
            table = np.array([row[:2] for row in rows], dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            rows = [r for r in rows if all(isinstance(x, int) and abs(x) < _LARGEST for x in r[:2])]
            table = np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2)
        launches = table[:, 0]
        keys = np.array([threads.get(row[2], NONE) for row in rows], dtype=np.int64)
        good = (launches >= 0) & (launches < _MOST_LAUNCHES) & (keys != NONE)
        if not good.any():
            continue
        most = int(launches[good].max())
        if most >= len(found):
            more = np.full(max(most + 1, 2 * len(found)) - len(found), NONE, dtype=np.int32)
            found = np.concatenate((found, more))
        found[launches[good]] = numbers[nest.around(keys[good], table[good, 1])]
    return found
