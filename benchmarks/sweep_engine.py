"""The engine of sweeps: points per second, cost of a task and of a point, two workers, 1e7 points.

    python benchmarks/sweep_engine.py [--wait 600] [--large]

Three sizes each, so that the constants of docs/scale.md are slopes rather than single readings.
Points and tasks are in seconds of the processor, which other processes hardly change. One worker
and two take turns; each turn waits (up to ``--wait`` seconds in all) until other processes leave
the processors alone, and says what share they had. ``--large`` runs 1e7 points as a user would and
watches the memory of all processes. The constants go to benchmarks/data/scale.json, from which
benchmarks/scale.py computes the tables of that page.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
from tests.engine.small import Small

from common import machine, report
from gambrel.analysis.question import ask
from gambrel.api.sweep_cases import work_of
from gambrel.engine.executors import client_of
from gambrel.engine.run import RunRequest, run
from gambrel.engine.save import save

SIZES = (4096, 16384, 65536)
TASKS = (25, 100, 400)
PAIRS = 5
#: Passes of the plain arithmetic that shows what two processors do at best.
ROUNDS = 2000
#: Share of the processors that others may have while something is measured by the wall clock.
QUIET = 0.1
#: Points of the large run, as batches of the ten combinations.
LARGE = 10**6
ASKED = {
    "model": "resnet50",
    "hardware": "h100,a100,l4,v100,mi300x",
    "precision": "fp16,fp32",
    "runtime": "pytorch",
}
DATA = Path(__file__).with_name("data") / "scale.json"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for quiet")
    parser.add_argument("--large", action="store_true", help="run 1e7 points as well")
    given = parser.parse_args()
    rows: list[list[str]] = []
    constants: dict[str, Any] = {
        "measured": f"benchmarks/sweep_engine.py, {machine()}, seconds of a processor",
        "points": [],
        "tasks": [],
    }
    points(SIZES[0])  # imports what is needed
    for batches in SIZES:
        count, seconds, nbytes = points(batches)
        constants["points"].append([count, round(seconds, 3), nbytes])
        rate = f"{count / seconds:,.0f}/s, {nbytes / count:.1f} B each"
        rows.append(["points", f"{count:,}", f"{seconds:.2f}", rate])
    for tasks in TASKS:
        seconds = overhead(tasks)
        constants["tasks"].append([tasks, round(seconds, 3)])
        each = f"{seconds / tasks * 1e3:.2f} ms each"
        rows.append(["tasks", f"{tasks:,}", f"{seconds:.2f}", each])
    rows += workers(given.wait)
    if given.large:
        rows.append(large())
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
            f"Workers: the sweep of {SIZES[-1]:,} batches by one and by two processes of "
            f"`--jobs`, which are there already, in turns, median of {PAIRS}; the overhead is what "
            "scheduler and client use.",
            "2 workers over 1, processor: two processors that also run scheduler and client are at "
            "best faster by one worker's seconds over half of all seconds with two.",
            "2 processors over 1: two processes that share nothing over one, the most that any "
            "engine can reach on this machine.",
            "2 workers over 1, wall: the median of the pairs, with the share of the two processors "
            "that other processes had meanwhile.",
        ],
    )


def asked(batches: int):
    return ask("sweep", {**ASKED, "batch_size": f"1:{batches}"})


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


class Turn(NamedTuple):
    """One sweep by some workers.

    Attributes:
        wall: Seconds by the clock.
        inside: Seconds of the processor of the workers.
        outside: Of scheduler and client.
        others: Share of the processors that other processes had.
    """

    wall: float
    inside: float
    outside: float
    others: float


def workers(wait_s: float) -> list[list[str]]:
    """One and two processes for the same sweep, in turns."""
    work = work_of(asked(SIZES[-1]))
    end = time.monotonic() + wait_s
    turns: dict[int, list[Turn]] = {1: [], 2: []}
    with ExitStack() as stack:
        clients = {jobs: stack.enter_context(client_of(jobs)) for jobs in turns}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for client in clients.values():  # imports what is needed and loads the model
            save(work, RunRequest(scheduler=client), folder / f"first{id(client)}.parquet")
        for i in range(PAIRS):
            for jobs, client in clients.items():
                wait_for_quiet(end)
                turns[jobs].append(turn(work, client, folder / f"{jobs}-{i}.parquet"))
    middle = {
        jobs: [statistics.median(values) for values in zip(*several, strict=True)]
        for jobs, several in turns.items()
    }
    rows = []
    for jobs, (wall, inside, outside, others) in middle.items():
        figure = f"overhead {outside / inside:.1%}, wall {wall:.1f} s, others {others:.0%}"
        rows.append([f"{jobs} by --jobs", f"{work.points:,}", f"{inside:.2f}", figure])
    bound = middle[1][1] / ((middle[2][1] + middle[2][2]) / 2)
    pairs = [one.wall / two.wall for one, two in zip(turns[1], turns[2], strict=True)]
    busy = statistics.median(t.others for several in turns.values() for t in several)
    listed = ", ".join(f"{ratio:.2f}" for ratio in sorted(pairs))
    size = f"{work.points:,}"
    wait_for_quiet(end)
    own = statistics.median(two_processors() for _ in range(PAIRS))
    return [
        *rows,
        ["2 processors over 1, plain arithmetic, wall", "", "", f"{own:.2f} x"],
        ["2 workers over 1, processor", size, "", f"{bound:.2f} x"],
        [
            *("2 workers over 1, wall", size, ""),
            f"{statistics.median(pairs):.2f} x ({listed}), others {busy:.0%}",
        ],
    ]


def two_processors() -> float:
    """How much more two processes do than one that share nothing: no engine can do better."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(arithmetic, (1, 1), chunksize=1)  # both have started
        took = []
        for count in (1, 2):
            began = time.monotonic()
            pool.map(arithmetic, (ROUNDS,) * count, chunksize=1)
            took.append(time.monotonic() - began)
    return 2 * took[0] / took[1]


def arithmetic(rounds: int = ROUNDS) -> None:
    """Passes over a megabyte, as the columns of a partition take them."""
    values = np.random.default_rng(0).random(131_072)
    for _ in range(rounds):
        values = np.maximum(np.sqrt(values * values + 1.0), 0.5)


def turn(work: Any, client: Any, target: Path) -> Turn:
    """One sweep."""
    before, own, began = client.run(time.process_time), time.process_time(), time.monotonic()
    with busy() as others:
        save(work, RunRequest(scheduler=client), target)
    wall, outside = time.monotonic() - began, time.process_time() - own
    after = client.run(time.process_time)
    inside = sum(after[name] - before[name] for name in after)
    return Turn(wall, inside, outside, max(0.0, others[0] - (inside + outside) / len_s(wall)))


def len_s(wall: float) -> float:
    """Seconds that all processors have in so many of the clock."""
    return wall * (os.cpu_count() or 1)


@contextmanager
def busy() -> Iterator[list[float]]:
    """Share of the processors that were not idle while it lasts."""
    found: list[float] = []
    before = _ticks()
    yield found
    every, idle = (b - a for a, b in zip(before, _ticks(), strict=True))
    found.append(1 - idle / every if every else 0.0)


def _ticks() -> tuple[int, int]:
    """Of /proc/stat all ticks, and the idle ones."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def wait_for_quiet(end: float) -> None:
    """Waits until others leave the processors alone for a second, or until a moment."""
    while time.monotonic() < end:
        with busy() as others:
            time.sleep(1.0)
        if others[0] < QUIET:
            return


def large() -> list[str]:
    """1e7 points by two processes as a user would, with the memory of all processes."""
    words = [sys.executable, "-m", "gambrel", "sweep", ASKED["model"]]
    for name in ("hardware", "precision", "runtime"):
        words += [f"--{name}", ASKED[name]]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "large.parquet"
        words += ["--batch", f"1:{LARGE}", "--jobs", "2", "-o", str(target)]
        began = os.times()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
            peaks: dict[int, int] = {}
            while one.poll() is None:
                for pid in family(one.pid):
                    peaks[pid] = max(peaks.get(pid, 0), resident(pid))
                time.sleep(0.5)
        ended = os.times()
        if one.returncode:
            raise SystemExit(f"{' '.join(words)}: {one.returncode}")
        files = [p for p in target.iterdir() if p.suffix == ".parquet"]
        nbytes = sum(p.stat().st_size for p in files)
    count = 10 * LARGE
    used = sum(ended[2:4]) - sum(began[2:4])
    first = peaks.pop(one.pid)
    figure = (
        f"{len(files)} tasks, {count / used:,.0f}/s of a core, {ended[4] - began[4]:.0f} s by the "
        f"clock; {first / 1e6:.0f} MB of the client, {max(peaks.values()) / 1e6:.0f} MB of a "
        f"worker at most; {nbytes / count:.1f} B each"
    )
    return ["a large run", f"{count:,}", f"{used:.0f}", figure]


def family(pid: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def resident(pid: int) -> int:
    """The most bytes of memory that a process has had."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main()
