"""Counters of a CPU: ``perf stat -x,`` and the CSV output of likwid-perfctr, one sample a run.

The events of Intel's cores count an FMA twice already; AMD's count of all operations likewise. DRAM
bytes come from the memory controllers, which perf shows system-wide only (``-a``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.ncu.numbers import infer, looks_numeric
from gambrel.traces.source import decode, read_bytes

#: FLOP an event, by format; https://perfmon-events.intel.com, FP_ARITH_INST_RETIRED.
_INTEL: Final[dict[str, tuple[str, int]]] = {
    "scalar_double": ("fp64", 1),
    "128b_packed_double": ("fp64", 2),
    "256b_packed_double": ("fp64", 4),
    "512b_packed_double": ("fp64", 8),
    "scalar_single": ("fp32", 1),
    "128b_packed_single": ("fp32", 4),
    "256b_packed_single": ("fp32", 8),
    "512b_packed_single": ("fp32", 16),
    "scalar_half": ("fp16", 1),
    "128b_packed_half": ("fp16", 8),
    "256b_packed_half": ("fp16", 16),
    "512b_packed_half": ("fp16", 32),
}
_EVENT: Final = re.compile(r"fp_arith_inst_retired2?\.(\w+)")
_LINE_BYTES: Final = 64
#: Larger counts are damage.
_LARGEST: Final = 1e30
_UNITS: Final = {"": 1.0, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_UNCOUNTED: Final = ("<not counted>", "<not supported>")


def is_perf(text: str) -> bool:
    """Whether text is what ``perf stat -x`` writes: value, unit, event, time, percent."""
    rows = [x for x in text.splitlines()[:40] if x.strip() and not x.startswith("#")]
    cells = [_cells(row) for row in rows]
    hits = [c for c in cells if len(c) >= 5 and _is_event(c[2]) and c[3].isdigit()]
    return len(hits) * 2 > len(rows)


def is_likwid(text: str) -> bool:
    """Whether text is the CSV output of likwid-perfctr."""
    return text.startswith(("TABLE,", "STRUCT,")) or "likwid" in text[:2000].lower()


def read(path: Path) -> Samples:
    """Reads the output of ``perf stat -x,`` (or ``-x;``).

    Raises:
        FileFormatError: Not readable, or without events.
    """
    events, problems = _events(decode(read_bytes(path)), str(path))
    if not events:
        raise FileFormatError(f"{path}: no event with a count.")
    time = events.get("duration_time", 0.0) * 1e-9 or None
    work, why = _work(events)
    notes = [f"{event} was not counted" for event in problems]
    if time is None:
        notes.append("no duration: add -e duration_time")
    sample = Sample(
        name=path.stem,
        time_s=time,
        state=Known.COUNTED if work else Known.MISSING,
        why=why,
        work=work,
        traffic=tuple(_traffic(events)),
    )
    return Samples(format="perf stat", sources=(str(path),), launches=(sample,), notes=tuple(notes))


def _cells(row: str) -> list[str]:
    """Fields of a line; with ``-x;`` commas are part of numbers."""
    return row.split(";" if row.count(";") >= 4 else ",")


def _is_event(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][\w./:=\-+,@]*", text.strip()))


def _events(text: str, where: str) -> tuple[dict[str, float], list[str]]:
    rows = [_cells(x) for x in text.splitlines() if x and not x.startswith("#")]
    rows = [row for row in rows if len(row) >= 3]
    locale = infer(((r[0].strip(), False) for r in rows if looks_numeric(r[0].strip())), where)
    sums: dict[str, float] = {}
    problems = []
    for row in rows:
        event = row[2].strip().lower()
        name = event if "/" in event else event.partition(":")[0]  # "cycles:u"
        if row[0].strip() in _UNCOUNTED:
            problems.append(name)
            continue
        try:
            value = locale.parse(row[0].strip()) * _UNITS.get(row[1].strip(), 1.0)
        except ValueError:
            continue
        if not 0 <= value <= _LARGEST:
            problems.append(name)
            continue
        sums[name] = sums.get(name, 0.0) + value
    return sums, problems


def _work(events: Mapping[str, float]) -> tuple[tuple[MeasuredWork, ...], str]:
    sums: dict[str, float] = {}
    for name, value in events.items():
        match = _EVENT.search(name)
        if match and match[1] in _INTEL:
            dtype, factor = _INTEL[match[1]]
            sums[dtype] = sums.get(dtype, 0.0) + factor * value
    how = "fp_arith_inst_retired"
    if not sums:
        every = next((v for n, v in events.items() if "fp_ret_sse_avx_ops.all" in n), None)
        if every is None:
            return (), "no events of floating-point work, such as fp_arith_inst_retired.*"
        sums, how = {"any": every}, "fp_ret_sse_avx_ops.all: single and double are not told apart"
    return (
        tuple(
            MeasuredWork(work_class="vector", dtype=d, flops=round(v), how=how)
            for d, v in sums.items()
        ),
        "",
    )


def _traffic(events: Mapping[str, float]) -> list[MeasuredTraffic]:
    imc = [n for n in events if "cas_count" in n or "umc_cas_cmd" in n]
    reads = [n for n in imc if n.rstrip("/").endswith(("read", "rd"))]
    writes = [n for n in imc if n.rstrip("/").endswith(("write", "wr"))]
    found = []
    if reads and writes:
        # perf scales the alias of Intel to MiB itself, so those are bytes by now.
        total = sum(events[n] * (_LINE_BYTES if "umc" in n else 1) for n in (*reads, *writes))
        how = "memory controllers, the whole system"
        found.append(MeasuredTraffic(level="DRAM", traffic_bytes=round(total), how=how))
    if "l1d.replacement" in events:
        found.append(
            MeasuredTraffic(
                level="L2",
                traffic_bytes=round(events["l1d.replacement"] * _LINE_BYTES),
                how="l1d.replacement x 64: lines loaded, write-backs left out",
            )
        )
    return found
