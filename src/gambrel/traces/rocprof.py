"""CSV files of AMD's profilers: rocprof, rocprofv3, rocprof-compute, and its measured roofs.

What the counters mean is in `cdna`; sums come before ratios.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Sample, Samples
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.errors import FileFormatError
from gambrel.traces.cdna import PREFIXES, fields_of
from gambrel.traces.gpu_info import GpuInfo, beside, from_rows, is_gpu_info
from gambrel.traces.launches import LaunchList
from gambrel.traces.source import TextFile, csv_rows

FORMAT: Final = "rocprof CSV"
#: Larger values are damage.
_LARGEST: Final = 1e30
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
_ROOFS: Final = (
    ("vector", "fp16", ("FP16Flops",)),
    ("vector", "fp32", ("FP32Flops",)),
    ("vector", "fp64", ("FP64Flops",)),
    ("matrix", "fp64", ("MFMAF64Flops",)),
    ("matrix", "fp32", ("MFMAF32Flops",)),
    ("matrix", "fp16", ("MFMAF16Flops",)),
    ("matrix", "bf16", ("MFMABF16Flops",)),
    ("matrix", "fp8", ("MFMAF8Flops",)),
    ("matrix", "fp4", ("MFMAF6F4Flops",)),
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
    return (named and timed) or {"HBMBw", "L2Bw"} <= cells or is_gpu_info(list(cells))


Row = Mapping[str, str]
#: A dispatch: its own columns, and its counters.
Dispatch = tuple[Row, dict[str, float]]
_UNUSED: Final = "rows without a kernel or with a negative time"
_HOST: Final = "calls of the host's API and copies, which are no kernels"
#: Functions of the host, domains and copies in the statistics of rocprof and rocprofv3, which have
#: the columns of those of kernels. A kernel has its parameters in its name, or no such name.
_HOST_NAME: Final = re.compile(
    r"(?:__)?hip[A-Z]\w*|hsa_\w+|roctx\w+|(?:nccl|rccl|rocDec|rocJpeg)[A-Z]\w*|Copy\w+To\w+"
    r"|(?:HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG|KERNEL|MEMORY|SCRATCH|OMPT)_[A-Z_]+"
)


def read_together(paths: Sequence[Path], chip: str = "") -> list[Samples]:
    """Reads several tables; passes over one run, each with other counters, become one.

    A GPU counts a few events at a time, so the profilers run a program several times and write a
    file a pass. Files are passes of one run when their counters differ and the kernels are the
    same, in the same order.

    Args:
        paths: Of kernels, of measured roofs (``roofline.csv``) and of the system (``sysinfo.csv``).
        chip: Such as ``"gfx942"``; empty for what the files say.

    Raises:
        FileFormatError: Not readable, or without a usable row.
    """
    try:
        return _read_together(paths, chip, gather=False)
    except _ApartError:
        return _read_together(paths, chip, gather=True)


def _read_together(paths: Sequence[Path], chip: str, *, gather: bool) -> list[Samples]:
    found: list[Samples] = []
    tables: list[_Table] = []
    system: GpuInfo | None = None
    for path in paths:
        table = _Table(path, gather)
        if table.of_roofs:
            found.append(_roofs([row for _, row in table.rows()], path))
        elif table.of_system:
            system = from_rows([row for _, row in table.rows()])
            found.append(_system(system, path))
        else:
            tables.append(table)

    def samples(table: Iterable[Dispatch], of: Sequence[Path], notes: tuple[str, ...]) -> Samples:
        return _samples(table, of, notes, system or beside(of[0]) or GpuInfo(), chip)

    if len(tables) > 1 and _are_passes(tables):
        merged = map(_merged, zip(*(table.dispatches() for table in tables), strict=True))
        note = f"{len(tables)} passes over one run; times are those of the first"
        found.append(samples(merged, [table.path for table in tables], (note,)))
    else:
        found += [samples(table.dispatches(), [table.path], ()) for table in tables]
    return found


def _system(found: GpuInfo, path: Path) -> Samples:
    """A file about the GPU, without kernels."""
    return Samples(
        format="GPU of the run",
        sources=(str(path),),
        launches=(),
        device_name=found.device_name,
        notes=(found.note,) if found.note else (),
    )


class _ApartError(Exception):
    """Rows of one dispatch do not follow each other; a file must be read in full first."""


class _Table:
    """A file, read row by row, as often as it is asked for.

    Attributes:
        path: Of the file.
        of_roofs: Whether it holds measured roofs.
        of_system: Whether it describes the GPU.
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
        heading = next((row for _, row in csv_rows(self._lines, path)), [])
        self._columns = [name.strip() for name in heading]
        self.of_roofs = "HBMBw" in self._columns
        self.of_system = is_gpu_info(self._columns)
        self._used = [
            c
            for c in self._columns
            if c.partition("[")[0].removesuffix("_sum").startswith(PREFIXES)
        ]

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Rows by heading, with the numbers of their lines.

        Raises:
            FileFormatError: A quote or a cell without end.
        """
        cells = csv_rows(self._lines, self.path)
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
    table: Iterable[Dispatch],
    paths: Sequence[Path],
    notes: tuple[str, ...],
    system: GpuInfo,
    chip: str,
) -> Samples:
    collected = LaunchList()
    skipped: dict[str, int] = {}
    for row, counters in table:
        sample = None
        why = _HOST if _is_host(row, counters) else _UNUSED
        if why != _HOST:
            sample = _sample(row, counters, chip or system.chip)
        if sample is None:
            skipped[why] = skipped.get(why, 0) + 1
        else:
            collected.extend((sample,))
    if not collected.launches:
        raise FileFormatError(_no_kernel(paths[0], skipped))
    return Samples(
        format=FORMAT,
        sources=tuple(map(str, paths)),
        launches=tuple(collected.launches),
        device_name=system.device_name,
        notes=(*notes, *filter(None, [system.note]), *collected.notes()),
        skipped=skipped,
    )


def _no_kernel(path: Path, skipped: Mapping[str, int]) -> str:
    if _HOST in skipped:
        return (
            f"{path} holds {_HOST}; import the file of kernels beside it "
            "(kernel_stats.csv, kernel_trace.csv or counter_collection.csv)."
        )
    return f"{path}, line 1: no row after it has a kernel."


def _is_host(row: Row, counters: Mapping[str, float]) -> bool:
    """Whether a row of statistics is of the host's side; a dispatch never is."""
    statistics = not counters and "Calls" in row
    return statistics and _HOST_NAME.fullmatch(_first(row, _NAMES)) is not None


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


def _sample(row: Row, counters: Mapping[str, float], chip: str) -> Sample | None:
    name = _first(row, _NAMES)
    time = _time(row)
    if not name or (time is not None and time < 0):
        return None
    return Sample(
        name=name.removesuffix(" (.kd)").removesuffix(".kd"),
        count=max(int(_number(row.get("Calls")) or 1), 1),
        time_s=time or None,  # spreadsheets round both stamps to one value
        **fields_of(counters, chip),
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


def _occupancy(row: Row) -> dict[str, float]:
    value = _number(_first(row, _OCCUPANCY))
    return {} if value is None or not 0 <= value <= 100 else {"occupancy": value / 100}


def _origin(row: Row) -> str:
    """Device and process, so that ranks and devices stay apart by launch."""
    parts = [
        f"{what} {text}" for what, names in _ORIGIN if (text := _first(row, names)) not in {"", "0"}
    ]
    return ", ".join(parts)


def _roofs(rows: Sequence[Row], path: Path) -> Samples:
    if not rows:
        raise FileFormatError(f"{path}, line 1: the table of roofs has no row after it.")
    # "mean" is what the tool calls the value; its low and high columns are spelled in several ways.
    row = {str(k).strip(): v for k, v in rows[0].items() if k is not None}
    source = Source(title=f"rocprof-compute, {path.name}", confidence="measured")
    ceilings = tuple(
        Ceiling(
            engine=engine,
            dtype=dtype,
            flop_per_s=value * 1e9,
            kind=CeilingKind.MEASURED,
            source=source,
        )
        for engine, dtype, names in _ROOFS
        if (value := _number(_first(row, names)))
    )
    memory = tuple(
        MemoryLevel(
            name=level, byte_per_s=value * 1e9, bandwidth_source=source, kind=CeilingKind.MEASURED
        )
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
