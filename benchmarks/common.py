"""What the benchmarks share: a table on the screen and in results/, and where it was measured."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def machine() -> str:
    """Processor, cores and Python of this machine, on one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def versions(*packages: str) -> str:
    """Installed versions of packages, on one line."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def report(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    notes: Sequence[str] = (),
    packages: Sequence[str] = ("gambrel", "numpy"),
) -> None:
    """Prints a Markdown table and writes it to ``results/<name>.md``."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(r[i]) for r in [list(columns), *cells]) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"

    table = [line(columns), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, cells)]
    text = "\n".join(
        [
            f"# {title}",
            "",
            f"`python benchmarks/{Path(sys.argv[0]).name}`, {date}; {machine()}; "
            f"{versions(*packages)}.",
            "",
            *table,
            "",
            *(f"- {n}" for n in notes),
        ]
    )
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")


def spread(values: Sequence[float], unit: float = 1e3, digits: int = 1) -> str:
    """Minimum / median / maximum."""
    picked = (min(values), statistics.median(values), max(values))
    return " / ".join(f"{v * unit:.{digits}f}" for v in picked)


def run(command: Sequence[str], accepted: Sequence[int] = (0,)) -> tuple[float, int]:
    """Runs a command to its end.

    Args:
        command: Words.
        accepted: Exit codes that are no failure; 1 is the verdict FAIL of ``gambrel check``.

    Returns:
        Wall-clock seconds, and its peak resident memory in bytes.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in accepted:
        message = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"{' '.join(command)} failed: {message}")
    if process.stderr:
        process.stderr.close()
    return seconds, usage.ru_maxrss * 1024


def alternate(actions: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Runs the actions in turn, so that what else the machine does hits all of them alike.

    Args:
        actions: Name → something that returns its own seconds.
        rounds: How often each is run.
    """
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(action())
    return found


def timed(function: Callable[[], object]) -> Callable[[], float]:
    """A function that runs ``function`` and returns its seconds."""

    def measure() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return measure
