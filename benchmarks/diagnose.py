"""Traces with known causes, made by real runs of torch on this processor, and what is said of them.

``python benchmarks/diagnose.py FOLDER [tune|more|held]`` records each case of `diagnose_cases` in a
process of its own, diagnoses the trace, runs the command that each line of the diagnosis names, and
writes precision and recall of each variant. Traces that are in the folder are taken as they are.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

import diagnose_cases
from common import report
from diagnose_cases import CASES

PORT = "29512"


def record(case: str, variant: str, path: Path) -> None:
    """One trace."""
    torch.set_num_threads(1)
    peer = None
    if case == "communication":
        peer = multiprocessing.Process(target=_peer, args=(variant,), daemon=True)
        peer.start()
        _join_group(0)
    loop = getattr(diagnose_cases, f"{case}_{variant}")()
    _wait_until_quiet()
    torch.set_grad_enabled(case == "clean")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        loop()
    recorded.export_chrome_trace(str(path))
    if peer is not None:
        peer.join(20)
        torch.distributed.destroy_process_group()


def _wait_until_quiet(most_s: float = 20.0) -> None:
    """Waits until the same product takes the same time for a moment: others do not disturb."""
    big, end = torch.randn(512, 512), time.perf_counter() + most_s
    while time.perf_counter() < end:
        times = []
        for _ in range(30):
            start = time.perf_counter()
            big @ big
            times.append(time.perf_counter() - start)
        if statistics.quantiles(times, n=10)[-1] < 1.2 * min(times):
            return


def _join_group(rank: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)


def _peer(variant: str) -> None:
    torch.set_num_threads(1)
    _join_group(1)
    with torch.no_grad():
        getattr(diagnose_cases, f"communication_{variant}")()()


def _priority() -> list[str]:
    """Ahead of what else the machine does, where that is allowed: its pauses are not injected."""
    return ["chrt", "-f", "10"] if os.geteuid() == 0 and shutil.which("chrt") else []


def runs(command: str, folder: Path) -> bool:
    """Whether a command ends well."""
    words = shlex.split(command)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode == 0


def main() -> None:
    """Makes, diagnoses, counts."""
    from gambrel.traces.diagnose import diagnose

    folder = Path(sys.argv[1])
    variants = sys.argv[2:] or ["tune", "more", "held"]
    folder.mkdir(exist_ok=True)
    rows, notes = [], []
    for variant in variants:
        right = wrong = first = failed = 0
        for case, cause in CASES.items():
            path = folder / f"{case}_{variant}.json"
            if not path.exists():
                words = [sys.executable, __file__, "--record", case, variant, str(path)]
                subprocess.run([*_priority(), *words], check=True)
            items = diagnose([path]).items
            causes = [item.cause for item in items]
            failed += sum(not runs(item.command, folder) for item in items)
            right += cause in causes
            wrong += sum(c != cause for c in causes)
            first += bool(causes) and causes[0] == cause
            said = ", ".join(
                i.cause if i.saves_share is None else f"{i.cause} {i.saves_share:.0%}"
                for i in items
            )
            good = cause in causes if cause else not causes
            rows.append([variant, case, cause or "-", said or "-", "yes" if good else "no"])
        wanted = sum(cause is not None for cause in CASES.values())
        notes.append(
            f"{variant}: recall {right}/{wanted}, precision {right}/{right + wrong}, the injected "
            f"cause first in {first}; {failed} commands of these lines failed."
        )
    report(
        "diagnose",
        "Diagnosis of traces with known causes",
        ["variant", "case", "injected", "said, with the share that it can give back", "right"],
        rows,
        notes=[
            *notes,
            "Cases are in `benchmarks/diagnose_cases.py`. The rules were written with the traces "
            "of `tune` and `more` in view; those of `held` were recorded and diagnosed once, "
            "afterwards. Each is recorded when the machine has been quiet for a moment.",
            "Two cases of each variant have nothing injected. Every line beyond the injected one "
            "counts as wrong.",
        ],
        packages=("gambrel", "torch"),
    )


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        multiprocessing.set_start_method("spawn", force=True)
        record(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        main()
