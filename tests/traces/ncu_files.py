"""Writes one set of kernels as Nsight Compute's versions, shells and spreadsheets write it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field

#: Group separator and decimal mark of the shells that export.
LOCALES = {"C": ("", "."), "en_US": (",", "."), "de_DE": (".", ","), "fr_FR": ("\u202f", ",")}
LAYOUTS = ("long", "long_old", "details", "wide")
UNITS = ("base", "old", "auto")

_FIRST = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name"]
_MODERN = ["Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
_METRIC = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
_RULE = ["Rule Name", "Rule Type", "Rule Description"]
_OLD = {"byte": "byte", "ns": "nsecond", "byte/s": "byte/second", "hz": "cycle/second"}
_AUTO = {
    "byte": ("Mbyte", 1e6),
    "ns": ("us", 1e3),
    "byte/s": ("Gbyte/s", 1e9),
    "hz": ("Ghz", 1e9),
}


@dataclass
class Kernel:
    """One launch; metrics in base units as ``name: (value, unit)``."""

    name: str
    metrics: dict[str, tuple[float, str]]
    cc: str = "8.0"
    grid: str = "(64, 1, 1)"
    block: str = "(256, 1, 1)"
    process: str = "4242"
    texts: dict[str, str] = field(default_factory=dict)


def number(value: float, locale: str, digits: int | None = None) -> str:
    group, decimal = LOCALES[locale]
    if digits is None:
        digits = 0 if float(value).is_integer() else 2
    text = f"{value:,.{digits}f}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", group)


def cell(value: float, unit: str, locale: str, units: str) -> tuple[str, str]:
    if units == "auto" and unit in _AUTO:
        label, factor = _AUTO[unit]
        return number(value / factor, locale, 6), label
    if units == "old":
        unit = _OLD.get(unit, unit)
    return number(value, locale), unit


def write(
    kernels: list[Kernel],
    layout: str = "long",
    locale: str = "C",
    units: str = "base",
    quoting: int = csv.QUOTE_ALL,
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator="\n")
    {"wide": _wide}.get(layout, _long)(writer, kernels, layout, locale, units)
    return out.getvalue()


def _first(i: int, k: Kernel) -> list[str]:
    return [str(i), k.process, "app", "127.0.0.1", k.name]


def _long(writer, kernels, layout, locale, units):
    middle = ["Kernel Time", "Context", "Stream"] if layout == "long_old" else _MODERN
    rules = _RULE if layout == "details" else []
    writer.writerow([*_FIRST, *middle, *_METRIC, *rules])
    for i, k in enumerate(kernels):
        old = ["2021-Jun-01 10:00:00", "1", "7"]
        info = _first(i, k) + (
            old if layout == "long_old" else ["1", "7", k.block, k.grid, "0", k.cc]
        )
        for name, (value, unit) in k.metrics.items():
            text, label = cell(value, unit, locale, units)
            shown = f"Some Label ({name})" if layout == "details" else name
            writer.writerow([*info, "Command line profiler metrics", shown, label, text])
        for name, text in k.texts.items():
            writer.writerow([*info, "Command line profiler metrics", name, "", text])
        if layout == "details":
            text = 'Achieved, "half"\nof the peak.'
            writer.writerow([*info, "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", text])


def _wide(writer, kernels, layout, locale, units):
    names = list(dict.fromkeys(n for k in kernels for n in (*k.metrics, *k.texts)))
    labels = {n: cell(1, u, locale, units)[1] for k in kernels for n, (_, u) in k.metrics.items()}
    writer.writerow([*_FIRST, *_MODERN, *names])
    writer.writerow([""] * 11 + [labels.get(n, "") for n in names])
    for i, k in enumerate(kernels):
        row = [*_first(i, k), "1", "7", k.block, k.grid, "0", k.cc]
        for n in names:
            if n in k.texts:
                row.append(k.texts[n])
            else:
                row.append(cell(*k.metrics[n], locale, units)[0] if n in k.metrics else "")
        writer.writerow(row)


def thread(name: str, value: float) -> dict[str, tuple[float, str]]:
    return {f"sm__sass_thread_inst_executed_op_{name}_pred_on.sum": (value, "inst")}


def fp32(add: float, mul: float, fma: float) -> dict[str, tuple[float, str]]:
    return thread("fadd", add) | thread("fmul", mul) | thread("ffma", fma)


def time_ns(value: float) -> dict[str, tuple[float, str]]:
    return {"gpu__time_duration.sum": (value, "ns")}


def dram(value: float) -> dict[str, tuple[float, str]]:
    return {"dram__bytes.sum": (value, "byte")}
