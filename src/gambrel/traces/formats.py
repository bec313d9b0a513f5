"""The formats, how to recognize each, and reading several files as one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Sample, Samples
from gambrel.analysis.samples.clock_log import ClockLog
from gambrel.collector import without_collector
from gambrel.errors import FileFormatError, InputError, shown
from gambrel.fileio import path_of
from gambrel.traces.clock_log import is_clock_log
from gambrel.traces.kineto.events import is_kineto
from gambrel.traces.likwid import is_likwid
from gambrel.traces.ncu.cut import is_ncu
from gambrel.traces.perf import is_perf
from gambrel.traces.points import is_points
from gambrel.traces.proton import is_proton
from gambrel.traces.rocprof import is_rocprof
from gambrel.traces.rocprof_json import is_rocprof_json
from gambrel.traces.source import decode, is_sqlite, read_head
from gambrel.traces.xplane import is_xplane


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One format.

    Attributes:
        name: For reading.
        sniff: Whether a file that begins with these bytes (and the same as text) is one.
        module: Module of this package with ``read(path) -> Samples``, imported when needed.
        by_chip: Whether it reads better when it knows the chip: ``read(path, chip)``.
        together: Whether several files can be passes over one run: ``read_together(paths, chip)``
            instead of ``read``.
        beside: Whether it holds no kernels, but what was logged beside them.
    """

    name: str
    sniff: Callable[[bytes, str], bool]
    module: str
    by_chip: bool = False
    together: bool = False
    beside: bool = False


FORMATS: Final = (
    TraceFormat(
        name="Nsight Compute CSV",
        sniff=lambda _, text: is_ncu(text),
        module="ncu.reader",
        by_chip=True,
    ),
    TraceFormat(
        name="rocprofv3 JSON",
        sniff=lambda _, text: is_rocprof_json(text),
        module="rocprof_json",
        by_chip=True,
    ),
    TraceFormat(
        name="clocks of nvidia-smi (CSV) or dcgmi dmon",
        sniff=lambda _, text: is_clock_log(text),
        module="clock_log",
        beside=True,
    ),
    TraceFormat(
        name="Proton profile (hatchet)", sniff=lambda _, text: is_proton(text), module="proton"
    ),
    TraceFormat(name="PyTorch trace (.json, .json.gz)", sniff=is_kineto, module="kineto.reader"),
    TraceFormat(name="Nsight Systems SQLite", sniff=lambda head, _: is_sqlite(head), module="nsys"),
    TraceFormat(
        name="rocprof CSV",
        sniff=lambda _, text: is_rocprof(text),
        module="rocprof",
        together=True,
    ),
    TraceFormat(name="perf stat", sniff=lambda _, text: is_perf(text), module="perf"),
    TraceFormat(name="likwid", sniff=lambda _, text: is_likwid(text), module="likwid"),
    TraceFormat(
        name="XPlane profile (.xplane.pb)", sniff=lambda h, _: is_xplane(h), module="xplane"
    ),
    TraceFormat(name="table of points", sniff=lambda _, text: is_points(text), module="points"),
)

#: Characters of a line in an error, and bytes that tell text from anything else.
_SHOWN: Final = 60
_SHOWN_BYTES: Final = 512

#: Files that people try and that are not read: suffix → what it is and the command to type.
_PRIVATE: Final = {
    ".ncu-rep": (
        "an Nsight Compute report",
        "export it (no GPU needed): "
        "ncu --import {path} --csv --page raw --print-units base > report.csv",
    ),
    ".nsys-rep": ("an Nsight Systems report", "export it: nsys export --type sqlite {path}"),
    ".pftrace": (
        "a Perfetto trace",
        "record with: rocprofv3 --kernel-trace --output-format csv -- PROGRAM",
    ),
    "PERFILE2": ("a recording of perf record", "count with: perf stat -x, -o run.csv -- PROGRAM"),
    ".qdrep": ("an Nsight Systems report", "export it: nsys export --type sqlite {path}"),
}


def read(paths: str | Path | Sequence[str | Path], *, chip: str = "") -> Samples:
    """Reads what profilers recorded; several files (ranks, runs) become one list of launches.

    Args:
        paths: One file or several, each of any known format.
        chip: Compute capability (``"7.0"``) or target (``"gfx942"``) of the GPU, for files that do
            not name it.

    Raises:
        FileFormatError: A file is missing, damaged, or of no known format.
        InputError: No file is named.
    """
    several = paths if isinstance(paths, (list, tuple)) else (paths,)
    listed = [path_of(path, "file") for path in several]
    if not listed:
        raise InputError("name at least one file to read.")
    if not isinstance(chip, str):
        raise InputError(f'chip: {shown(chip)} is no GPU; write for example "7.0" or "gfx942".')
    with without_collector():
        chosen = [(_format_of(path), path) for path in listed]
        together = [path for found, path in chosen if found.together]
        logs = [_read_one(found, path, chip) for found, path in chosen if found.beside]
        alone = [c for c in chosen if not c[0].together and not c[0].beside]
        parts = [_read_one(found, path, chip) for found, path in alone]
        if together:
            from gambrel.traces.rocprof import read_together

            parts += read_together(together, chip if chip.startswith("gfx") else "")
    if not parts:
        raise InputError(
            f"{listed[0]} holds clocks and power, no kernels: name the recording of the same run "
            f"before it, e.g. gambrel diagnose trace.json {listed[0]}."
        )
    return _beside(parts[0] if len(parts) == 1 else _join(parts), logs)


def is_beside(path: Path) -> bool:
    """Whether a file holds no kernels, but what was logged beside them.

    Raises:
        FileFormatError: It cannot be read, or is of no known format.
    """
    return _format_of(path).beside


def _beside(samples: Samples, logs: Sequence[Samples]) -> Samples:
    """Samples with the clocks that were logged beside them."""
    known = [log.clocks for log in logs if log.clocks is not None]
    if not known:
        return samples
    import msgspec

    clocks = ClockLog(
        source=", ".join(log.source for log in known),
        readings=tuple(reading for log in known for reading in log.readings),
    )
    slow = clocks.slowdown()
    said = (f"slowed down: {slow.evidence}",) if slow else ()
    return msgspec.structs.replace(
        samples,
        sources=(*samples.sources, *(source for log in logs for source in log.sources)),
        notes=(*samples.notes, clocks.summary, *said),
        clocks=clocks,
    )


def _read_one(found: TraceFormat, path: Path, chip: str) -> Samples:
    module = importlib.import_module(f"gambrel.traces.{found.module}")
    samples: Samples = module.read(path, chip) if found.by_chip else module.read(path)
    return samples


def _format_of(path: Path) -> TraceFormat:
    head = read_head(path)
    text = decode(head)
    suffix = ".ncu-rep" if path.suffix == ".ncu-repz" else path.suffix
    suffix = "PERFILE2" if head.startswith(b"PERFILE2") else suffix
    if suffix in _PRIVATE and not is_sqlite(head):
        what, command = _PRIVATE[suffix]
        raise FileFormatError(
            f"{path} is {what}, which is not read itself; {command.format(path=path)}"
        )
    for found in FORMATS:
        if found.sniff(head, text):
            return found
    known = ", ".join(f.name for f in FORMATS)
    raise FileFormatError(f"{path}: no known format; {_seen(head, text)}. Known are: {known}.")


def _seen(head: bytes, text: str) -> str:
    """What a file of no known format begins with: bytes, or its first line with something in it."""
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines or any(byte < 32 and byte not in b"\t\r\n\f\x1b" for byte in head[:_SHOWN_BYTES]):
        return f"it begins with the bytes {head[:8].hex(' ')} at offset 0"
    number, line = lines[0]
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
    return f"line {number} is {shown!r}"


def _join(parts: Sequence[Samples]) -> Samples:
    devices = [p.device for p in parts if p.device is not None]
    names = list(dict.fromkeys(p.device_name for p in parts if p.device_name))
    notes = [note for p in parts for note in p.notes]
    if len(names) > 1:
        notes.append(f"files of several devices: {', '.join(names)}")
    skipped: dict[str, int] = {}
    for part in parts:
        for reason, number in part.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + number
    return Samples(
        format=", ".join(dict.fromkeys(p.format for p in parts)),
        sources=tuple(source for p in parts for source in p.sources),
        launches=tuple(launch for p in parts for launch in _named(p, len(parts))),
        device=devices[0] if devices and len(names) <= 1 else None,
        implied=next((p.implied for p in parts if p.implied), None) if len(names) <= 1 else None,
        device_name=names[0] if len(names) == 1 else "",
        on_processor=all(p.on_processor for p in parts if p.launches),
        notes=tuple(dict.fromkeys(notes)),
        skipped=skipped,
        spans=_spans(parts),
    )


def _named(part: Samples, count: int) -> Sequence[Sample]:
    """Launches with the file they come from, so that ranks stay apart."""
    import msgspec

    if count == 1:
        return part.launches
    return [
        msgspec.structs.replace(s, origin=f"{part.sources[0]} {s.origin}".strip())
        for s in part.launches
    ]


def _spans(parts: Sequence[Samples]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.spans.items():
            sums[name] = sums.get(name, 0.0) + seconds
    return sums
