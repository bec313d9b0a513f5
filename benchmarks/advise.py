"""Cold start of the advising commands, and comparing over the whole catalog."""

from __future__ import annotations

import os
import resource
import sys

from common import alternate, report, run, spread
from gambrel.device.catalog import list_devices

ROUNDS = 5
COMMANDS = {
    "gambrel select yolov8n --latency 33ms --power 10W": [
        "select", "yolov8n", "--latency", "33ms", "--power", "10W",
    ],
    "gambrel select resnet50 --throughput 3000/s": [
        "select", "resnet50", "--throughput", "3000/s",
    ],
    "gambrel compare yolov8n --hardware all --batch 1,8,64": [
        "compare", "yolov8n", "--hardware", "all", "--batch", "1,8,64",
    ],
    "gambrel check resnet18 --hardware h100 --latency 10ms": [
        "check", "resnet18", "--hardware", "h100", "--latency", "10ms",
    ],
    "gambrel check llama-3-70b --hardware h100 --latency 10ms": [
        "check", "llama-3-70b", "--hardware", "h100", "--latency", "10ms",
    ],
    "gambrel what-if resnet50 --hardware a100 --change precision=int8": [
        "what-if", "resnet50", "--hardware", "a100", "--change", "precision=int8",
    ],
    "gambrel analyze resnet50 --hardware a100 --recommend": [
        "analyze", "resnet50", "--hardware", "a100", "--recommend",
    ],
}  # fmt: skip


def main() -> None:
    memory: dict[str, int] = {}
    busy: dict[str, list[float]] = {name: [] for name in COMMANDS}

    def once(name: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, peak = run([sys.executable, "-m", "gambrel", *COMMANDS[name]], accepted=(0, 1))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy[name].append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        memory[name] = max(peak, memory.get(name, 0))
        return seconds

    for name in COMMANDS:
        once(name)  # fills the file cache and writes bytecode
    found = alternate({name: lambda n=name: once(n) for name in COMMANDS}, ROUNDS)
    rows = [
        [name, spread(times), spread(busy[name]), f"{memory[name] / 1e6:.0f}"]
        for name, times in found.items()
    ]
    devices = len(list_devices())
    report(
        "advise",
        "Advice",
        ["command", "ms: min / median / max", "ms of CPU", "peak MB"],
        rows,
        notes=[
            f"{ROUNDS} rounds, all commands in turn within one run; processes start cold.",
            f"select judges {devices} devices and power modes; compare {devices} devices × 3 "
            f"batches = {devices * 3:,} points.",
            f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: above the number of "
            "cores the wall-clock times are those of a shared machine; CPU times are less so.",
            "Targets: select and compare over the whole catalog, and a failed check of a model of "
            "70 B parameters with the search for what would make it pass, in under 2 s.",
        ],
    )


if __name__ == "__main__":
    main()
