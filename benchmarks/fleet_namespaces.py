"""A fleet on one machine: workers in network namespaces, three of them slowed in their own turn.

    sudo python benchmarks/fleet_namespaces.py [--workers 16] [--seconds 1]

Every worker is a dask worker with an address of its own behind a bridge, and measures in turns
(`gambrel fleet --at-once 1`). One has a quota of a few percent of a processor (a control group),
one has its memory bandwidth taken by other processes while it measures, one has a clock that runs
at half speed. Found must be these three and no others. Needs root, ip and control groups.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from common import report

BRIDGE, NETWORK = "gbfleet", "10.77.0"
QUOTA = Path("/sys/fs/cgroup/cpu/gambrel-fleet")
QUOTA2 = Path("/sys/fs/cgroup/gambrel-fleet")
PATIENCE_S = 240.0

PRELOAD = '''
import os, subprocess, sys, time
from distributed.diagnostics.plugin import WorkerPlugin

HOG = "import numpy as np; a, b = np.zeros(1 << 23), np.ones(1 << 23)\\nwhile True: np.copyto(b, a)"

class Hogs(WorkerPlugin):
    """Takes the memory bandwidth while this worker measures."""
    name = "hogs"
    def setup(self, worker):
        self.running = []
    def transition(self, key, start, finish, **more):
        if finish == "executing" and str(key).startswith("checkup"):
            self.running = [subprocess.Popen([sys.executable, "-c", HOG])
                            for _ in range(4 * os.cpu_count())]
        elif self.running and start == "executing":
            for one in self.running:
                one.kill(); one.wait()
            self.running = []

def dask_setup(worker):
    what = os.environ.get("HINDRANCE")
    if what == "memory":
        worker.loop.add_callback(worker.plugin_add, Hogs())
    if what == "clock":
        clock = time.perf_counter
        time.perf_counter = lambda: clock() / 2
'''


def ip(*words: str) -> None:
    """Runs the command of that name."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def hindered(count: int) -> dict[int, str]:
    """Worker → what is done to it: 2, 7 and 10 of sixteen."""
    return {count // 8: "quota", count // 2 - 1: "memory", 2 * count // 3: "clock"}


@contextmanager
def network(count: int) -> Iterator[None]:
    """A bridge, and namespaces behind it."""
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for i in range(count):
            space = f"{BRIDGE}{i}"
            ip("netns", "add", space)
            ip("link", "add", f"gbv{i}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"gbv{i}", "master", BRIDGE, "up")
            inside = ("-n", space)
            ip(*inside, "addr", "add", f"{NETWORK}.{10 + i}/24", "dev", "eth0")
            ip(*inside, "link", "set", "eth0", "up")
            ip(*inside, "link", "set", "lo", "up")
        yield
    finally:
        for i in range(count):
            subprocess.run(["ip", "netns", "del", f"{BRIDGE}{i}"], capture_output=True, check=False)
        ip("link", "del", BRIDGE)


@contextmanager
def quota(pid: int, percent: float) -> Iterator[None]:
    """A share of a processor, by whichever version of control groups there is."""
    old = QUOTA.parent.is_dir()
    group = QUOTA if old else QUOTA2
    group.mkdir(exist_ok=True)
    try:
        if old:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(f"{1000 * percent:.0f}")
        else:
            (group / "cpu.max").write_text(f"{1000 * percent:.0f} 100000")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        root = group.parent / "cgroup.procs"
        for one in (group / "cgroup.procs").read_text().split():
            root.write_text(one)
        group.rmdir()


@contextmanager
def process(words: list[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    one = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        yield one
    finally:
        one.terminate()
        try:
            one.wait(10)
        except subprocess.TimeoutExpired:
            one.kill()


def fleet(count: int, percent: float, folder: Path, *more: str) -> tuple[dict, float]:
    """What `gambrel fleet --json` says of such workers, and how long it took, s."""
    preload = folder / "hindrance.py"
    preload.write_text(PRELOAD)
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m"]
    with ExitStack() as stack:
        stack.enter_context(network(count))
        served = ["--host", f"{NETWORK}.1", "--port", "0", "--scheduler-file", str(file)]
        scheduler = [*dask, "distributed.cli.dask_scheduler", "--no-dashboard", *served]
        stack.enter_context(process(scheduler))
        until(lambda: file.exists() and file.read_text())
        address = json.loads(file.read_text())["address"]
        for i in range(count):
            what = hindered(count).get(i, "")
            own = ["--preload", str(preload), "--local-directory", str(folder / str(i))]
            plain = [address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            words = [*dask, "distributed.cli.dask_worker", *plain, *own]
            env = {**os.environ, "HINDRANCE": what, "OMP_NUM_THREADS": "1"}
            inside = [
                "nsenter",
                f"--net=/run/netns/{BRIDGE}{i}",
            ]  # ip netns exec hides /sys/fs/cgroup
            worker = stack.enter_context(process([*inside, *words], env=env))
            if what == "quota":
                slow = worker
        from distributed import Client

        with Client(address, timeout=60) as client:
            client.wait_for_workers(count, timeout=PATIENCE_S)
        # The quota comes once the worker has started, which would take it minutes.
        stack.enter_context(quota(slow.pid, percent))
        print("all workers are there", file=sys.stderr)
        began = time.perf_counter()
        words = [sys.executable, "-m", "gambrel", "fleet", "--scheduler", address]
        done = subprocess.run(
            [*words, "--at-once", "1", "--json", *more], capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        return json.loads(done.stdout), time.perf_counter() - began


def until(holds) -> None:
    """Waits until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("the scheduler did not start")
        time.sleep(0.1)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--quota", type=float, default=3.0, help="percent of a processor")
    parser.add_argument("--links", action="store_true")
    given = parser.parse_args()
    more = ["--duration", f"{given.seconds}s", *(["--links"] if given.links else [])]
    with tempfile.TemporaryDirectory() as folder:
        found, seconds = fleet(given.workers, given.quota, Path(folder), *more)
    rows = []
    for one in found["checkups"]:
        number = int(one["worker"].rpartition(":")[0].rpartition(".")[2]) - 10
        values = {f["name"]: f["value"] for f in one["figures"]}
        named = [s for s in found["suspects"] if s["worker"] == one["worker"]]
        rows.append(
            [
                number,
                hindered(given.workers).get(number, ""),
                f"{values.get('gemm fp32', 0) / 1e9:.1f}",
                f"{values.get('copy', 0) / 1e9:.1f}",
                f"{values.get('processor allowed', 0):.2f}",
                f"{values.get('processor time', 0):.2f}",
                "yes" if one.get("cleared") else "",
                "; ".join(f"{s['cause']} ({s['confidence']})" for s in named),
            ]
        )
    rows.sort(key=lambda row: row[0])
    slowed = [row for row in rows if row[1]]
    others = [row for row in rows if not row[1]]
    load = os.getloadavg()[0]
    report(
        "fleet_namespaces",
        "A fleet of network namespaces on one machine, three of them hindered",
        [
            "worker",
            "hindrance",
            "gemm, GFLOP/s",
            "copy, GB/s",
            "allowed",
            "time",
            "cleared",
            "named",
        ],
        rows,
        notes=[
            f"{sum(bool(r[-1]) for r in slowed)} of {len(slowed)} hindered workers named, "
            f"{sum(bool(r[-1]) for r in others)} of {len(others)} others; {seconds:.0f} s in "
            f"turns; load average at the end {load:.1f} on {os.cpu_count()} processors.",
            *found["warnings"],
        ],
    )


if __name__ == "__main__":
    main()
