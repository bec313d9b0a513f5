"""SQLite exports of Nsight Systems (``nsys export --type sqlite``): times of kernels, NVTX ranges.

Tables and columns differ by version, so the schema is looked at first. There are no counters in
such a file: work is missing unless the user gives it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from gambrel.analysis.samples import Known, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.kineto.spans import Covered
from gambrel.traces.nsys_ranges import AT_ONCE, RUNTIME, Ranges
from gambrel.traces.nsys_ranges import read as read_ranges
from gambrel.traces.sqlite_pages import NULL, UnusualError, columns

FORMAT: Final = "Nsight Systems SQLite"

_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_NS: Final = 1e-9
#: Times beyond this are damage.
_LATEST: Final = 2**61
#: Codes that are told apart by a table instead of by sorting.
_FEW_CODES: Final = 1 << 16
_LAUNCH: Final = "correlationId"
#: Steps of the database's machine after which a query is given up, some minutes.
_MOST_STEPS: Final = 20_000
_STEPS_EACH: Final = 1_000_000
_WHY: Final = "Nsight Systems records times, no counters; give --flops, or import an ncu report"


def read(path: Path) -> Samples:
    """Reads an export.

    Raises:
        FileFormatError: Not a readable database, or without kernels.
    """
    uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as base:
            base.text_factory = lambda data: data.decode("utf-8", "replace")
            base.execute("PRAGMA trusted_schema = OFF")
            base.execute("PRAGMA query_only = ON")
            steps = iter(range(_MOST_STEPS))
            base.set_progress_handler(lambda: next(steps, None) is None, _STEPS_EACH)
            return _read(base, path)
    except _DAMAGE as error:
        raise FileFormatError(f"{path}: damaged or unusual database ({_said(error)}).") from None


_DAMAGE: Final = (sqlite3.Error, UnicodeError, TypeError, OverflowError)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


@contextmanager
def _reading(path: Path, *tables: str) -> Iterator[None]:
    """Names the tables in the refusal of a damaged one."""
    try:
        yield
    except _DAMAGE as error:
        which = f"table {' or '.join(tables)}: damaged or unusual ({_said(error)})"
        raise FileFormatError(f"{path}, {which}.") from None


def _read(base: sqlite3.Connection, path: Path) -> Samples:
    tables = _tables(base)
    if _KERNELS not in tables:
        hint = "no GPU kernels were recorded" if "StringIds" in tables else "not of Nsight Systems"
        if any(name.startswith("rocpd_") for name in tables):
            hint = f"a database of rocprofv3; run rocpd convert -i {path} --output-format csv"
        raise FileFormatError(f"{path}: the database has no table {_KERNELS}: {hint}.")
    recorded = tables[_KERNELS]
    if not {"start", "end"} <= recorded:
        raise FileFormatError(f"{path}: the table {_KERNELS} has no times.")
    keys = _key_columns(recorded)
    with _reading(path, "StringIds"):
        names = _names(base, tables)
    with _reading(path, "NVTX_EVENTS", RUNTIME):
        ranges = read_ranges(base, path, tables, names) if _LAUNCH in recorded else None
    with _reading(path, _KERNELS):
        kernels = _kernels(base, path, keys, ranges)
    groups = [*ranges.names, ""] if ranges else [""]
    launches = tuple(
        _sample(
            dict(zip(keys, kind, strict=True)),
            _name_column(keys),
            names,
            count,
            total,
            groups[group],
        )
        for (kind, group), (count, total) in kernels.sums.items()
    )
    with _reading(path, "TARGET_INFO_GPU"):
        devices = _devices(base, tables)
    with _reading(path, *_COPIES):
        spans = _time_of(base, tables, kernels.busy)
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=launches,
        device_name=devices[0] if len(devices) == 1 else "",
        notes=tuple(f"several devices: {', '.join(devices)}" for _ in devices[1:2]),
        skipped={"kernels without a usable time": kernels.skipped} if kernels.skipped else {},
        spans=spans,
    )


def _name_column(columns: Collection[str]) -> str | None:
    return next((c for c in ("demangledName", "shortName", "mangledName") if c in columns), None)


def _key_columns(columns: frozenset[str]) -> list[str]:
    """What makes kernels alike: name, device, shape, as far as the version records them."""
    name = _name_column(columns)
    shape = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
    return [*([name] if name else []), *(c for c in ("deviceId", *shape) if c in columns)]


def _tables(base: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Tables with their columns. Views are left out: one can hide a query without end."""
    found = {}
    for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        quoted = str(name).replace('"', '""')
        found[str(name)] = frozenset(
            str(row[1]) for row in base.execute(f'PRAGMA table_info("{quoted}")')
        )
    return found


def _names(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> dict[int, str]:
    if "StringIds" not in tables:
        return {}
    return {i: str(text) for i, text in base.execute("SELECT id, value FROM StringIds")}


@dataclass(slots=True)
class _Kernels:
    """Kernels added up.

    Attributes:
        sums: Number and nanoseconds of kernels, by what makes them alike and their range.
        busy: When the devices worked.
        skipped: Kernels without a usable time.
    """

    sums: dict[tuple[tuple[Any, ...], int], list[int]] = field(default_factory=dict)
    busy: Covered = field(default_factory=Covered)
    skipped: int = 0


def _kernels(
    base: sqlite3.Connection, path: Path, keys: Sequence[str], ranges: Ranges | None
) -> _Kernels:
    """Adds kernels up, some thousand at a time; from the pages of the file where that goes."""
    for way in (_by_pages, _by_rows):
        found = _Kernels()
        kinds: dict[tuple[Any, ...], int] = {}
        try:
            for block in way(base, path, keys, kinds):
                found.skipped += block.skipped
                groups = ranges.of(block.launches) if ranges else None
                _add(found.sums, list(kinds), block, groups)
                found.busy.add(block.starts, block.starts + block.lengths)
            return found
        except UnusualError:
            continue
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Kernels with a usable time, column by column.

    Attributes:
        starts: In nanoseconds.
        lengths: In nanoseconds.
        launches: Number of the launch.
        kinds: Number of what makes kernels alike.
        skipped: Kernels without a usable time.
    """

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    launches: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    skipped: int


_Kinds = dict[tuple[Any, ...], int]


def _by_pages(
    base: sqlite3.Connection, path: Path, keys: Sequence[str], kinds: _Kinds
) -> Iterator[_Block]:
    """Kernels as columns of numbers."""
    for block in columns(base, path, _KERNELS, ["start", "end", _LAUNCH, *keys]):
        starts, lengths = block[0], block[1] - block[0]
        good = (np.abs(block[:2] // 2) < _LATEST // 2).all(axis=0)
        good &= (lengths >= 0) & (block[2] != NULL)
        skipped = len(good) - int(good.sum())
        if skipped:
            block, starts, lengths = block[:, good], starts[good], lengths[good]
        yield _Block(
            starts=starts,
            lengths=lengths,
            launches=block[2],
            kinds=_numbered(block[3:], kinds),
            skipped=skipped,
        )


def _numbered(block: npt.NDArray[np.int64], kinds: _Kinds) -> npt.NDArray[np.int64]:
    """Numbers the kernels of one block by their kind."""
    codes, width = np.zeros(block.shape[1], dtype=np.int64), 1
    for column in block:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if low == high:
            continue
        if width * (high - low + 1) >= _LATEST:
            _, codes = np.unique(codes, return_inverse=True)
            texts, column = np.unique(column, return_inverse=True)
            width, low, high = len(codes), 0, len(texts)
        codes = codes * (high - low + 1) + (column - low)
        width *= high - low + 1
    first, inverse = _distinct(codes, width)
    found = []
    for values in block[:, first].T.tolist():
        kind = tuple(None if value == NULL else value for value in values)
        found.append(kinds.setdefault(kind, len(kinds)))
    return np.array(found, dtype=np.int64)[inverse]


def _distinct(
    codes: npt.NDArray[np.int64], width: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A place of each distinct code, and which of them each code is."""
    if width > _FEW_CODES:
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return first, inverse.ravel()
    last = np.full(width, -1, dtype=np.int64)
    last[codes] = np.arange(len(codes))
    present = last >= 0
    return last[present], (np.cumsum(present) - 1)[codes]


def _by_rows(
    base: sqlite3.Connection, _: Path, keys: Sequence[str], kinds: _Kinds
) -> Iterator[_Block]:
    """Kernels as the database hands them out, of any types."""
    known = {str(row[1]) for row in base.execute(f'PRAGMA table_info("{_KERNELS}")')}
    number = _LAUNCH if _LAUNCH in known else "-1"
    cursor = base.execute(
        f'SELECT start, "end" - start, {", ".join([number, *keys])} FROM {_KERNELS}'
    )
    for rows in iter(lambda: cursor.fetchmany(AT_ONCE), []):
        good, block = _times(rows)
        numbers = [kinds.setdefault(row[3:], len(kinds)) for row in good]
        yield _Block(
            starts=block[:, 0],
            lengths=block[:, 1],
            launches=block[:, 2],
            kinds=np.array(numbers, dtype=np.int64),
            skipped=len(rows) - len(good),
        )


def _times(rows: list[Any]) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Rows with a usable time, and their start, length and launch."""
    good = [row for row in rows if _usable(row)]
    return good, np.array([row[:3] for row in good], dtype=np.int64).reshape(-1, 3)


def _add(
    sums: dict[tuple[tuple[Any, ...], int], list[int]],
    kinds: Sequence[tuple[Any, ...]],
    block: _Block,
    groups: npt.NDArray[np.int64] | None,
) -> None:
    """Adds up the kernels of one block, by kind and range."""
    width = 1 if groups is None else int(groups.max(initial=-1)) + 2
    codes = block.kinds if groups is None else block.kinds * width + groups + 1
    both, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    totals = np.zeros(len(both), dtype=np.int64)
    np.add.at(totals, inverse.ravel(), block.lengths)
    for key, count, total in zip(both.tolist(), counts.tolist(), totals.tolist(), strict=True):
        kind, group = divmod(key, width)
        entry = sums.setdefault((kinds[kind], group - 1), [0, 0])
        entry[0] += count
        entry[1] += total


def _usable(row: Sequence[Any]) -> bool:
    whole = all(isinstance(x, int) and abs(x) < _LATEST for x in row[:3])
    return whole and row[1] >= 0


def _sample(
    key: dict[str, Any],
    name: str | None,
    names: dict[int, str],
    count: int,
    total: float,
    group: str,
) -> Sample:
    text = key.get(name) if name else None
    label = names.get(text, str(text)) if isinstance(text, int) else str(text or "(no name)")
    device = key.get("deviceId")
    return Sample(
        name=label,
        count=count,
        time_s=total * _NS,
        state=Known.MISSING,
        why=_WHY,
        group=group,
        range=group,
        grid=_shape(key, "grid"),
        block=_shape(key, "block"),
        origin=f"device {device}" if device else "",
    )


def _shape(key: dict[str, Any], what: str) -> str:
    sides = [key.get(f"{what}{axis}") for axis in "XYZ"]
    return f"({', '.join(str(s) for s in sides)})" if None not in sides else ""


def _devices(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> list[str]:
    if "name" not in tables.get("TARGET_INFO_GPU", frozenset()):
        return []
    rows = base.execute("SELECT name FROM TARGET_INFO_GPU")
    return list(dict.fromkeys(str(name) for (name,) in rows if name))


def _time_of(
    base: sqlite3.Connection, tables: dict[str, frozenset[str]], busy: Covered
) -> dict[str, float]:
    """Seconds busy and idle, overlaps counted once; all devices together."""
    for table in _COPIES:
        if {"start", "end"} <= tables.get(table, frozenset()):
            cursor = base.execute(f'SELECT start, "end" - start, 0 FROM {table}')
            for rows in iter(lambda c=cursor: c.fetchmany(AT_ONCE), []):  # type: ignore[misc]
                _, block = _times(rows)
                busy.add(block[:, 0], block[:, 0] + block[:, 1])
    if busy.first is None:
        return {}
    spent = busy.total()
    return {"busy": spent * _NS, "idle": (busy.last - busy.first - spent) * _NS}
