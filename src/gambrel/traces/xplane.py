"""Profiles of JAX, TensorFlow and PyTorch/XLA: ``*.xplane.pb``, times of ops or kernels.

The messages are those of ``tsl/profiler/protobuf/xplane.proto``: a space has planes (a device, the
host), a plane lines (a stream, the ops of XLA), a line events. Ops on a TPU lie within the loops
that run them, so each event is given the time that its own events leave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.protobuf import Value, double, fields, number, text
from gambrel.traces.source import read_bytes

FORMAT: Final = "XPlane profile"
_HOST: Final = "/host:CPU"
_START: Final = re.compile(rb"\n.{1,6}(?:\x08.{1,9}?)?\x12.(?:/device:|/host:|Task )", re.DOTALL)
_COPY: Final = re.compile(r"(?i)mem(?:cpy|set)")
#: Larger values are damage.
_LARGEST: Final = 1e30
_PICO: Final = 1e-12


def is_xplane(head: bytes) -> bool:
    """Whether a file begins like a profile of XLA."""
    return _START.match(head[:64]) is not None


@dataclass(slots=True)
class _Kind:
    """What the events of one op have in common.

    Attributes:
        name: Of the op or kernel.
        flops: By XLA's own cost analysis; None where it does not say.
        traffic_bytes: Likewise.
    """

    name: str = ""
    flops: float | None = None
    traffic_bytes: float | None = None


@dataclass(slots=True)
class _Plane:
    name: str = ""
    lines: list[memoryview] = field(default_factory=list)
    kinds: dict[int, memoryview] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    stats: list[memoryview] = field(default_factory=list)


#: Event: offset and duration in ps, and the number of its kind.
_Event = tuple[int, int, int]


@dataclass(slots=True)
class _Sum:
    count: int = 0
    picoseconds: int = 0
    encloses: bool = False


def read(path: Path) -> Samples:
    """Reads the times of ops on devices.

    Raises:
        FileFormatError: Not readable, damaged, or of the host alone.
    """
    try:
        planes = [_plane(value) for value in _all(memoryview(read_bytes(path)), 1)]
        devices = [p for p in planes if p.name.startswith("/device:")]
        launches = [s for p in devices for s in _samples(p, several=len(devices) > 1)]
        on_host = not launches
        if on_host:
            launches = [s for p in planes if p.name == _HOST for s in _samples(p, several=False)]
        kinds = {name for p in devices if (name := _device_name(p))}
    except FileFormatError as error:
        why = str(error).removesuffix(".")
        raise FileFormatError(f"{path}: no complete profile ({why}).") from None
    if not launches:
        raise FileFormatError(
            f"{path}: no op of a device or of XLA on the processor in it ({len(planes)} planes); "
            "run a jitted function within jax.profiler.trace or tf.profiler.experimental."
        )
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(launches),
        device_name=kinds.pop() if len(kinds) == 1 else "",
        on_processor=on_host,
        notes=("ops of XLA on the processor; threads add up",) if on_host else (),
    )


def _all(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (v for n, v in fields(data) if n == wanted and not isinstance(v, int))


def _plane(data: memoryview) -> _Plane:
    plane = _Plane()
    for n, value in fields(data):
        if isinstance(value, int):
            continue
        if n == 2:
            plane.name = text(value)
        elif n == 3:
            plane.lines.append(value)
        elif n == 4:
            key, kind = _entry(value)
            plane.kinds[key] = kind
        elif n == 5:
            key, about = _entry(value)
            plane.names[key] = next((text(v) for m, v in fields(about) if m == 2), "")
        elif n == 6:
            plane.stats.append(value)
    return plane


def _entry(data: memoryview) -> tuple[int, memoryview]:
    """Key and value of a map's entry."""
    key, found = 0, memoryview(b"")
    for n, value in fields(data):
        if n == 1:
            key = number(value)
        elif n == 2 and not isinstance(value, int):
            found = value
    return key, found


def _samples(plane: _Plane, *, several: bool) -> Iterator[Sample]:
    """A sample for each op, all its events added up."""
    sums: dict[int, _Sum] = {}
    for events in _events(plane):
        _add(events, sums)
    for key, found in sums.items():
        kind = _kind(plane, key)
        if kind.name and not _COPY.match(kind.name):
            yield _sample(kind, found, plane.name if several else "")


def _events(plane: _Plane) -> Iterator[list[_Event]]:
    """Events by line: of streams where there are any, else of the ops of XLA.

    The other lines of a plane (steps, modules, names of the framework) show the same time again. On
    a processor ops run on any thread, between events of the runtime; they name their HLO.
    """
    if plane.name == _HOST:
        mark = next((n for n, name in plane.names.items() if name == "hlo_op"), None)
        for line in plane.lines:
            yield [_event(v) for v in _all(line, 4) if mark is not None and _has(v, mark)]
        return
    lines = [(_line_name(line), line) for line in plane.lines]
    streams = [line for name, line in lines if name.startswith("Stream #")]
    for line in streams or [line for name, line in lines if name == "XLA Ops"]:
        yield [_event(value) for value in _all(line, 4)]


def _line_name(line: memoryview) -> str:
    return next((text(v) for n, v in fields(line) if n == 2), "")


def _has(event: memoryview, stat: int) -> bool:
    """Whether an event carries a statistic."""
    return any(
        m == 1 and number(key) == stat for value in _all(event, 4) for m, key in fields(value)
    )


def _event(data: memoryview) -> _Event:
    found = {n: number(v) for n, v in fields(data) if n in (1, 2, 3)}
    return found.get(2, 0), found.get(3, 0), found.get(1, 0)


def _add(events: Iterable[_Event], sums: dict[int, _Sum]) -> None:
    """Adds the time of each event that no event within it takes."""
    open_: list[tuple[int, int]] = []  # end and kind of the events around
    for start, duration, kind in sorted(events, key=lambda e: (e[0], -e[1])):
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_ and start + duration <= open_[-1][0]:
            around = sums[open_[-1][1]]
            around.picoseconds -= duration
            around.encloses = True
        mine = sums.setdefault(kind, _Sum())
        mine.count += 1
        mine.picoseconds += duration
        open_.append((start + duration, kind))


def _kind(plane: _Plane, key: int) -> _Kind:
    found = _Kind()
    for n, value in fields(plane.kinds.get(key, memoryview(b""))):
        if n == 2 or (n == 4 and text(value)):
            found.name = text(value)  # the name for display, where there is one, is shorter
        elif n == 5 and not isinstance(value, int):
            name, amount = _stat(value, plane)
            if isinstance(amount, float) and 0 <= amount <= _LARGEST:
                if name == "flops":
                    found.flops = amount
                elif name == "bytes_accessed":
                    found.traffic_bytes = amount
    return found


def _stat(data: memoryview, plane: _Plane) -> tuple[str, float | str]:
    """Name and value of a statistic."""
    name, found = "", ""
    amount: float | None = None
    for n, value in fields(data):
        if n == 1:
            name = plane.names.get(number(value), "")
        elif n == 2:
            amount = double(value)
        elif n in (3, 4):
            amount = float(number(value))
        elif n == 5:
            found = text(value)
    return name, found if amount is None else amount


def _device_name(plane: _Plane) -> str:
    stats = dict(_stat(value, plane) for value in plane.stats)
    found: Value | float | str = stats.get("device_type_string", "")
    return found if isinstance(found, str) else ""


_HOW: Final = "XLA's cost analysis"


def _sample(kind: _Kind, found: _Sum, origin: str) -> Sample:
    # What a loop does is what the ops within it do.
    flops, size = (None, None) if found.encloses else (kind.flops, kind.traffic_bytes)
    work, traffic = [], []
    if flops is not None:
        total = round(flops) * found.count
        work.append(MeasuredWork(work_class="vector", dtype="any", flops=total, how=_HOW))
    if size is not None:
        how = f"{_HOW}: operands and results of the op"
        total = round(size) * found.count
        traffic.append(MeasuredTraffic(level="DRAM", traffic_bytes=total, how=how))
    return Sample(
        name=kind.name,
        count=found.count,
        time_s=max(found.picoseconds, 0) * _PICO or None,
        state=Known.COUNTED if work else Known.MISSING,
        why="" if work else "the profile has no FLOP for this op",
        work=tuple(work),
        traffic=tuple(traffic),
        origin=origin,
    )
