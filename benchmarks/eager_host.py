"""Microseconds that the host of eager PyTorch takes per launch, from runs timed without the GPU.

    python benchmarks/eager_host.py

Rows are those of benchmarks/data/jetson/eager.csv; timm, which builds the networks, is needed.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from pathlib import Path

import gambrel

ROWS = Path(__file__).parent / "data/jetson/eager.csv"


def main() -> None:
    """Prints each network and host, and the median of each host."""
    found: dict[str, list[float]] = defaultdict(list)
    with ROWS.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            count = launches(row["model"])
            each = float(row["ms"]) * 1e3 / count
            found[row["host"]].append(each)
            print(f"{row['model']:28} {row['host']:18} {count:4} launches {each:6.1f} us")
    for host, times in found.items():
        low, high = min(times), max(times)
        print(f"{host}: median {statistics.median(times):.1f} us, {low:.0f} to {high:.0f}")


def launches(model: str) -> int:
    """Kernels that eager PyTorch starts for one image."""
    workload = gambrel.load_model(model, batch_size=1)
    analysis = gambrel.analyze(workload, "jetson-orin-nano-8gb", runtime="pytorch")
    return sum(int(op.count) for op in analysis.ops)


if __name__ == "__main__":
    main()
