"""The output of likwid-perfctr, as printed or as CSV (``-O``): one sample a group and region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.source import TextFile, csv_rows

#: Larger values are damage.
_LARGEST: Final = 1e30
_FORMATS: Final = {"DP": "fp64", "SP": "fp32", "HP": "fp16"}
_LEVELS: Final = {"Memory": "DRAM", "L3": "LLC", "L2": "L2"}


#: Between the tables of a group: ``Region triad, Group 1: MEM_DP``.
_TITLE: Final = re.compile(r"(?:Region .{1,200}, )?Group \d+: \S+")
_CPU: Final = "CPU name:"
#: What the title of a table says beyond its region and group.
_KIND: Final = re.compile(r" (?:Raw|Metric)\b| STAT\b", re.IGNORECASE)


def is_likwid(text: str) -> bool:
    """Whether text is the output of likwid-perfctr, as CSV or as printed."""
    if text.startswith(("TABLE,", "STRUCT,")) or "likwid" in text[:2000].lower():
        return True
    return "| Runtime (RDTSC) [s]" in re.sub(r"\|\s+", "| ", text)


def read(path: Path) -> Samples:
    """Reads the derived metrics of each table: rates, volumes, time.

    Raises:
        FileFormatError: Not readable, or without metrics.
    """
    tables: dict[str, dict[str, float]] = {}
    name, device = path.stem, ""
    for _, row in csv_rows(_as_csv(TextFile(path)), path):
        if row[0] == "TABLE":
            title = " ".join(dict.fromkeys(c for c in row[1:4] if c and not c.isdecimal()))
            name = _KIND.sub("", title) or name
        elif row[0] == _CPU:
            device = row[1].strip() if len(row) > 1 else ""
        elif len(row) >= 2 and (value := _value(row)) is not None:
            # The table of sums ("... STAT") comes after that of single threads and says the same.
            tables.setdefault(name, {}).setdefault(row[0].removesuffix(" STAT"), value)
    samples = [s for n, m in tables.items() if (s := _sample(n, m)) is not None]
    if not samples:
        raise FileFormatError(f"{path}: no metric with FLOP/s or a data volume.")
    return Samples(
        format="likwid",
        sources=(str(path),),
        launches=tuple(samples),
        device_name=device,
        on_processor=True,
    )


def _as_csv(lines: Iterable[str]) -> Iterator[str]:
    """Printed lines as those of the CSV; others as they are."""
    for line in lines:
        text = line.strip()
        if text.startswith("|") and text.endswith("|"):
            yield ",".join(cell.strip() for cell in text.strip("|").replace(",", ".").split("|"))
        elif _TITLE.fullmatch(text):
            yield f"TABLE,{text.replace(', ', ',').replace(': ', ',')}"
        elif text.startswith(_CPU):
            yield f"{_CPU},{text.removeprefix(_CPU).lstrip(' ,').replace(',', ' ')}"
        elif '"' not in text:
            yield line


def _value(row: list[str]) -> float | None:
    """Sum over threads for what adds up, the longest time for the time."""
    numbers = []
    for cell in row[1:]:
        try:
            value = float(cell)
        except ValueError:
            continue
        if 0 <= value <= _LARGEST:
            numbers.append(value)
    if not numbers:
        return None
    if row[0].endswith(" STAT"):  # sum, minimum, maximum, average
        return numbers[2] if row[0].startswith("Runtime") and len(numbers) > 2 else numbers[0]
    return max(numbers) if row[0].startswith("Runtime") else sum(numbers)


def _sample(name: str, metrics: Mapping[str, float]) -> Sample | None:
    time = next((v for n, v in metrics.items() if n.startswith("Runtime") and v > 0), None)
    work, traffic = [], []
    for label, value in metrics.items():
        head = label.partition(" ")[0]
        if head in _FORMATS and "FLOP/s" in label and time:
            scale = 1e9 if "GFLOP" in label else 1e6
            flops = round(value * scale * time)
            how = f"likwid {label} x time"
            work.append(
                MeasuredWork(work_class="vector", dtype=_FORMATS[head], flops=flops, how=how)
            )
        elif "data volume [GBytes]" in label and head in _LEVELS and label.count("volume") == 1:
            if "load" in label or "evict" in label or "read" in label or "write" in label:
                continue
            traffic.append(
                MeasuredTraffic(
                    level=_LEVELS[head], traffic_bytes=round(value * 1e9), how=f"likwid {label}"
                )
            )
    if not work and not traffic:
        return None
    return Sample(
        name=name,
        time_s=time,
        state=Known.COUNTED if work else Known.MISSING,
        why="" if work else "the group has no FLOP/s",
        work=tuple(work),
        traffic=tuple(traffic),
    )
