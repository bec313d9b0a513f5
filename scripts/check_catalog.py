"""Checks the hardware catalog; prints a table and exits 1 on a violation.

    python scripts/check_catalog.py

Per device: how many peaks were recomputed from units x clock x rate and the largest deviation, the
range of ridge points, how many sparse peaks and demonstrated rates, the on-chip memory (~ where it
is assumed), how many numbers by confidence. Then every finding: violations, and exceptions with
their reason.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter

from catalog_checks import Finding, check_device, formulas, numbers
from gambrel.device import catalog
from gambrel.device.model import Device
from gambrel.device.onchip import on_chip
from gambrel.units import format_capacity

HEADER = (
    *("device", "formulas", "worst", "ridge points", "sparse", "reached", "on chip"),
    *("P", "Q", "S", "D"),
)
LABELS = ("primary", "primary-quoted", "secondary", "derived")


def row(device: Device) -> tuple[str, ...]:
    deviations = [abs(f.deviation) for f in formulas(device)]
    dram = device.level("DRAM")
    rate = dram.byte_per_s if dram else None
    ridges = [c.flop_per_s / rate for c in device.ceilings] if rate else []
    chip = on_chip(device)
    labels = Counter(source.confidence for _, source in numbers(device) if source)
    return (
        device.id,
        str(len(deviations)),
        f"{max(deviations):.1%}" if deviations else "-",
        f"{min(ridges):.3g} .. {max(ridges):.4g}" if ridges else "-",
        str(sum(c.sparse_flop_per_s is not None for c in device.ceilings)),
        str(len(device.demonstrated)),
        ("~" if chip.assumed else "") + format_capacity(chip.capacity_bytes),
        *(str(labels[label]) for label in LABELS),
    )


def check_index(devices: tuple[Device, ...]) -> list[Finding]:
    """Ids and names are unique or explicitly ambiguous, and the index says what the files say."""
    shared = tomllib.loads(catalog.AMBIGUOUS_FILE.read_text(encoding="utf-8"))
    built = catalog.build_index(devices, shared)
    if built == catalog.index() and catalog.list_devices() == devices:
        return []
    message = "index.json or devices.json is out of date: run scripts/build_catalog.py --index"
    return [Finding(device="catalog", check="index", message=message)]


def main() -> int:
    devices = catalog.read_files()
    rows = [HEADER, *map(row, devices)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))
    print("P, Q, S, D: numbers whose source is primary, primary-quoted, secondary, derived\n")
    findings = [f for device in devices for f in check_device(device)] + check_index(devices)
    for finding in sorted(findings, key=lambda f: bool(f.reason)):
        label = f"exception ({finding.reason})" if finding.reason else "VIOLATION"
        print(f"{finding.device}: {finding.check}: {finding.message}: {label}")
    violations = sum(not f.reason for f in findings)
    print(f"\n{len(devices)} devices, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
