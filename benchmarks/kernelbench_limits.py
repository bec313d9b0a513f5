"""The limit of every KernelBench problem on every GPU of the catalog, and how long that takes.

``python benchmarks/kernelbench_limits.py FOLDER``, e.g. KernelBench/KernelBench, captures each
problem once and writes one line per problem and one column per device: milliseconds with cold
caches, in the format of the problem. Problems that the folder lacks keep their line; of devices
that are new since then they have no limit.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

from gambrel.analysis.question import ask
from gambrel.analysis.workbench import Machine
from gambrel.api.analyze import settings_of
from gambrel.api.problems import rows_of
from gambrel.capture.kernelbench import problems_of
from gambrel.device.catalog import list_devices

RESULT = Path(__file__).parent / "results" / "kernelbench_limits.csv"


def main() -> None:
    """Writes the table and prints the time."""
    warnings.simplefilter("ignore")
    settings = settings_of(ask("limits", {"model": "resnet50", "hardware": "a100"}))
    start = time.perf_counter()
    machines = [Machine(d, settings) for d in list_devices() if "gpu" in d.category.lower()]
    folder = Path(sys.argv[1])
    paths = problems_of(folder)
    lines = {line["problem"]: line for line in known()}
    for path in paths:
        name = path.relative_to(folder).with_suffix("").as_posix().replace("/", "_")
        rows = rows_of(path, machines)
        bound = rows[0].bound.value if rows[0].bound else rows[0].error[:60]
        cells = {
            m.device.id: "" if r.cold_time_s is None else f"{r.cold_time_s * 1e3:.3g}"
            for m, r in zip(machines, rows, strict=True)
        }
        lines[name] = {"problem": name, "bound": bound, **cells}
    with RESULT.open("w", newline="", encoding="utf-8") as stream:
        names = ("problem", "bound", *(m.device.id for m in machines))
        writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines.values())
    spent = time.perf_counter() - start
    print(f"{len(paths)} problems on {len(machines)} GPUs in {spent:.1f} s: {RESULT}")


def known() -> list[dict[str, str]]:
    """The table as it stands."""
    if not RESULT.is_file():
        return []
    with RESULT.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
