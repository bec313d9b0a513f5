"""The engine of sweeps: points per second, cost of a task, bytes per point, two workers.

    python benchmarks/sweep_engine.py

Three sizes each, so that the constants of docs/scale.md are slopes rather than single readings.
Everything is in seconds of the processor, which other processes do not change: what two workers
save follows from what both of them, the scheduler and the client use together. The constants go to
benchmarks/data/scale.json, from which benchmarks/scale.py computes the tables of that page.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.engine.small import Small

from common import report
from gambrel.analysis.question import ask
from gambrel.api.sweep_cases import work_of
from gambrel.engine.run import RunRequest, run
from gambrel.engine.save import save
from gambrel.engine.work import PointWork

SIZES = (1024, 4096, 16384)
TASKS = (25, 100, 400)
REPEATS = 3
DATA = Path(__file__).with_name("data") / "scale.json"


def main() -> None:
    rows: list[list[str]] = []
    constants: dict[str, list[list[float]]] = {"points": [], "tasks": []}
    for batches in SIZES:
        count, seconds, nbytes = points(batches)
        constants["points"].append([count, seconds, nbytes])
        rate = f"{count / seconds:,.0f}/s, {nbytes / count:.1f} B each"
        rows.append(["points", f"{count:,}", f"{seconds:.2f}", rate])
    for tasks in TASKS:
        seconds = overhead(tasks)
        constants["tasks"].append([tasks, seconds])
        rows.append(
            ["tasks", f"{tasks:,}", f"{seconds:.2f}", f"{seconds / tasks * 1e3:.2f} ms each"]
        )
    rows += workers()
    DATA.write_text(json.dumps(constants, indent=1) + "\n")
    report(
        "sweep_engine",
        "Engine of sweeps",
        ["what", "size", "seconds of the processor", "figure"],
        rows,
        notes=[
            "Points: ResNet-50 x h100, a100, l4, v100, mi300x x fp16, fp32 x batches under "
            "PyTorch, written to Parquet; this process.",
            "Tasks: partitions of ten points through dask.distributed; scheduler, client and one "
            "worker in one process.",
            f"Workers: the sweep of {SIZES[-1]:,} batches by one and by two processes, median of "
            f"{REPEATS} runs after a first one; the overhead is what scheduler and client use. Two "
            "processors that also run these are at best faster by one worker's seconds over half "
            "of all seconds with two.",
        ],
    )


def asked(batches: int):
    return ask(
        "sweep",
        {
            "model": "resnet50",
            "hardware": "h100,a100,l4,v100,mi300x",
            "precision": "fp16,fp32",
            "batch_size": f"1:{batches}",
            "runtime": "pytorch",
        },
    )


def points(batches: int) -> tuple[int, float, int]:
    """Points, seconds and bytes of a sweep that is written."""
    work = work_of(asked(batches))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "points.parquet"
        began = time.process_time()
        save(work, RunRequest(), target)
        seconds = time.process_time() - began
        nbytes = sum(p.stat().st_size for p in target.iterdir())
    return work.points, seconds, nbytes


def overhead(tasks: int) -> float:
    """Seconds that tasks cost the scheduler, the client and a worker."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        run(Small(points=100), RunRequest(scheduler=client))
        began = time.process_time()
        run(Small(points=10 * tasks), RunRequest(scheduler=client))
        return time.process_time() - began


def workers() -> list[list[str]]:
    """What one and two processes use for the same sweep, and the scheduler with its client."""
    work = work_of(asked(SIZES[-1]))
    used = {jobs: by_processes(work, jobs) for jobs in (1, 2)}
    one, (two, around) = used[1][0], used[2]
    rows = [
        [
            f"{jobs} worker{'s' * (jobs > 1)}",
            f"{work.points:,}",
            f"{own:.2f}",
            f"overhead {over / own:.1%}",
        ]
        for jobs, (own, over) in used.items()
    ]
    gain = one / ((two + around) / 2)
    return [*rows, ["2 workers over 1", f"{work.points:,}", f"{two + around:.2f}", f"{gain:.2f} x"]]


def by_processes(work: PointWork, jobs: int) -> tuple[float, float]:
    """Seconds of the workers, and of scheduler and client."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        inside, outside = [], []
        for i in range(REPEATS + 1):
            before, began = client.run(time.process_time), time.process_time()
            save(work, RunRequest(scheduler=client), Path(folder) / f"p{i}.parquet")
            outside.append(time.process_time() - began)
            after = client.run(time.process_time)
            inside.append(sum(after[name] - before[name] for name in after))
        # The first run imports what is needed and loads the model, in each worker.
        return statistics.median(inside[1:]), statistics.median(outside[1:])


if __name__ == "__main__":
    main()
