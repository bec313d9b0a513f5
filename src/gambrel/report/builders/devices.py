"""The list of devices."""

from __future__ import annotations

from functools import partial

from gambrel.report.answers import Devices
from gambrel.report.blocks import (
    Document,
    amount,
    col,
    ratio,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_count, format_si


def document(found: Devices, _options: Options) -> Document:
    """One line a device."""
    rows = found.devices
    if not rows:
        return Document(title="No device matches. Run 'gambrel hardware list' to see all.")
    foot = (
        "Peaks are dense FLOP/s (integer: OP/s) in the format shown; unknown means that the device "
        "has no such roof or publishes none."
    )
    table = table_of(
        rows,
        col("device", "id", minimum=18),
        col("name", "name", priority=8, minimum=20),
        col("class", "category", priority=6),
        col("year", "year", _year, 7),
        col("format", "precision", priority=1),
        col("dense", "peak_flop_per_s", amount),
        col("byte/s", "peak_byte_per_s", amount),
        col("ridge", "ridge_point", ratio, 2),
        col("memory", "capacity_bytes", format_capacity, 3),
        col("TDP", "tdp_w", partial(format_si, unit="W"), 4),
        note=foot,
        all=True,
        listing=True,
    )
    return Document(title=format_count(len(rows), "device"), sections=sections(section(table)))


def _year(value: int | None) -> str:
    return str(value or "unknown")
