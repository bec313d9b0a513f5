"""Published throughput of servers that are full, against `serve-plan`.

    python benchmarks/offline.py

A row is seconds per output token and device where more requests wait than the memory holds. Such
runs say how many requests an engine keeps in flight beside how fast its steps are.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
from benchmarks.common import report

import gambrel
from gambrel.analysis.measures import Estimate
from gambrel.llm.sharding import Sharding

ROWS = Path(__file__).parent / "data" / "offline" / "rows.csv"


def rows() -> Iterator[dict[str, str]]:
    """The published runs."""
    with ROWS.open(newline="") as file:
        yield from csv.DictReader(file)


def expected(row: dict[str, str]) -> tuple[Estimate, int]:
    """Seconds per output token and device with their range, and the requests in flight."""
    devices = int(row["devices"])
    plan = gambrel.serve_plan(
        row["model"],
        row["device"],
        input=int(row["input"]),
        output=int(row["output"]),
        precision=[row["precision"]],
        arrivals="offline",
        runtime=row["engine"],
        sharding=Sharding(tensor=devices),
        max_devices=devices,
        max_requests=int(row["requests"] or 0) or None,
        utilization=float(row["utilization"] or 0) or None,
    )
    best = plan.best[0]
    assert best.tpot is not None  # all of these devices have constants
    scale = 1 / (best.point.tpot_s * best.point.tokens_per_s_per_device)
    found = msgspec.structs.replace(
        best.tpot,
        value=best.tpot.value * scale,
        low=best.tpot.low * scale,
        high=best.tpot.high * scale,
    )
    return found, best.point.batch


def main() -> None:
    """Prints the table and stores it."""
    groups = defaultdict[tuple[str, ...], list[tuple[float, bool]]](list)
    for row in rows():
        found, _ = expected(row)
        measured = float(row["seconds"])
        key = row["engine"], row["source"], row["model"], row["precision"]
        groups[key].append((found.value / measured, found.low <= measured <= found.high))
    report(
        "offline",
        "Throughput of full servers, expected against published",
        ["engine", "source", "model", "precision", "rows", "mean error", "median ratio", "inside"],
        [
            [
                *key,
                str(len(seen)),
                f"{statistics.mean(abs(ratio - 1) for ratio, _ in seen):.0%}",
                f"{statistics.median(ratio for ratio, _ in seen):.2f}",
                f"{statistics.mean(inside for _, inside in seen):.0%}",
            ]
            for key, seen in sorted(groups.items())
        ],
    )


if __name__ == "__main__":
    main()
