"""An export of Nsight Compute as samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Sample, Samples
from gambrel.traces.ncu.ceilings import from_report
from gambrel.traces.ncu.numbers import Locale
from gambrel.traces.ncu.table import Launch, Table, parse
from gambrel.traces.ncu.traffic import measure
from gambrel.traces.ncu.values import Metrics, to_metrics
from gambrel.traces.ncu.work import count
from gambrel.traces.source import decode, read_bytes

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


def read(path: Path) -> Samples:
    """Reads an export.

    Args:
        path: A CSV file, with or without the profiler's own lines around the table.

    Raises:
        FileFormatError: Not readable, no table, or numbers of two locales.
    """
    return from_text(decode(read_bytes(path)), str(path))


def from_text(text: str, where: str) -> Samples:
    """Reads the text of an export.

    Args:
        text: Of the file.
        where: Its name.

    Raises:
        FileFormatError: No table, or numbers of two locales.
    """
    table = parse(text, where)
    values, locale = to_metrics(table, where)
    origins = _origins(table.launches)
    launches = tuple(
        _sample(launch, metrics, origin)
        for launch, metrics, origin in zip(table.launches, values, origins, strict=True)
    )
    ccs = list(dict.fromkeys(launch.info.get("CC", "") for launch in table.launches))
    name = _device_name(table)
    device, clock_note = from_report(values, ccs[0], name) if len(ccs) == 1 else (None, "")
    return Samples(
        format=FORMAT,
        sources=(where,),
        launches=launches,
        device=device,
        device_name=name,
        notes=tuple(filter(None, (*_notes(table, locale, ccs), clock_note))),
        skipped=dict(table.skipped),
    )


def _sample(launch: Launch, metrics: Metrics, origin: str) -> Sample:
    cc = launch.info.get("CC", "")
    counted = count(metrics, launch.name, cc)
    traffic, caveats = measure(metrics, cc)
    time = metrics.time_s
    notes = [*counted.notes, *caveats]
    if time is not None and time < 0:
        time = None
        notes.append("a negative duration was recorded; the time is unknown")
    return Sample(
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
        notes=tuple(notes),
    )


def _recorded(metrics: Metrics) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, metric in _PERCENT:
        value = metrics.get(metric)
        if value is not None:
            found.setdefault(name, value / 100)
    return found


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
    if len(ccs) > 1:
        listed = ", ".join(cc or "unknown" for cc in ccs)
        notes.append(f"kernels of several devices (compute capability {listed}) in one file")
    return notes
