"""An export of Nsight Compute as samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from gambrel.traces import rocprof
from gambrel.traces.ncu.attributes import completed, reckon
from gambrel.traces.ncu.ceilings import from_report
from gambrel.traces.ncu.numbers import Locale
from gambrel.traces.ncu.table import Launch, Table, parse
from gambrel.traces.ncu.traffic import measure
from gambrel.traces.ncu.values import Metrics, to_metrics
from gambrel.traces.ncu.work import Counted, count
from gambrel.traces.source import decode, read_bytes

#: Generation by the prefixes of NVIDIA's own kernels.
_PREFIXES: Final = (("volta_", "7.0"), ("turing_", "7.5"), ("ampere_", "8.0"), ("sm80_", "8.0"))
FORMAT: Final = "Nsight Compute CSV"
Traffic = tuple[MeasuredTraffic, ...]
Notes = tuple[str, ...]
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
    """Reads an export.

    Args:
        path: A CSV file, with or without the profiler's own lines around the table.
        cc: Compute capability to assume where the file names none (exports before 2023).

    Raises:
        FileFormatError: Not readable, no table, or numbers of two locales.
    """
    return from_text(decode(read_bytes(path)), str(path), cc)


def from_text(text: str, where: str, cc: str = "") -> Samples:
    """Reads the text of an export.

    Args:
        text: Of the file.
        where: Its name.
        cc: Compute capability to assume where the text names none.

    Raises:
        FileFormatError: No table, or numbers of two locales.
    """
    table = parse(text, where)
    values, locale = to_metrics(table, where)
    origins = _origins(table.launches)
    pairs = zip(table.launches, values, strict=True)
    chips = [_chip(launch, metrics) or cc for launch, metrics in pairs]
    launches = tuple(
        _sample(launch, metrics, origin, chip)
        for launch, metrics, origin, chip in zip(
            table.launches, values, origins, chips, strict=True
        )
    )
    ccs = list(dict.fromkeys(chips))
    name = _device_name(table)
    device, clock_note = from_report(values, ccs[0], name) if len(ccs) == 1 else (None, "")
    return Samples(
        format=FORMAT,
        sources=(where,),
        launches=launches,
        device=device,
        reckoned=completed(device, reckon(values, ccs[0], name)) if len(ccs) == 1 else None,
        device_name=name,
        notes=tuple(filter(None, (*_notes(table, locale, ccs), clock_note))),
        skipped=dict(table.skipped),
    )


def _counted(launch: Launch, metrics: Metrics, cc: str) -> tuple[Counted, Traffic, Notes]:
    """Work, bytes and notes; some scripts write AMD's counters into tables of this form."""
    if not _is_amd(metrics.bases):
        return count(metrics, launch.name, cc), *measure(metrics, cc)
    counters = {name.removesuffix("_sum"): value for name, value in metrics.values.items()}
    work = rocprof.count_work(counters)
    state = Known.COUNTED if work else Known.MISSING
    why = "" if work else rocprof.why_missing(counters)
    return Counted(state=state, why=why, work=work), tuple(rocprof.measure(counters)), ()


@lru_cache(maxsize=4096)
def _is_amd(bases: frozenset[str]) -> bool:
    return any(base.startswith(rocprof.PREFIXES) for base in bases)


def _sample(launch: Launch, metrics: Metrics, origin: str, cc: str) -> Sample:
    counted, traffic, caveats = _counted(launch, metrics, cc)
    time = metrics.time_s
    notes = [*counted.notes, *caveats]
    group = launch.group
    if time is not None and time < 0:
        time = None
        notes.append("a negative duration was recorded; the time is unknown")
    sample = Sample(
        name=launch.name,
        time_s=time,
        state=counted.state,
        why=counted.why,
        work=counted.work,
        traffic=traffic,
        grid=launch.info.get("Grid Size", ""),
        block=launch.info.get("Block Size", ""),
        origin=origin,
        recorded=_recorded(metrics),
        ratios=_ratios(metrics),
        instructions=_instructions(metrics),
        group=group,
        range=group,
        notes=tuple(notes),
    )
    return _times(sample, launch.info.get("Invocations", ""))


def _times(sample: Sample, invocations: str) -> Sample:
    """An average of several invocations as their sum."""
    if not invocations:
        return sample
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
    chip = launch.info.get("CC")
    if chip:
        return chip
    parts = [
        metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")
    ]
    if parts[0] is not None:
        return f"{parts[0]:.0f}.{parts[1] or 0:.0f}"
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
        return rocprof.instructions(metrics.values)
    found = metrics.total("sm__inst_executed")
    return None if found is None else round(found.value)


def _ratios(metrics: Metrics) -> dict[str, float]:
    """Sectors of 32 bytes a request of a warp to global memory."""
    if f"{_L1}_requests{_GLOBAL}_ld" not in metrics.bases:
        return {}
    totals = []
    for what in ("sectors", "requests"):
        parts = [metrics.total(f"{_L1}_{what}{_GLOBAL}_{way}") for way in ("ld", "st")]
        totals.append(sum(p.value for p in parts if p is not None))
    sectors, requests = totals
    return {"sectors per request": sectors / requests} if sectors and requests else {}


_L1: Final = "l1tex__t"
_GLOBAL: Final = "_pipe_lsu_mem_global_op"


@lru_cache(maxsize=4096)
def _shares(bases: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The recorded shares that can be there at all."""
    return tuple(p for p in _PERCENT if p[1].partition(".")[0] in bases)


def _origins(launches: Sequence[Launch]) -> list[str]:
    """Process and device of each launch, where the file holds more than one."""
    found = [
        tuple(launch.info.get(k, "") for k in ("Host Name", "Process ID", "Device"))
        for launch in launches
    ]
    if len(set(found)) <= 1:
        return [""] * len(found)
    return [f"process {p} on {h}, device {d or '?'}" for h, p, d in found]


def _device_name(table: Table) -> str:
    for launch in table.launches:
        for key in ("device__attribute_display_name", "Device Name"):
            text = launch.metrics.get(key, (launch.info.get(key, ""), ""))[0]
            if text:
                return text
    return ""


def _notes(table: Table, locale: Locale, ccs: Sequence[str]) -> list[str]:
    notes = [f"the profiler reported: {error}" for error in table.errors[:3]]
    if locale.decimal == ",":
        notes.append("numbers are read with a decimal comma, as the file writes them")
    if len(ccs) == 1 and ccs[0] and not _device_name(table):
        notes.append(f"the file names no device, only compute capability {ccs[0]}")
    if len(ccs) > 1:
        listed = ", ".join(cc or "unknown" for cc in ccs)
        notes.append(f"kernels of several devices (compute capability {listed}) in one file")
    return notes
