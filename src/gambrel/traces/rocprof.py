"""CSV files of AMD's profilers: rocprof, rocprofv3, rocprof-compute, and its measured roofs.

Work = 64 x (ADD + MUL + 2 FMA + TRANS) of each vector format, because a wave has 64 lanes (lanes
that are masked out are counted as well), and 512 x the MFMA_MOPS counters. Sums come before ratios.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import (
    Known,
    MeasuredTraffic,
    MeasuredWork,
    Sample,
    Samples,
)
from gambrel.device.model import Ceiling, Device, Kind, MemoryLevel, Source
from gambrel.errors import FileFormatError
from gambrel.traces.collected import Collected
from gambrel.traces.source import TextFile

FORMAT: Final = "rocprof CSV"
#: How the counters of AMD's GPUs begin.
PREFIXES: Final = (
    "SQ_",
    "TCC_",
    "TCP_",
    "GRBM_",
    "TA_",
    "FETCH_SIZE",
    "WRITE_SIZE",
    "FetchSize",
    "WriteSize",
)
#: Larger values are damage.
_LARGEST: Final = 1e30
_LANES: Final = 64
_MOPS: Final = 512
_NAMES: Final = ("Kernel_Name", "KernelName", "Name", "kernel_name")
_STARTS: Final = ("Start_Timestamp", "BeginNs", "Start_Ns")
_ENDS: Final = ("End_Timestamp", "EndNs", "End_Ns")
_TOTALS: Final = ("DurationNs", "TotalDurationNs", "Duration_Ns")
_DISPATCH: Final = ("Dispatch_Id", "Dispatch_ID", "Index", "Correlation_Id")
_DISPATCH_KEYS: Final = (*_DISPATCH, "Process_Id", "Agent_Id")
_GRID: Final = ("Grid_Size", "grd", "Grid_Size_X")
_BLOCK: Final = ("Workgroup_Size", "wgr", "Workgroup_Size_X")
_OCCUPANCY: Final = ("OccupancyPercent", "MeanOccupancyPercent")
_ORIGIN: Final = (
    ("process", ("Process_Id", "pid", "PID")),
    ("device", ("GPU_ID", "gpu-id", "Agent_Id", "Device_Id")),
)
_USED: Final = (
    *(*_NAMES, *_STARTS, *_ENDS, *_TOTALS, *_GRID, *_BLOCK, *_OCCUPANCY, "Calls"),
    *(name for _, names in _ORIGIN for name in names),
)
_VECTOR: Final = {"F16": "fp16", "F32": "fp32", "F64": "fp64"}
_MATRIX: Final = {
    "F64": "fp64",
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "F8": "fp8",
    "I8": "int8",
    "XF32": "tf32",
}
_ROOFS: Final = (
    ("vector", "fp16", ("FP16Flops",)),
    ("vector", "fp32", ("FP32Flops",)),
    ("vector", "fp64", ("FP64Flops",)),
    ("matrix", "fp64", ("MFMAF64Flops",)),
    ("matrix", "fp32", ("MFMAF32Flops",)),
    ("matrix", "fp16", ("MFMAF16Flops",)),
    ("matrix", "bf16", ("MFMABF16Flops",)),
    ("matrix", "fp8", ("MFMAF8Flops",)),
    ("matrix", "int8", ("MFMAI8Ops",)),
)
_LEVELS: Final = (("DRAM", "HBMBw"), ("L2", "L2Bw"), ("L1", "L1Bw"), ("shared", "LDSBw"))


def is_rocprof(text: str) -> bool:
    """Whether text begins like a table of one of AMD's profilers."""
    line = text.lstrip("\ufeff\r\n ").partition("\n")[0]
    cells = {c.strip().strip('"') for c in line.split(",")}
    named = bool(cells & set(_NAMES))
    timed = bool(cells & {*_STARTS, *_TOTALS}) or "Counter_Name" in cells
    timed = timed or any(c.startswith(("SQ_", "TCC_", "TCP_")) for c in cells)
    return (named and timed) or {"HBMBw", "L2Bw"} <= cells


Row = Mapping[str, str]
#: A dispatch: its own columns, and its counters.
Dispatch = tuple[Row, dict[str, float]]
_UNUSED: Final = "rows without a kernel or with a negative time"


def read(path: Path) -> Samples:
    """Reads a table of kernels or of measured roofs.

    Raises:
        FileFormatError: Not readable, or without a usable row.
    """
    return read_together([path])[0]


def read_together(paths: Sequence[Path]) -> list[Samples]:
    """Reads several tables; passes over one run, each with other counters, become one.

    A GPU counts a few events at a time, so the profilers run a program several times and write a
    file a pass. Files are passes of one run when their counters differ and the kernels are the
    same, in the same order.

    Raises:
        FileFormatError: Not readable, or without a usable row.
    """
    try:
        return _read_together(paths, gather=False)
    except _ApartError:
        return _read_together(paths, gather=True)


def _read_together(paths: Sequence[Path], *, gather: bool) -> list[Samples]:
    found: list[Samples] = []
    tables: list[_Table] = []
    for path in paths:
        table = _Table(path, gather)
        if table.of_roofs:
            found.append(_roofs([row for _, row in table.rows()], path))
        else:
            tables.append(table)
    if len(tables) > 1 and _are_passes(tables):
        merged = map(_merged, zip(*(table.dispatches() for table in tables), strict=True))
        note = f"{len(tables)} passes over one run; times are those of the first"
        found.append(_samples(merged, [table.path for table in tables], (note,)))
    else:
        found += [_samples(table.dispatches(), [table.path]) for table in tables]
    return found


class _ApartError(Exception):
    """Rows of one dispatch do not follow each other; a file must be read in full first."""


class _Table:
    """A file, read row by row, as often as it is asked for.

    Attributes:
        path: Of the file.
        of_roofs: Whether it holds measured roofs.
    """

    def __init__(self, path: Path, gather: bool) -> None:
        """Reads the heading.

        Args:
            path: Of the file.
            gather: Keep the dispatches until the end where each has several rows.

        Raises:
            FileFormatError: Not readable.
        """
        self.path = path
        self._gather = gather
        self._lines = TextFile(path)
        self._columns = next((row for _, row in self._cells()), [])
        self.of_roofs = "HBMBw" in self._columns
        self._used = [
            c
            for c in self._columns
            if c.partition("[")[0].removesuffix("_sum").startswith(PREFIXES)
        ]

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(self._lines)
        try:
            header = next(filter(None, reader), [])
            yield reader.line_num, [name.strip() for name in header]
            for row in filter(None, reader):
                yield reader.line_num, row
        except csv.Error as error:
            raise FileFormatError(f"{self.path}, near line {reader.line_num}: {error}.") from None

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Rows by heading, with the numbers of their lines.

        Raises:
            FileFormatError: A quote or a cell without end.
        """
        cells = self._cells()
        next(cells)
        for number, row in cells:
            yield number, dict(zip(self._columns, row, strict=False))

    def dispatches(self) -> Iterator[Dispatch]:
        """The kernels that were launched, with their counters.

        Raises:
            FileFormatError: A quote or a cell without end.
        """
        rows = (row for _, row in self.rows())
        if "Counter_Name" in self._columns:
            return _gathered(rows, self._gather)
        return ((_described(row), _counters(row, self._used)) for row in rows)


def _described(row: Mapping[str, str]) -> Row:
    """The columns of a row that are used beside its counters."""
    return {name: row[name] for name in _USED if row.get(name)}


def _are_passes(tables: Sequence[_Table]) -> bool:
    """Whether the kernels are the same, in the same order, and the counters differ."""
    counters: list[set[str]] = [set() for _ in tables]
    for dispatches in zip_longest(*(table.dispatches() for table in tables)):
        if None in dispatches or len({_first(row, _NAMES) for row, _ in dispatches}) > 1:
            return False
        for names, (_, counted) in zip(counters, dispatches, strict=True):
            names.update(counted)
    if sum(not names for names in counters) > 1:
        return False  # times alone, of several processes
    return sum(map(len, counters)) == len(set().union(*counters))


def _merged(passes: Sequence[Dispatch]) -> Dispatch:
    row: dict[str, str] = {}
    counters: dict[str, float] = {}
    for described, counted in passes:
        row = {**described, **row}
        counters |= counted
    return row, counters


def _samples(
    table: Iterable[Dispatch], paths: Sequence[Path], notes: tuple[str, ...] = ()
) -> Samples:
    collected = Collected()
    skipped = 0
    for row, counters in table:
        sample = _sample(row, counters)
        if sample is None:
            skipped += 1
        else:
            collected.extend((sample,))
    if not collected.launches:
        raise FileFormatError(f"{paths[0]}, line 1: no row after it has a kernel.")
    return Samples(
        format=FORMAT,
        sources=tuple(map(str, paths)),
        launches=tuple(collected.launches),
        notes=notes + collected.notes(),
        skipped={_UNUSED: skipped} if skipped else {},
    )


def _base(column: str) -> str:
    """The counter of a column: of one instance, or the sum over all."""
    return column.partition("[")[0].removesuffix("_sum")


def _counters(row: Row, columns: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    sums: dict[str, float] = {}
    for name in columns:
        # rocprof writes one column an instance ("TCC_HIT[0]") or the sum ("TCC_HIT_sum").
        base = _base(name)
        if base.startswith(PREFIXES):
            value = _number(row.get(name))
            if value is not None:
                # The sum stands for its instances where a file has both.
                if name.endswith("_sum"):
                    sums[base] = value
                else:
                    found[base] = found.get(base, 0.0) + value
    return found | sums


def _gathered(rows: Iterable[Row], gather: bool) -> Iterator[Dispatch]:
    """rocprofv3 writes one row a counter: they are put together by dispatch.

    Raises:
        _ApartError: Rows of a dispatch come apart; not with `gather`.
    """
    found: dict[tuple[str, ...], Dispatch] = {}
    done: set[int] = set()
    for row in rows:
        key = tuple([row.get(c, "") for c in _DISPATCH_KEYS])
        if key not in found:
            if not gather:
                yield from found.values()
                found.clear()
                if hash(key) in done:
                    raise _ApartError
                done.add(hash(key))
            found[key] = (_described(row), {})
        counters = found[key][1]
        value = _number(row.get("Counter_Value"))
        name = (row.get("Counter_Name") or "").removesuffix("_sum")
        if name and value is not None:
            counters[name] = counters.get(name, 0.0) + value
    yield from found.values()


def _sample(row: Row, counters: Mapping[str, float]) -> Sample | None:
    name = _first(row, _NAMES)
    time = _time(row)
    if not name or (time is not None and time < 0):
        return None
    work = count_work(counters)
    return Sample(
        name=name.removesuffix(".kd"),
        count=max(int(_number(row.get("Calls")) or 1), 1),
        time_s=time,
        state=Known.COUNTED if work else Known.MISSING,
        why="" if work else why_missing(counters),
        work=work,
        traffic=tuple(measure(counters)),
        instructions=instructions(counters),
        recorded=_occupancy(row),
        origin=_origin(row),
        grid=_first(row, _GRID),
        block=_first(row, _BLOCK),
    )


def _time(row: Row) -> float | None:
    total = _number(_first(row, _TOTALS))
    if total is not None:
        return total * 1e-9
    start, end = _number(_first(row, _STARTS)), _number(_first(row, _ENDS))
    return (end - start) * 1e-9 if start is not None and end is not None else None


def _first(row: Row, names: Sequence[str]) -> str:
    return next((str(row[n]).strip() for n in names if row.get(n)), "")


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is None or abs(value) <= _LARGEST else None


def why_missing(counters: Mapping[str, float]) -> str:
    """Why there is no work, where there is none."""
    if "SQ_INSTS_VALU" in counters:
        return (
            "only instructions were counted, not which: the instruction roofline shows them "
            "(--instructions); MI200 and later count SQ_INSTS_VALU_{ADD,MUL,FMA,TRANS}_F.. as well"
        )
    return "no SQ_INSTS_VALU counters were collected; see 'gambrel collect rocprof'"


def instructions(counters: Mapping[str, float]) -> int | None:
    """Wave instructions: a vector instruction is counted once for four passes of 16 lanes.

    Leinhauser et al., "Metrics and Design of an Instruction Roofline Model for AMD GPUs", ACM TOPC
    2022, https://arxiv.org/abs/2110.08221 .
    """
    vector, scalar = counters.get("SQ_INSTS_VALU"), counters.get("SQ_INSTS_SALU")
    if vector is None or scalar is None:
        return None
    return round(_SIMDS * vector + scalar)


def _occupancy(row: Row) -> dict[str, float]:
    value = _number(_first(row, _OCCUPANCY))
    return {} if value is None or not 0 <= value <= 100 else {"occupancy": value / 100}


def _origin(row: Row) -> str:
    """Device and process, so that ranks and devices stay apart by launch."""
    parts = [
        f"{what} {text}" for what, names in _ORIGIN if (text := _first(row, names)) not in {"", "0"}
    ]
    return ", ".join(parts)


_SIMDS: Final = 4


def count_work(counters: Mapping[str, float]) -> tuple[MeasuredWork, ...]:
    """FLOP by engine and format; empty where no counter tells."""
    found = []
    for suffix, dtype in _MATRIX.items():
        count = counters.get(f"SQ_INSTS_VALU_MFMA_MOPS_{suffix}")
        if count is not None:
            how = f"SQ_INSTS_VALU_MFMA_MOPS_{suffix} x {_MOPS}"
            found.append(_one("matrix", dtype, count * _MOPS, how))
    for suffix, dtype in _VECTOR.items():
        parts = {"ADD": 1, "MUL": 1, "FMA": 2, "TRANS": 1}
        known = {n: counters[k] for n in parts if (k := f"SQ_INSTS_VALU_{n}_{suffix}") in counters}
        if known:
            lanes = sum(parts[n] * v for n, v in known.items())
            absent = "" if len(known) == len(parts) else ", the rest not collected: a lower limit"
            how = f"{_LANES} x ({' + '.join(known)}, FMA = 2), masked lanes included{absent}"
            found.append(_one("vector", dtype, lanes * _LANES, how))
    return tuple(found)


def _one(work_class: str, dtype: str, flops: float, how: str) -> MeasuredWork:
    return MeasuredWork(work_class=work_class, dtype=dtype, flops=round(flops), how=how)


def measure(c: Mapping[str, float]) -> list[MeasuredTraffic]:
    """Bytes by level, outermost first."""
    found = []
    reads, writes = c.get("TCC_EA_RDREQ", c.get("TCC_EA0_RDREQ")), _writes(c)
    if reads is not None and writes is not None:
        short = c.get("TCC_EA_RDREQ_32B", c.get("TCC_EA0_RDREQ_32B", 0.0))
        wide = c.get("TCC_BUBBLE", 0.0)  # of 128 bytes, on MI300
        size = 128 * wide + 64 * (reads - wide - short) + 32 * short + writes
        found.append(_level("DRAM", size, "TCC_EA requests x 32, 64, 128 bytes"))
    else:
        found += _kilobytes(c)
    parts = ("TCC_READ", "TCC_WRITE", "TCC_ATOMIC")
    names = [n for n in ("TCP_TCC_READ_REQ", "TCP_TCC_WRITE_REQ") if n in c]
    if len(names) == 2:
        total = sum(v for n, v in c.items() if n.startswith("TCP_TCC_") and n.endswith("_REQ"))
        found.append(_level("L2", 64 * total, "TCP_TCC requests x 64"))
    elif {"TCC_READ", "TCC_WRITE"} <= set(c):
        found.append(_level("L2", 64 * sum(c.get(n, 0.0) for n in parts), "TCC requests x 64"))
    # MI300 (gfx94x) and later have lines of 128 bytes in L1, and number the ports to the fabric.
    late = "TCC_BUBBLE" in c or any(name.startswith("TCC_EA0_") for name in c)
    accesses = c.get("TCP_TOTAL_CACHE_ACCESSES")
    if accesses is not None:
        line = 128 if late else 64
        found.append(_level("L1", line * accesses, f"TCP_TOTAL_CACHE_ACCESSES x {line}"))
    if {"SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT"} <= set(c):
        cycles = c["SQ_LDS_IDX_ACTIVE"] - c["SQ_LDS_BANK_CONFLICT"]
        found.append(_level("shared", 128 * cycles, "LDS cycles without conflicts x 4 x 32 banks"))
    return found


def _kilobytes(c: Mapping[str, float]) -> list[MeasuredTraffic]:
    """Rocprof's own sums of the same requests, in units of 1024 bytes."""
    for names in (("FETCH_SIZE", "WRITE_SIZE"), ("FetchSize", "WriteSize")):
        if set(names) <= set(c):
            size = 1024 * sum(c[n] for n in names)
            return [_level("DRAM", size, f"{names[0]} + {names[1]}, x 1024")]
    return []


def _writes(c: Mapping[str, float]) -> float | None:
    total = c.get("TCC_EA_WRREQ", c.get("TCC_EA0_WRREQ"))
    wide = c.get("TCC_EA_WRREQ_64B", c.get("TCC_EA0_WRREQ_64B"))
    if total is None or wide is None:
        return None
    return 64 * wide + 32 * (total - wide)


def _level(level: str, size: float, how: str) -> MeasuredTraffic:
    return MeasuredTraffic(level=level, traffic_bytes=max(round(size), 0), how=how)


def _roofs(rows: Sequence[Row], path: Path) -> Samples:
    if not rows:
        raise FileFormatError(f"{path}, line 1: the table of roofs has no row after it.")
    # "mean" is what the tool calls the value; its low and high columns are spelled in several ways.
    row = {str(k).strip(): v for k, v in rows[0].items() if k is not None}
    source = Source(title=f"rocprof-compute, {path.name}", confidence="measured")
    ceilings = tuple(
        Ceiling(
            engine=engine, dtype=dtype, flop_per_s=value * 1e9, kind=Kind.MEASURED, source=source
        )
        for engine, dtype, names in _ROOFS
        if (value := _number(_first(row, names)))
    )
    memory = tuple(
        MemoryLevel(name=level, byte_per_s=value * 1e9, bandwidth_source=source, kind=Kind.MEASURED)
        for level, name in _LEVELS
        if (value := _number(row.get(name)))
    )
    device = Device(
        id="measured-device", name="measured device", vendor="AMD", ceilings=ceilings, memory=memory
    )
    return Samples(
        format="rocprof-compute roofs",
        sources=(str(path),),
        launches=(),
        device=device,
        notes=(
            f"roofs measured by rocprof-compute, from {path.name}"
            + (f": device {row.get('device', 0)} of {len(rows)}" if len(rows) > 1 else ""),
        ),
    )
