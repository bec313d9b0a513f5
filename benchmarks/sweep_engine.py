"""The engine of sweeps: points per second, cost of a task, bytes per point, two workers.

Three sizes each, so that the constants of docs/scale.md are slopes rather than single readings.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import tempfile
import time
from pathlib import Path

from tests.engine.small import Small

from common import report
from gambrel.analysis.question import ask
from gambrel.api.sweep_cases import work_of
from gambrel.engine.run import RunRequest, run
from gambrel.engine.save import save

SIZES = (1024, 4096, 16384)
TASKS = (25, 100, 400)
REPEATS = 3


def main() -> None:
    rows: list[list[str]] = []
    for batches in SIZES:
        rows.append(points(batches))
    for tasks in TASKS:
        rows.append(overhead(tasks))
    rows.append(speed_up())
    report(
        "sweep_engine",
        "Engine of sweeps",
        ["what", "size", "seconds", "figure"],
        rows,
        notes=[
            "Points: ResNet-50 x h100, a100, l4, v100, mi300x x fp16, fp32 x batches under "
            "PyTorch, written to Parquet; seconds of the processor of this process.",
            "Tasks: partitions of ten points through dask.distributed; scheduler, client and one "
            "worker in one process, seconds of the processor.",
            f"Speed-up: the same sweep of {SIZES[-1]:,} batches with one and with two local "
            f"processes, wall time, median of {REPEATS}; load average at the end "
            f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.",
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


def points(batches: int) -> list[str]:
    work = work_of(asked(batches))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "points.parquet"
        began = time.process_time()
        save(work, RunRequest(), target)
        seconds = time.process_time() - began
        nbytes = sum(p.stat().st_size for p in target.iterdir())
    rate, each = work.points / seconds, nbytes / work.points
    return ["points", f"{work.points:,}", f"{seconds:.2f}", f"{rate:,.0f}/s, {each:.1f} B each"]


def overhead(tasks: int) -> list[str]:
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
        seconds = time.process_time() - began
    return ["tasks", f"{tasks:,}", f"{seconds:.2f}", f"{seconds / tasks * 1e3:.2f} ms each"]


def speed_up() -> list[str]:
    work = work_of(asked(SIZES[-1]))
    one, two = [], []
    from distributed import Client, LocalCluster

    for jobs, times in ((1, one), (2, two)):
        with (
            LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            run(Small(points=100), RunRequest(scheduler=client))
            for i in range(REPEATS):
                began = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    save(work, RunRequest(scheduler=client), Path(folder) / f"p{i}.parquet")
                times.append(time.perf_counter() - began)
    first, second = statistics.median(one), statistics.median(two)
    return ["2 workers", f"{work.points:,}", f"{second:.2f}", f"{first / second:.2f} x one"]


if __name__ == "__main__":
    main()
