"""Counters of a CPU from ``perf stat``, with ``-x``, ``-j`` or as printed, one sample a run.

The events of Intel's cores count an FMA twice already; AMD's count of all operations likewise. DRAM
bytes come from the memory controllers, which perf shows system-wide only (``-a``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.ncu.numbers import LocaleEvidence, looks_numeric
from gambrel.traces.perf_text import ELAPSED, is_perf_text, text_cells
from gambrel.traces.source import TextFile

#: FLOP an event, by format; https://perfmon-events.intel.com, FP_ARITH_INST_RETIRED.
_INTEL: Final[dict[str, tuple[str, int]]] = {
    f"{width}_{precision}": (f"fp{bits}", 1 if width == "scalar" else int(width[:3]) // bits)
    for precision, bits in (("double", 64), ("single", 32), ("half", 16))
    for width in ("scalar", "128b_packed", "256b_packed", "512b_packed")
}
_EVENT: Final = re.compile(r"fp_arith_inst_retired2?\.(\w+)")
_LINE_BYTES: Final = 64
#: Larger counts are damage.
_LARGEST: Final = 1e30
#: Events of the memory controllers of Intel and AMD.
_REQUESTS: Final = ("cas_count", "umc_cas_cmd")
#: To bytes and, of what is a time, to nanoseconds.
_UNITS: Final = {
    "B": 1.0,
    "bytes": 1.0,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "seconds": 1e9,
    "msec": 1e6,
}
#: Percent of the time that an event was counted; below, perf's value is an extrapolation.
_SCALED: Final = 99.0
_UNCOUNTED: Final = ("<not counted>", "<not supported>")


def is_perf(text: str) -> bool:
    """Whether text is what ``perf stat`` prints or, with ``-x``, value, unit, event, time, ..."""
    if is_perf_text(text):
        return True
    rows = [x for x in text.splitlines()[:40] if x.strip() and not x.startswith("#")]
    cells = [_cells(row) for row in rows]
    hits = [c for c in cells if len(c) >= 5 and _is_event(c[2]) and c[3].isdigit()]
    return len(hits) * 2 > len(rows)


def read(path: Path) -> Samples:
    """Reads the output of ``perf stat``: as printed, with ``-x,``, ``-x;`` or ``-j``.

    Raises:
        FileFormatError: Not readable, or without events.
    """
    events, problems = _events(TextFile(path), str(path))
    if not events:
        raise FileFormatError(f"{path}: no event with a count.")
    time = (events.get("duration_time") or events.get(ELAPSED, 0.0)) * 1e-9 or None
    work, why = _work(events)
    notes = list(problems)
    if time is None:
        notes.append("no duration: add -e duration_time")
    sample = Sample(
        name=path.stem,
        time_s=time,
        state=_state(work, why),
        why=why,
        work=work,
        traffic=tuple(_traffic(events)),
    )
    return Samples(
        format="perf stat",
        sources=(str(path),),
        launches=(sample,),
        on_processor=True,
        notes=tuple(notes),
    )


def _state(work: Sequence[MeasuredWork], why: str) -> Known:
    if work:
        return Known.COUNTED
    return Known.NOT_COUNTABLE if why.startswith("amx") else Known.MISSING


def _cells(row: str) -> list[str]:
    """Fields of a line: value, unit, event, ...; with ``-x;`` commas are part of numbers.

    ``-A``, ``--per-socket`` and ``-I`` put a processor, a socket or a time before the value.
    """
    if row.lstrip().startswith("{"):
        return _json_cells(row)
    cells = row.split(";" if row.count(";") >= 4 else ",")
    for skip in range(min(len(cells) - 2, 4)):
        value, unit, event = (c.strip() for c in cells[skip : skip + 3])
        counted = looks_numeric(value) or value in _UNCOUNTED
        if counted and _is_event(event) and not looks_numeric(unit):
            return cells[skip:]
    return cells


_KEYS: Final = ("counter-value", "unit", "event", "event-runtime", "pcnt-running")


def _json_cells(row: str) -> list[str]:
    """A line of ``perf stat -j``, as the fields that ``-x`` writes."""
    try:
        found = msgspec.json.decode(row.strip().rstrip(","), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    cells = [str(found.get(key, "")) for key in _KEYS]
    return cells if cells[2] else []


def _is_event(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][\w./:=\-+,@]*", text.strip()))


def _events(lines: Iterable[str], where: str) -> tuple[dict[str, float], list[str]]:
    """Sums by event, and what to say about them; the lines are gone through twice."""
    evidence = LocaleEvidence(where)
    for number, row in _rows(lines):
        if looks_numeric(row[0].strip()):
            evidence.note(row[0].strip(), False, number)
    locale = evidence.locale()
    sums: dict[str, float] = {}
    problems: list[str] = []
    scaled: dict[str, str] = {}
    for _, row in _rows(lines):
        event = row[2].strip().lower()
        name = event if "/" in event else event.partition(":")[0]  # "cycles:u"
        if row[0].strip() in _UNCOUNTED:
            problems.append(name)
            continue
        try:
            value = locale.parse(row[0].strip()) * _factor(name, row[1].strip())
        except ValueError:
            continue
        if not 0 <= value <= _LARGEST:
            problems.append(name)
            continue
        sums[name] = sums.get(name, 0.0) + value
        if len(row) > 4 and _share(row[4]) < _SCALED:
            scaled.setdefault(name, row[4].strip())
    problems = list(dict.fromkeys(f"{event} was not counted" for event in problems))
    problems += [
        f"{event} was counted {share} % of the time only and scaled up by perf"
        for event, share in scaled.items()
    ]
    return sums, problems


def _factor(event: str, unit: str) -> float:
    """From a count as written to the base unit; requests to memory without a unit are lines."""
    if not unit and any(mark in event for mark in _REQUESTS):
        return _LINE_BYTES
    return _UNITS.get(unit.lower() if unit == "Bytes" else unit, 1.0)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows of events with the numbers of their lines."""
    printed = False
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        printed = printed or is_perf_text(text)
        if text and not text.startswith("#"):
            row = text_cells(text) if printed else _cells(text)
            if len(row) >= 3:
                yield number, row


def _share(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return 100.0


def _work(events: Mapping[str, float]) -> tuple[tuple[MeasuredWork, ...], str]:
    sums: dict[str, float] = {}
    for name, value in events.items():
        match = _EVENT.search(name)
        if match and match[1] in _INTEL:
            dtype, factor = _INTEL[match[1]]
            sums[dtype] = sums.get(dtype, 0.0) + factor * value
    how = "fp_arith_inst_retired, an FMA counted twice by itself"
    if not sums:
        for marks, text in _TOTALS:
            found = [v * f for mark, f in marks.items() for n, v in events.items() if mark in n]
            if found:
                sums, how = {"any": sum(found)}, text
                break
    if not sums:
        return (), _no_work(events)
    return tuple(
        MeasuredWork(work_class="vector", dtype=d, flops=round(v), how=how) for d, v in sums.items()
    ), ""


#: Events that count all formats together → what they count. AMD Zen (PMCx003; FMA = 2); Arm
#: Neoverse, where operations of SVE scale with the vector length.
_TOTALS: Final[tuple[tuple[dict[str, float], str], ...]] = (
    (
        {"fp_ret_sse_avx_ops.all": 1.0},
        "fp_ret_sse_avx_ops.all: single and double are not told apart",
    ),
    (
        {"fp_fixed_ops_spec": 1.0, "fp_scale_ops_spec": 1.0},
        "fp_fixed_ops_spec + fp_scale_ops_spec x vector length/128, taken as 128 bits: a lower "
        "limit; single and double are not told apart",
    ),
)


def _no_work(events: Mapping[str, float]) -> str:
    if any("amx_ops_retired" in name for name in events):
        return "amx_ops_retired counts operations by a factor that its maker withdrew; give --flops"
    return (
        "no events of floating-point work (fp_arith_inst_retired.*, fp_ret_sse_avx_ops.all, "
        "fp_fixed_ops_spec); 'gambrel collect perf' prints the command"
    )


def _traffic(events: Mapping[str, float]) -> list[MeasuredTraffic]:
    imc = [n for n in events if any(mark in n for mark in _REQUESTS)]
    reads = [n for n in imc if n.rstrip("/").endswith(("read", "rd"))]
    writes = [n for n in imc if n.rstrip("/").endswith(("write", "wr"))]
    found = []
    if reads and writes:
        # perf scales the alias of Intel to MiB itself, the raw event (unc_m_cas_count.rd) not; by
        # now all are bytes.
        total = sum(events[n] for n in (*reads, *writes))
        how = "memory controllers, the whole system"
        found.append(MeasuredTraffic(level="DRAM", traffic_bytes=round(total), how=how))
    else:
        found += _lines(events)
    if "l1d.replacement" in events:
        found.append(
            MeasuredTraffic(
                level="L2",
                traffic_bytes=round(events["l1d.replacement"] * _LINE_BYTES),
                how="l1d.replacement x 64: lines loaded, write-backs left out",
            )
        )
    return found


#: Lines that came from memory, where there is no counter of the controllers; writes are left out.
_FROM_MEMORY: Final = (
    "ls_any_fills_from_sys.dram_io_all",
    "ls_any_fills_from_sys.mem_io_local",
    "ll_cache_miss_rd",
    "longest_lat_cache.miss",
)


def _lines(events: Mapping[str, float]) -> list[MeasuredTraffic]:
    beats = [v for n, v in events.items() if "dram_channel_data_controller" in n]
    if beats:  # AMD Zen 2 and 3: beats of each channel, read and written
        size, how = sum(beats) * _LINE_BYTES, "amd_df channel data beats x 64"
        return [MeasuredTraffic(level="DRAM", traffic_bytes=round(size), how=how)]
    name = next((n for n in _FROM_MEMORY if n in events), None)
    if name is None:
        return []
    size, how = events[name] * _LINE_BYTES, f"{name} x 64: lines read, write-backs left out"
    return [MeasuredTraffic(level="DRAM", traffic_bytes=round(size), how=how)]
