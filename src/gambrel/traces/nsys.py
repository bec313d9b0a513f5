"""SQLite exports of Nsight Systems (``nsys export --type sqlite``): times of kernels, NVTX ranges.

Tables and columns differ by version, so the schema is looked at first. There are no counters in
such a file: work is missing unless the user gives it.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from gambrel.analysis.samples import Known, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.kineto.spans import covered
from gambrel.traces.kineto.tree import Nest

FORMAT: Final = "Nsight Systems SQLite"
MAGIC: Final = b"SQLite format 3\0"

_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_NS: Final = 1e-9
#: Rows that are taken from the database at once.
_AT_ONCE: Final = 16384
#: Steps of the database's machine after which a query is given up, some minutes.
_MOST_STEPS: Final = 20_000
_STEPS_EACH: Final = 1_000_000
_WHY: Final = "Nsight Systems records times, no counters; give --flops, or import an ncu report"


def is_sqlite(head: bytes) -> bool:
    """Whether a file begins like a SQLite database."""
    return head.startswith(MAGIC)


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
    except (sqlite3.Error, UnicodeError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise FileFormatError(f"{path}: damaged or unusual database ({text}).") from None


def _read(base: sqlite3.Connection, path: Path) -> Samples:
    tables = _tables(base)
    if _KERNELS not in tables:
        hint = "no GPU kernels were recorded" if "StringIds" in tables else "not of Nsight Systems"
        raise FileFormatError(f"{path}: the database has no table {_KERNELS}: {hint}.")
    columns = tables[_KERNELS]
    if not {"start", "end"} <= columns:
        raise FileFormatError(f"{path}: the table {_KERNELS} has no times.")
    keys = _key_columns(columns)
    kernels = _kernels(base, columns, keys)
    groups = _groups(base, tables, kernels)
    launches = tuple(_launches(kernels, keys, _names(base, tables), groups))
    devices = _devices(base, tables)
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=launches,
        device_name=devices[0] if len(devices) == 1 else "",
        notes=tuple(f"several devices: {', '.join(devices)}" for _ in devices[1:2]),
        skipped={"kernels without a usable time": kernels.skipped} if kernels.skipped else {},
        spans=_time_of(base, tables, kernels),
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
    """Kernels by column, and what makes them alike by number.

    Attributes:
        start: Nanoseconds.
        length: Nanoseconds.
        correlation: Number of the launch.
        kind: Number of the name, device and shape.
        kinds: Those values, by number.
        skipped: Kernels without a usable time.
    """

    start: array[int] = field(default_factory=lambda: array("q"))
    length: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("i"))
    kinds: dict[tuple[Any, ...], int] = field(default_factory=dict)
    skipped: int = 0


def _kernels(base: sqlite3.Connection, columns: frozenset[str], keys: Sequence[str]) -> _Kernels:
    """Reads the kernels in one pass, some thousand at a time."""
    found = _Kernels()
    kinds = found.kinds
    number = "correlationId" if "correlationId" in columns else "-1"
    picked = ", ".join(['start, "end" - start', number, *keys])
    cursor = base.execute(f"SELECT {picked} FROM {_KERNELS}")
    for rows in iter(lambda: cursor.fetchmany(_AT_ONCE), []):
        try:
            block = np.array([row[:3] for row in rows], dtype=np.int64)
            whole = bool((block[:, 1] >= 0).all())
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            good = [row for row in rows if _usable(row)]
            found.skipped += len(rows) - len(good)
            rows = good
            block = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
        found.start.frombytes(np.ascontiguousarray(block[:, 0]).tobytes())
        found.length.frombytes(np.ascontiguousarray(block[:, 1]).tobytes())
        found.correlation.frombytes(np.ascontiguousarray(block[:, 2]).tobytes())
        alike = [row[3:] for row in rows]
        for kind in set(alike).difference(kinds):
            kinds[kind] = len(kinds)
        found.kind.extend([kinds[kind] for kind in alike])
    return found


def _usable(row: tuple[Any, ...]) -> bool:
    whole = all(isinstance(x, int) and abs(x) < 2**62 for x in row[:3])
    return whole and row[1] >= 0


def _launches(
    kernels: _Kernels, keys: Sequence[str], names: dict[int, str], groups: _Groups | None
) -> Iterator[Sample]:
    """Kernels of one name, shape, device and NVTX range added up, in the order of their start."""
    kinds = list(kernels.kinds)
    of_kind = np.frombuffer(kernels.kind, dtype=np.int32)
    lengths = np.frombuffer(kernels.length, dtype=np.int64)
    combined = of_kind.astype(np.int64)
    if groups is not None:
        combined = combined * (len(groups.names) + 1) + groups.numbers + 1
    alike, inverse, counts = np.unique(combined, return_inverse=True, return_counts=True)
    # Exact to the nanosecond below 2**53 ns, some months.
    totals = np.bincount(inverse.ravel(), weights=lengths, minlength=len(alike))
    span = 1 if groups is None else len(groups.names) + 1
    for both, count, total in zip(alike.tolist(), counts.tolist(), totals.tolist(), strict=True):
        kind, group = divmod(both, span)
        label = groups.names[group - 1] if groups is not None and group else ""
        key = dict(zip(keys, kinds[kind], strict=True))
        yield _sample(key, _name_column(keys), names, count, total, label)


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
        grid=_shape(key, "grid"),
        block=_shape(key, "block"),
        origin=f"device {device}" if device else "",
    )


def _shape(key: dict[str, Any], what: str) -> str:
    sides = [key.get(f"{what}{axis}") for axis in "XYZ"]
    return f"({', '.join(str(s) for s in sides)})" if None not in sides else ""


@dataclass(frozen=True, slots=True)
class _Groups:
    """The NVTX range of each kernel.

    Attributes:
        names: Of ranges.
        numbers: Of the range, by kernel; -1 where there is none.
    """

    names: list[str]
    numbers: npt.NDArray[np.int64]


def _groups(
    base: sqlite3.Connection, tables: dict[str, frozenset[str]], kernels: _Kernels
) -> _Groups | None:
    """The innermost NVTX range around the call that launched each kernel."""
    runtime, marks = "CUPTI_ACTIVITY_KIND_RUNTIME", tables.get("NVTX_EVENTS", frozenset())
    needed = {"correlationId", "start", "globalTid"} <= tables.get(runtime, frozenset())
    if not needed or not {"start", "end", "globalTid"} <= marks:
        return None
    threads: dict[Any, int] = {}
    labels: dict[str, int] = {}
    ranges = [
        (threads.setdefault(thread, len(threads)), start, end, labels.setdefault(name, len(labels)))
        for name, thread, start, end in _ranges(base, marks)
    ]
    if not ranges:
        return None
    table = np.array(ranges, dtype=np.int64)
    nest = Nest(table[:, 0], table[:, 1], table[:, 2])
    found = _by_launch(base, runtime, threads, nest, kernels)
    return _Groups(list(labels), np.append(table[:, 3], -1)[found])


def _by_launch(
    base: sqlite3.Connection, runtime: str, threads: dict[Any, int], nest: Nest, kernels: _Kernels
) -> npt.NDArray[np.int64]:
    """The range of each kernel, -1 where there is none."""
    wanted = np.frombuffer(kernels.correlation, dtype=np.int64)
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    found = np.full(len(wanted), -1, dtype=np.int64)
    cursor = base.execute(f"SELECT correlationId, start, globalTid FROM {runtime}")
    for rows in iter(lambda: cursor.fetchmany(_AT_ONCE), []):
        try:
            table = np.array([row[:2] for row in rows], dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            rows = [row for row in rows if _usable((*row[:2], 0)) or _usable((row[0], 0, row[1]))]
            table = np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2)
        first = np.searchsorted(ordered, table[:, 0], side="left")
        last = np.searchsorted(ordered, table[:, 0], side="right")
        keys = np.array([threads.get(row[2], -1) for row in rows], dtype=np.int64)
        good = np.flatnonzero((last > first) & (keys >= 0))
        inside = nest.around(keys[good], table[good, 1])
        found[order[first[good]]] = inside
        # One launch of a graph starts many kernels.
        for i in np.flatnonzero(last[good] - first[good] > 1).tolist():
            found[order[first[good[i]] : last[good[i]]]] = inside[i]
    return found


def _ranges(
    base: sqlite3.Connection, columns: frozenset[str]
) -> Iterator[tuple[str, Any, int, int]]:
    """Name, thread, start and end of the NVTX ranges."""
    texts = [c for c in ("text", "textId") if c in columns]
    if not texts:
        return
    names = _names(base, {"StringIds": frozenset()}) if "textId" in columns else {}
    for start, end, thread, *found in base.execute(
        f'SELECT start, "end", globalTid, {", ".join(texts)} FROM NVTX_EVENTS '
        'WHERE "end" IS NOT NULL'
    ):
        text = next((t for t in found if t is not None), None)
        label = names.get(text, str(text)) if isinstance(text, int) else str(text or "")
        whole = isinstance(start, int) and isinstance(end, int)
        if label and whole and -(2**62) < start <= end < 2**62:
            yield label, thread, start, end


def _devices(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> list[str]:
    if "name" not in tables.get("TARGET_INFO_GPU", frozenset()):
        return []
    rows = base.execute("SELECT name FROM TARGET_INFO_GPU")
    return list(dict.fromkeys(str(name) for (name,) in rows if name))


def _time_of(
    base: sqlite3.Connection, tables: dict[str, frozenset[str]], kernels: _Kernels
) -> dict[str, float]:
    """Seconds busy and idle, overlaps counted once; all devices together."""
    starts, lengths = array("q", kernels.start), array("q", kernels.length)
    for table in _COPIES:
        if {"start", "end"} <= tables.get(table, frozenset()):
            for row in base.execute(f'SELECT start, "end" - start, 0 FROM {table}'):
                if _usable(row):
                    starts.append(row[0])
                    lengths.append(row[1])
    if not starts:
        return {}
    begin = np.frombuffer(starts, dtype=np.int64)
    first = int(begin.min())
    starts_ns = (begin - first).astype(np.float64)
    end = starts_ns + np.frombuffer(lengths, dtype=np.int64).astype(np.float64)
    busy = covered(starts_ns, end)
    return {"busy": busy * _NS, "idle": (float(end.max()) - busy) * _NS}
