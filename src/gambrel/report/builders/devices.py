"""The list of devices."""

from __future__ import annotations

from functools import partial

from gambrel.report.answers import Devices
from gambrel.report.blocks import (
    DataTable,
    Document,
    amount,
    figures,
    ratio,
    section,
    sections,
    words,
)
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_si


def document(found: Devices, _options: Options) -> Document:
    """One line a device."""
    rows = found.devices
    if not rows:
        return Document(title="No device matches. Run 'gambrel hardware list' to see all.")
    columns = (
        words("device", (r.id for r in rows), "id", minimum=18),
        words("name", (r.name for r in rows), "name", priority=8, minimum=20),
        words("class", (r.category for r in rows), "category", priority=6),
        figures("year", (r.year for r in rows), _year, "year", priority=7),
        words("format", (r.precision for r in rows), "precision", priority=1),
        figures("dense", (r.peak_flop_per_s for r in rows), amount, "peak_flop_per_s"),
        figures("byte/s", (r.peak_byte_per_s for r in rows), amount, "peak_byte_per_s"),
        figures("ridge", (r.ridge_point for r in rows), ratio, "ridge_point", priority=2),
        figures(
            "memory",
            (r.capacity_bytes for r in rows),
            format_capacity,
            "capacity_bytes",
            priority=3,
        ),
        figures("TDP", (r.tdp_w for r in rows), partial(format_si, unit="W"), "tdp_w", priority=4),
    )
    foot = (
        "Peaks are dense FLOP/s (integer: OP/s) in the format shown; unknown means that the device "
        "has no such roof or publishes none."
    )
    return Document(
        title=f"{len(rows)} devices",
        sections=sections(section(DataTable(columns=columns, note=foot, all=True))),
    )


def _year(value: int | None) -> str:
    return str(value or "unknown")
