"""How well runs of `gambrel peaks` agree: fresh processes one after another, nothing stored.

Give the numbers of full and of quick runs; `--keep FOLDER` adds to the records of an earlier call,
so that a long series can be measured in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from common import report

#: Runs should agree within this, highest to lowest.
TARGET = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("full", type=int, nargs="?", default=10)
    parser.add_argument("quick", type=int, nargs="?", default=10)
    parser.add_argument("--keep", type=Path, help="Folder of the records.")
    parser.add_argument("--note", action="append", default=[], help="A line below the table.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = options.keep or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        for kind, count in (("full", options.full), ("quick", options.quick)):
            for _ in range(count):
                run(kind, folder)
        kinds = {
            k: [json.loads(p.read_text()) for p in sorted(folder.glob(f"{k}-*.json"))]
            for k in ("full", "quick")
        }
    table({k: records for k, records in kinds.items() if len(records) > 1}, options.note)


def run(kind: str, folder: Path) -> None:
    """One run in a process of its own, without stored results."""
    command = [sys.executable, "-m", "gambrel", "peaks", "--refresh", "--json"]
    with tempfile.TemporaryDirectory() as cache:
        begun = time.time()
        done = subprocess.run(
            [*command, *(["--quick"] if kind == "quick" else [])],
            env=os.environ | {"XDG_CACHE_HOME": cache},
            capture_output=True,
            check=True,
        )
        record = json.loads(done.stdout) | {"seconds": time.time() - begun}
    (folder / f"{kind}-{time.time_ns()}.json").write_text(json.dumps(record))


def figures(records: list[dict]) -> dict[tuple[str, ...], list[dict]]:
    """Measurements of all runs by what they are of."""
    found = defaultdict(list)
    for record in records:
        for m in record["survey"]["measurements"]:
            name = f"{m['resource']} {m.get('dtype', '')}".strip()
            found[name, m["mix"], str(m["threads"])].append(m)
    return {k: v for k, v in found.items() if len(v) == len(records)}


def roofs(records: list[dict]) -> dict[tuple[str, ...], list[dict]]:
    """The roofs that an analysis takes: the best of the mixes, all cores."""
    found = defaultdict(list)
    for record in records:
        device = record["device_record"]
        for c in device["ceilings"]:
            found[f"{c['engine']} {c['dtype']}", "roof", ""].append({"value": c["flop_per_s"]})
        for level in device["memory"]:
            if level.get("byte_per_s"):
                found[level["name"], "roof", ""].append({"value": level["byte_per_s"]})
    return found


def apart(values: list[float]) -> float:
    return (max(values) - min(values)) / max(values)


def covered(found: list[dict]) -> int:
    """Runs whose own spread reaches from their figure to the median of all runs."""
    middle = statistics.median(m["value"] for m in found)
    return sum(abs(m["value"] - middle) <= m.get("spread", 0) * m["value"] for m in found)


def table(kinds: dict[str, list[dict]], said: list[str]) -> None:
    rows, notes = [], []
    for kind, records in kinds.items():
        known = roofs(records) | figures(records)
        loads = [r["survey"]["load"] for r in records]
        within = [
            name for name, found in known.items() if apart([m["value"] for m in found]) <= TARGET
        ]
        notes.append(
            f"{kind}: {len(records)} runs of {min(r['seconds'] for r in records):.0f} to "
            f"{max(r['seconds'] for r in records):.0f} s, load {min(loads):.1f} to "
            f"{max(loads):.1f} when they began; {len(within)} of {len(known)} figures agree within "
            f"{TARGET:.0%}."
        )
        for name, found in known.items():
            values = [m["value"] for m in found]
            cycles = [m["per_cycle"] for m in found if m.get("per_cycle")]
            spreads = [m.get("spread", 0) for m in found]
            rows.append(
                [
                    kind,
                    *name,
                    f"{min(values):.4g}",
                    f"{max(values):.4g}",
                    f"{apart(values):.1%}",
                    f"{apart(cycles):.1%}" if cycles else "",
                    f"{statistics.median(spreads):.1%}" if name[1] != "roof" else "",
                    f"{covered(found)}/{len(found)}" if name[1] != "roof" else "",
                ]
            )
    report(
        "peaks_repeat",
        "How well runs of gambrel peaks agree",
        [
            "run",
            "figure",
            "mix",
            "threads",
            "lowest",
            "highest",
            "max to min",
            "per cycle",
            "spread",
            "covered",
        ],
        rows,
        notes=[
            *notes,
            *said,
            "FLOP/s and B/s. Max to min: (highest - lowest) / highest over the runs; per cycle: "
            "the same of the figures per clock cycle. Spread: what a run says of itself, the "
            "median of the runs; covered: runs whose spread reaches to the median of the runs.",
        ],
    )


if __name__ == "__main__":
    main()
