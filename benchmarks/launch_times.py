"""Microseconds that a host takes per launch, from runs in which the GPU waits for it.

    python benchmarks/launch_times.py

Eager PyTorch: benchmarks/data/jetson/eager.csv, timed without the GPU; timm, which builds the
networks, is needed. ONNX Runtime: BERT of up to 32 tokens in benchmarks/data/ort/rows.csv, less the
time that a run takes whatever it launches.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gambrel
from gambrel.device.lookup import find
from gambrel.runtimes import runtime

DATA = Path(__file__).parent / "data"
#: Most tokens of a BERT whose kernels take less than their launches.
SHORT = 32


def main() -> None:
    """Prints each network and host, and the median of each host."""
    found: dict[str, list[float]] = defaultdict(list)
    for what, host, seconds, count in (*eager(), *executor()):
        each = seconds * 1e6 / count
        found[host].append(each)
        print(f"{what:28} {host:18} {count:4} launches {each:6.1f} us")
    for host, times in found.items():
        low, high = min(times), max(times)
        print(f"{host}: median {statistics.median(times):.1f} us, {low:.0f} to {high:.0f}")


def eager() -> Iterator[tuple[str, str, float, int]]:
    """Network, host, seconds and launches under eager PyTorch."""
    for row in _rows("jetson/eager.csv"):
        count = launches(row["model"], "jetson-orin-nano-8gb", "pytorch")
        yield row["model"], row["host"], float(row["ms"]) * 1e-3, count


def executor() -> Iterator[tuple[str, str, float, int]]:
    """The same under ONNX Runtime, beside a V100."""
    name = "onnxruntime-cuda"
    executing = runtime(name)
    for row in _rows("ort/rows.csv"):
        short = row["model"] == "bert-base" and int(row["value"]) <= SHORT
        if not short or row["precision"] != "fp16":
            continue
        sizes = {"batch": int(row["batch"]), "seq": int(row["value"])}
        count = launches(row["model"], row["device"], name, sizes)
        host = executing.host_on(find(row["device"]).device)
        fixed = host.per_run_s if host else 0.0
        what = f"{row['model']} {row['batch']} x {row['value']}"
        yield what, name, float(row["ms"]) * 1e-3 - fixed, count


def launches(model: str, device: str, name: str, sizes: dict[str, int] | None = None) -> int:
    """Kernels that one run starts."""
    return gambrel.analyze(model, device, runtime=name, sizes=sizes or {"batch": 1}).launches


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    main()
