"""Writes the sample of held-out measurements in benchmarks/data/kernels.

    python scripts/sample_measurements.py FOLDER

FOLDER is that of fit_calibration.py. Taken are rows whose shapes were not fitted on, evenly over
the logarithm of the time within each device, number format and framework.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from calibration_rows import FORMS, Form, load

TARGET = Path(__file__).parents[1] / "benchmarks/data/kernels"
LICENCE = (
    "# Facts extracted from the public repository ai-dynamo/aiconfigurator (commit 095f58a5, "
    "2026-08-21), data licensed Apache-2.0, "
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES."
)
#: Rows of each file; all files together stay below 300 kB.
ROWS = {
    "gemm.csv": 1300,
    "attention_context.csv": 700,
    "attention_decode.csv": 700,
    "moe.csv": 750,
    "nccl.csv": 360,
}


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for form in FORMS:
        write(Path(sys.argv[1]), form)


def write(folder: Path, form: Form) -> None:
    rows = load(folder, form, everything=True)
    mask = rows["usable"] & (rows["half"] == 1)
    groups: dict[tuple[str, ...], list[int]] = {}
    for i in np.flatnonzero(mask):
        key = (rows["device"][i], rows["label"][i].split("-")[0], rows["stack"][i])
        groups.setdefault(key, []).append(int(i))
    each = ROWS[form.file] // len(groups)
    chosen: list[int] = []
    for members in groups.values():
        chosen += _evenly(rows["seconds"], members, each)
    with (folder / form.file).open(newline="") as file:
        raw = list(csv.reader(file))
    keep = [i for i, name in enumerate(raw[0]) if name != "beam_width"]
    with (TARGET / form.file).open("w", newline="") as file:
        file.write(LICENCE + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([raw[0][i] for i in keep])
        writer.writerows([raw[1 + r][i] for i in keep] for r in sorted(chosen))


def _evenly(seconds: np.ndarray, members: list[int], count: int) -> list[int]:
    """One row nearest to each of ``count`` points that divide the range of log time evenly."""
    left = sorted(members, key=lambda i: seconds[i])
    if len(left) <= count:
        return left
    logs = np.log([seconds[i] for i in left])
    taken: set[int] = set()
    for point in np.linspace(logs[0], logs[-1], count):
        for j in np.argsort(np.abs(logs - point)):
            if int(j) not in taken:
                taken.add(int(j))
                break
    return [left[j] for j in taken]


if __name__ == "__main__":
    main()
