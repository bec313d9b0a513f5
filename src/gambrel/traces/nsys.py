"""SQLite exports of Nsight Systems (``nsys export --type sqlite``): times of kernels, NVTX ranges.

Tables and columns differ by version, so the schema is looked at first. There are no counters in
such a file: work is missing unless the user gives it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from gambrel.analysis.samples import Known, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.kineto.events import Event
from gambrel.traces.kineto.spans import Span
from gambrel.traces.kineto.tree import Forest

FORMAT: Final = "Nsight Systems SQLite"
MAGIC: Final = b"SQLite format 3\0"

_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_NS: Final = 1e-9
#: Kernels that are joined with NVTX ranges one by one; more are added up in the database.
_MOST_JOINED: Final = 2_000_000
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
        raise FileFormatError(f"{path}: damaged or unusual database ({error}).") from None


def _read(base: sqlite3.Connection, path: Path) -> Samples:
    tables = _tables(base)
    if _KERNELS not in tables:
        hint = "no GPU kernels were recorded" if "StringIds" in tables else "not of Nsight Systems"
        raise FileFormatError(f"{path}: the database has no table {_KERNELS}: {hint}.")
    columns = tables[_KERNELS]
    names = _names(base, tables)
    groups = _groups(base, tables)
    launches = tuple(_launches(base, columns, names, groups))
    devices = _devices(base, tables)
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=launches,
        device_name=devices[0] if len(devices) == 1 else "",
        notes=tuple(f"several devices: {', '.join(devices)}" for _ in devices[1:2]),
        spans=_time_of(base, tables),
    )


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


def _launches(
    base: sqlite3.Connection,
    columns: frozenset[str],
    names: dict[int, str],
    groups: dict[int, str],
) -> Iterator[Sample]:
    """Kernels of one name, shape, device and NVTX range added up."""
    name = next((c for c in ("demangledName", "shortName", "mangledName") if c in columns), None)
    shape = [c for c in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ") if c in columns]
    device = ["deviceId"] if "deviceId" in columns else []
    keys = [*([name] if name else []), *device, *shape]
    if not groups:
        picked = ", ".join([*keys, "COUNT(*)", 'SUM("end" - start)'])
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        rows: Iterable[Any] = base.execute(
            f'SELECT {picked} FROM {_KERNELS} WHERE "end" >= start{by}'
        )
        for *values, count, total in rows:
            yield _sample(dict(zip(keys, values, strict=True)), name, names, count, total, "")
        return
    sums: dict[tuple[Any, ...], list[int]] = {}
    picked = ", ".join([*keys, "correlationId", '"end" - start'])
    for *values, number, spent in base.execute(
        f'SELECT {picked} FROM {_KERNELS} WHERE "end" >= start'
    ):
        entry = sums.setdefault((*values, groups.get(number, "")), [0, 0])
        entry[0] += 1
        entry[1] += spent
    for (*values, group), (count, total) in sums.items():
        yield _sample(dict(zip(keys, values, strict=True)), name, names, count, total, group)


def _sample(
    key: dict[str, Any],
    name: str | None,
    names: dict[int, str],
    count: int,
    total: int | None,
    group: str,
) -> Sample:
    text = key.get(name) if name else None
    label = names.get(text, str(text)) if isinstance(text, int) else str(text or "(no name)")
    device = key.get("deviceId")
    return Sample(
        name=label,
        count=count,
        time_s=(total or 0) * _NS,
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


def _groups(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> dict[int, str]:
    """The innermost NVTX range around the call that launched each kernel, by correlation id."""
    runtime, marks = "CUPTI_ACTIVITY_KIND_RUNTIME", tables.get("NVTX_EVENTS", frozenset())
    needed = {"start", "end", "globalTid"} <= marks and runtime in tables
    if not needed or "correlationId" not in tables[_KERNELS]:
        return {}
    (kernels,) = base.execute(f"SELECT COUNT(*) FROM {_KERNELS}").fetchone()
    if kernels > _MOST_JOINED:
        return {}
    forest = Forest(_ranges(base, marks))
    if not forest.roots:
        return {}
    found = {}
    for number, start, thread in base.execute(
        f"SELECT correlationId, start, globalTid FROM {runtime} WHERE correlationId IN "
        f"(SELECT correlationId FROM {_KERNELS})"
    ):
        node = forest.around(Event(pid=0, tid=thread), start)
        if node is not None:
            found[number] = node.name
    return found


def _ranges(base: sqlite3.Connection, columns: frozenset[str]) -> Iterator[tuple[Event, Span]]:
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
        if label and isinstance(start, int) and isinstance(end, int) and end >= start:
            yield Event(name=label, pid=0, tid=thread), (float(start), float(end))


def _devices(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> list[str]:
    if "name" not in tables.get("TARGET_INFO_GPU", frozenset()):
        return []
    rows = base.execute("SELECT name FROM TARGET_INFO_GPU")
    return list(dict.fromkeys(str(name) for (name,) in rows if name))


def _time_of(base: sqlite3.Connection, tables: dict[str, frozenset[str]]) -> dict[str, float]:
    """Seconds busy and idle, overlaps counted once; all devices together."""
    parts = [t for t in (_KERNELS, *_COPIES) if {"start", "end"} <= tables.get(t, frozenset())]
    query = " UNION ALL ".join(f'SELECT start, "end" FROM {t}' for t in parts)
    busy, first, last = 0, None, 0
    for start, end in base.execute(f"{query} ORDER BY 1"):
        if first is None:
            first = last = start
        if end > last:
            busy += end - max(start, last)
            last = end
    if first is None:
        return {}
    return {"busy": busy * _NS, "idle": (last - first - busy) * _NS}
