"""Expected beside measured times of what gpu_models.py wrote.

    python benchmarks/gpu_model_score.py FOLDER/models.csv [--hardware h100]

Each model is built again without memory, captured, and asked about under the three runtimes.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.gpu_model_cases import Case, built

#: Columns of the times → runtime.
RUNTIMES = {"eager_s": "pytorch", "graph_s": "pytorch-graph", "compiled_s": "torch-compile"}


def case_of(row: dict[str, str]) -> Case:
    """The case of a row of models.csv."""
    return Case(
        row["model"],
        int(row["batch"]),
        row["format"],
        row["layout"],
        int(row["size"]),
        row["phase"],
        row["amp"] == "True",
    )


def captured(case: Case) -> Any:
    """The workload of a case."""
    import torch

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    train = case.phase == "training"
    optimizer = ("sgd_momentum" if case.model.startswith("tv:") else "adamw") if train else None
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        module, inputs = built(case)
        autocast = case.format if case.amp else None
        return capture(module, kwargs=inputs, train=train, optimizer=optimizer, autocast=autocast)


def expected(case: Case, hardware: str, runtimes: Iterable[str]) -> dict[str, Any]:
    """By runtime: the expected time (None where it is unknown)."""
    from gambrel.analysis.settings import Settings
    from gambrel.analysis.workbench import Machine, Workbench, answered
    from gambrel.device import catalog
    from gambrel.ops import Conventions

    device = catalog.load(hardware)
    bench = Workbench(captured(case), {}, Conventions())
    precision = "tf32" if case.format == "tf32" else None
    found = {}
    for runtime in runtimes:
        machine = Machine(device, Settings(precision=precision, runtime=runtime))
        found[runtime] = answered(bench, machine, machine.settings).expected.total
    return found


def main(arguments: list[str] | None = None) -> int:
    """Prints a line per case and the errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--hardware", default="h100-sxm5-80gb")
    chosen = parser.parse_args(arguments)
    ratios: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    with chosen.models.open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if any(r[c] for c in RUNTIMES)]
    for row in rows:
        case = case_of(row)
        if case.model.startswith("decode:"):
            continue  # a cache is no input of a capture
        times = {RUNTIMES[c]: float(row[c]) for c in RUNTIMES if row[c]}
        parts = []
        for runtime, whole in expected(case, chosen.hardware, times).items():
            took = times[runtime]
            if whole is None:
                parts.append(f"{runtime} {took * 1e3:.3f} ms, expected unknown")
                continue
            inside = whole.low <= took <= whole.high
            ratios[runtime].append((whole.value / took, inside))
            mark = "" if inside else " outside"
            parts.append(f"{runtime} {took * 1e3:.3f} ms, {whole.value / took:.2f}x{mark}")
        layout = f"{case.layout}{' amp' if case.amp else ''}"
        print(f"{case.model} {case.batch} {case.format} {layout} {case.phase}: {'; '.join(parts)}")
    for runtime, found in ratios.items():
        error = statistics.fmean(abs(r - 1) for r, _ in found)
        share = statistics.fmean(inside for _, inside in found)
        print(f"{runtime}: {len(found)} rows, {error:.0%} off on average, {share:.0%} inside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
