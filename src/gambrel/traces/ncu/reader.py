"""An export of Nsight Compute as samples."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.samples import (
    Known,
    MeasuredTraffic,
    Sample,
    Samples,
    times_traffic,
    times_work,
)
from gambrel.traces import cdna
from gambrel.traces.launches import LaunchList
from gambrel.traces.ncu.attributes import Attributes, completed, reckon
from gambrel.traces.ncu.ceilings import ChipPeaks, from_report
from gambrel.traces.ncu.convert import Numbers, OtherLocaleError
from gambrel.traces.ncu.cut import Table
from gambrel.traces.ncu.launch import Launch
from gambrel.traces.ncu.metric_units import scale
from gambrel.traces.ncu.numbers import Locale
from gambrel.traces.ncu.table import OutOfOrderError, launches
from gambrel.traces.ncu.traffic import measure
from gambrel.traces.ncu.values import Metrics, MetricSchema
from gambrel.traces.ncu.work import KernelWork, count
from gambrel.traces.source import TextFile

#: Generation by the prefixes of NVIDIA's own kernels.
_PREFIXES: Final = (("volta_", "7.0"), ("turing_", "7.5"), ("ampere_", "8.0"), ("sm80_", "8.0"))
FORMAT: Final = "Nsight Compute CSV"
_PERCENT: Final = (
    ("compute", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("DRAM", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("L2", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("L1", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("L1", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
    ("tensor pipe", "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    ("tensor pipe", "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"),
    ("tensor pipe", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
    ("occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
)


def read(path: Path, cc: str = "") -> Samples:
    """Reads an export, row by row.

    Args:
        path: A CSV file, with or without the profiler's own lines around the table.
        cc: Compute capability to assume where the file names none (exports before 2023).

    Raises:
        FileFormatError: Not readable, no table, or numbers of two locales.
    """
    return _read(TextFile(path), str(path), cc)


def from_text(text: str, where: str, cc: str = "") -> Samples:
    """Reads the text of an export.

    Args:
        text: Of the file.
        where: Its name.
        cc: Compute capability to assume where the text names none.

    Raises:
        FileFormatError: No table, or numbers of two locales.
    """
    return _read(io.StringIO(text, newline=None).readlines(), where, cc)


def _read(lines: Iterable[str], where: str, cc: str) -> Samples:
    """Reads the lines; again from the first where the file turns out to be unlike assumed."""
    numbers, gather = Numbers(where), False
    while True:
        try:
            return _once(lines, where, cc, numbers, gather)
        except OtherLocaleError:
            pass  # the numbers know it now
        except OutOfOrderError:
            gather = True


def _once(lines: Iterable[str], where: str, cc: str, numbers: Numbers, gather: bool) -> Samples:
    table, seen = Table(where), _Seen(cc)
    for batch in _batches(launches(lines, table, gather=gather)):
        seen.add(batch, numbers.convert(batch))
    locale = numbers.settle()
    chips = list(seen.chips)
    device, clock_note, implied = None, "", None
    if len(chips) == 1:
        device, clock_note = from_report(seen.peaks, chips[0], seen.device_name)
        derived = reckon(
            seen.attributes.values, seen.peaks.first_clock_hz, chips[0], seen.device_name
        )
        implied = completed(device, derived)
    notes = (*_notes(table, locale, chips, seen.device_name), clock_note)
    return Samples(
        format=FORMAT,
        sources=(where,),
        launches=tuple(seen.collected.launches),
        device=device,
        implied=implied,
        device_name=seen.device_name,
        notes=(*filter(None, notes), *seen.collected.notes()),
        skipped=dict(table.skipped),
    )


#: Cells that are converted together.
_BATCH: Final = 200_000


def _batches(found: Iterator[Launch]) -> Iterator[list[Launch]]:
    batch: list[Launch] = []
    room = _BATCH
    for launch in found:
        batch.append(launch)
        room -= len(launch.row) + len(launch.cells)
        if room < 0:
            yield batch
            batch, room = [], _BATCH
    if batch:
        yield batch


class _Seen:
    """What the launches of a file add up to while it is read.

    Attributes:
        collected: The launches.
        chips: Compute capabilities, in the order found.
        device_name: The first that the file names; empty without one.
        peaks: Of the device.
        attributes: Of the device.
    """

    def __init__(self, cc: str) -> None:
        self.collected = LaunchList()
        self.chips: dict[str, None] = {}
        self.device_name = ""
        self.peaks = ChipPeaks()
        self.attributes = Attributes()
        self._cc = cc
        self._owner: Sequence[str] | None = None
        self._first = self._origin = ""

    def add(self, batch: Sequence[Launch], values: Sequence[Metrics]) -> None:
        """Puts launches in."""
        samples: list[Sample] = []
        for launch, metrics in zip(batch, values, strict=True):
            chip = _chip(launch, metrics) or self._cc
            self.chips[chip] = None
            self.peaks.add(metrics)
            self.attributes.add(metrics)
            owner = launch.heading.owner(launch.row)
            if owner != self._owner:
                self._change_owner(launch, owner, samples)
            samples.append(_sample(launch, metrics, self._origin, chip))
        self.collected.extend(samples)
        if not self.device_name:
            self.device_name = next(filter(None, map(_device_name, batch)), "")

    def _change_owner(self, launch: Launch, owner: Sequence[str], pending: list[Sample]) -> None:
        """Launches of one process and device have no origin as long as there is no other."""
        named = launch.heading.owned(owner)
        if self._owner is None:
            self._first = named
        elif named != self._first or self._origin:
            if not self._origin:
                self.collected.extend(pending)
                pending.clear()
                self.collected.name_origin(self._first)
            self._origin = named
        self._owner = owner


def _of_amd(metrics: Metrics, chip: str) -> tuple[KernelWork, tuple[MeasuredTraffic, ...]]:
    """Work and bytes where a script wrote AMD's counters into a table of this form."""
    counters = {
        name.removesuffix("_sum"): _amd_count(name, value, metrics)
        for name, value in metrics.values.items()
    }
    work = cdna.count_work(counters, chip)
    state = Known.COUNTED if work else Known.MISSING
    why = "" if work else cdna.why_missing(counters)
    return KernelWork(state=state, why=why, work=work), tuple(cdna.measure(counters, chip))


#: Sums in units of 1024 bytes, unless the table has a unit for them; a kilobyte of AMD's is 1024.
_AMD_SIZES: Final = frozenset({"FETCH_SIZE", "WRITE_SIZE", "FetchSize", "WriteSize"})
_AMD_KILOBYTES: Final = frozenset({"kb", "kbyte", "kbytes", "kilobyte", "kilobytes"})


def _amd_count(name: str, value: float, metrics: Metrics) -> float:
    """A counter as the profiler counts it, whatever unit the table shows it in."""
    if name.removesuffix("_sum") not in _AMD_SIZES:
        return value
    columns = metrics.launch.columns
    unit = columns.units[columns.index[name]].strip()
    if not unit:
        return value
    return value / scale(unit) if unit.lower() in _AMD_KILOBYTES else value / 1024


@lru_cache(maxsize=4096)
def _is_amd(bases: frozenset[str]) -> bool:
    return any(base.startswith(cdna.PREFIXES) for base in bases)


def _sample(launch: Launch, metrics: Metrics, origin: str, cc: str) -> Sample:
    name, time, shape = launch.name, metrics.time_s, metrics.shape
    if _is_amd(shape.bases):
        counted, traffic = _of_amd(metrics, cc)
        notes: tuple[str, ...] = ()
    else:
        counted = count(metrics, name, cc)
        traffic, caveats = measure(metrics, cc)
        notes = counted.notes + caveats
    group = launch.group if launch.heading.ranges else ""
    if time is not None and time < 0:
        time = None
        notes = (*notes, "a negative duration was recorded; the time is unknown")
    more = _has_more(shape)
    sample = Sample(
        name=name,
        time_s=time,
        state=counted.state,
        why=counted.why,
        work=counted.work,
        traffic=traffic,
        grid=launch.text("Grid Size"),
        block=launch.text("Block Size"),
        origin=origin,
        recorded=_recorded(metrics) if more else {},
        ratios=_ratios(metrics) if more else {},
        instructions=_instructions(metrics) if more else None,
        group=group,
        range=group,
        notes=notes,
    )
    invocations = launch.text("Invocations")
    return _times(sample, invocations) if invocations else sample


@lru_cache(maxsize=4096)
def _has_more(shape: MetricSchema) -> bool:
    """Whether there can be shares, ratios or instructions."""
    instructions = _is_amd(shape.bases) or "sm__inst_executed" in shape.bases
    return instructions or _HAS_REQUESTS in shape.bases or bool(_shares(shape.bases))


def _times(sample: Sample, invocations: str) -> Sample:
    """An average of several invocations as their sum."""
    digits = re.sub(r"\D", "", invocations)
    count = int(digits[:12] or 1)
    if count <= 1:
        return sample
    return replace(
        sample,
        count=count,
        time_s=None if sample.time_s is None else sample.time_s * count,
        instructions=None if sample.instructions is None else sample.instructions * count,
        work=times_work(sample.work, count),
        traffic=times_traffic(sample.traffic, count),
    )


def _chip(launch: Launch, metrics: Metrics) -> str:
    """Compute capability: the column, the device's attributes, or the kernel's own name."""
    chip = launch.text("CC")
    if chip:
        return chip
    major = metrics.values.get("device__attribute_compute_capability_major")
    if major is not None:
        minor = metrics.values.get("device__attribute_compute_capability_minor")
        return f"{major:.0f}.{minor or 0:.0f}"
    return next((cc for prefix, cc in _PREFIXES if launch.name.startswith(prefix)), "")


def _recorded(metrics: Metrics) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, metric in _shares(metrics.bases):
        value = metrics.get(metric)
        if value is not None:
            found.setdefault(name, value / 100)
    return found


def _instructions(metrics: Metrics) -> int | None:
    """Instructions of warps, whether predicated off or not."""
    if _is_amd(metrics.bases):
        return cdna.instructions(metrics.values)
    found = metrics.total("sm__inst_executed")
    return None if found is None else round(found.value)


def _ratios(metrics: Metrics) -> dict[str, float]:
    """Sectors of 32 bytes per request of a warp to global memory."""
    if _HAS_REQUESTS not in metrics.bases:
        return {}
    totals = []
    for what in ("sectors", "requests"):
        parts = [metrics.total(f"{_L1}_{what}{_GLOBAL}_{way}") for way in ("ld", "st")]
        totals.append(sum(p.value for p in parts if p is not None))
    sectors, requests = totals
    return {"sectors per request": sectors / requests} if sectors and requests else {}


_L1: Final = "l1tex__t"
_GLOBAL: Final = "_pipe_lsu_mem_global_op"
_HAS_REQUESTS: Final = f"{_L1}_requests{_GLOBAL}_ld"


@lru_cache(maxsize=4096)
def _shares(bases: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The recorded shares that can be there at all."""
    return tuple(p for p in _PERCENT if p[1].partition(".")[0] in bases)


def _device_name(launch: Launch) -> str:
    at = launch.columns.index.get("device__attribute_display_name")
    return (launch.cells[at].strip() if at is not None else "") or launch.text("Device Name")


def _notes(table: Table, locale: Locale, ccs: Sequence[str], device_name: str) -> list[str]:
    notes = [f"the profiler reported: {error}" for error in table.errors[:3]]
    if locale.decimal == ",":
        notes.append("numbers are read with a decimal comma, as the file writes them")
    if len(ccs) == 1 and ccs[0] and not device_name and not ccs[0].startswith("gfx"):
        notes.append(f"the file names no device, only compute capability {ccs[0]}")
    if len(ccs) > 1:
        listed = ", ".join(cc or "unknown" for cc in ccs)
        notes.append(f"kernels of several devices (compute capability {listed}) in one file")
    return notes
