"""What sweeps and fleets cost at any size: arithmetic on the constants of sweep_engine.py.

    python benchmarks/scale.py

The tables of docs/scale.md are those of benchmarks/results/scale.md.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

from gambrel.analysis.sweep.work import FAST, LEAST_FAST, SHARES
from gambrel.engine.work import MOST_PARTITIONS
from gambrel.measure.fleet.run import MOST_HOSTS

DATA = Path(__file__).with_name("data") / "scale.json"
POINTS = (10**6, 10**7, 10**8, 10**10)
DEVICES = (100, 10**4, 10**5)
CORES = 64
#: Bytes of a point in a partition's columns: 15 of 8 bytes at most.
IN_MEMORY = 15 * 8
#: Devices of a host, seconds and messages of each, bytes of its JSON.
PER_HOST, DEVICE_S, MESSAGES, JSON_BYTES = 8, 30.0, 4, 1000


class Constants(NamedTuple):
    """What a point and a task cost, s of a processor and bytes.

    Attributes:
        point_s: Seconds of a point.
        point_bytes: Bytes of it in Parquet.
        task_s: Seconds of scheduler, client and worker for a task.
    """

    point_s: float
    point_bytes: float
    task_s: float


def constants() -> Constants:
    """Those of the largest size that was measured."""
    data = json.loads(DATA.read_text())
    count, seconds, nbytes = data["points"][-1]
    tasks, task_seconds = data["tasks"][-1]
    return Constants(
        point_s=seconds / count, point_bytes=nbytes / count, task_s=task_seconds / tasks
    )


def partition(points: int) -> int:
    """Points of a partition of a sweep by array arithmetic."""
    shared = min(FAST, max(LEAST_FAST, math.ceil(points / SHARES)))
    return max(shared, math.ceil(points / MOST_PARTITIONS))


def sweep_row(points: int, c: Constants) -> list[str]:
    """Partitions, seconds on one core and on many, overhead, bytes."""
    size = partition(points)
    parts = math.ceil(points / size)
    work, tasks = points * c.point_s, parts * c.task_s
    # The last round of a few partitions leaves workers idle.
    rounds = math.ceil(parts / CORES)
    return [
        f"{points:.0e}".replace("e+0", "e").replace("e+", "e"),
        f"{parts:,}",
        duration(work),
        duration(max(rounds * size * c.point_s, tasks)),
        f"{tasks / work:.2%}",
        amount(points * c.point_bytes),
        amount(size * IN_MEMORY),
    ]


def fleet_row(devices: int, c: Constants) -> list[str]:
    """Hosts, seconds, messages, bytes."""
    hosts = math.ceil(devices / PER_HOST)
    rounds = math.ceil(hosts / MOST_HOSTS)
    messages = MESSAGES * devices
    return [
        f"{devices:,}",
        f"{hosts:,}",
        duration(max(rounds * PER_HOST * DEVICE_S, messages * c.task_s)),
        f"{messages:,}",
        duration(messages * c.task_s),
        amount(devices * JSON_BYTES),
    ]


def duration(seconds: float) -> str:
    """Two digits in the unit that people would use."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


def amount(nbytes: float) -> str:
    """Two digits with a decimal prefix."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if nbytes >= 0.1 * size:
            return f"{float(f'{nbytes / size:.2g}'):g} {unit}"
    return f"{nbytes:.0f} B"


def tables() -> list[tuple[str, list[str], list[list[str]]]]:
    """Heading, columns and rows of each."""
    c = constants()
    sweeps = ["points", "partitions", "one core", f"{CORES} cores", "overhead of tasks"]
    fleets = ["devices", f"hosts of {PER_HOST}", "time with `--quick`", "messages"]
    return [
        (
            "Sweeps",
            [*sweeps, "Parquet", "a partition in memory"],
            [sweep_row(points, c) for points in POINTS],
        ),
        (
            "Fleets",
            [*fleets, "of them the scheduler's time", "JSON"],
            [fleet_row(devices, c) for devices in DEVICES],
        ),
    ]


def main() -> None:
    from common import report

    (_, heads, rows), (_, fleet_heads, fleet_rows) = tables()
    c = constants()
    notes = [
        f"A point {c.point_s * 1e6:.2g} us and {c.point_bytes:.0f} bytes, a task "
        f"{c.task_s * 1e3:.2g} ms: the largest sizes in "
        "benchmarks/data/scale.json (benchmarks/sweep_engine.py).",
        f"Fleets, {', '.join(fleet_heads)}: "
        + "; ".join(", ".join(row) for row in fleet_rows)
        + ".",
    ]
    report("scale", "Sweeps and fleets at any size, on paper", heads, rows, notes=notes)


if __name__ == "__main__":
    main()
