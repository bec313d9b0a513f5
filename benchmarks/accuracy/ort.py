"""ONNX Runtime on NVIDIA's cards.

The rows come with the project (benchmarks/data/ort); no folder is read. Kernels are those of
PyTorch, which calls the same libraries; the time of a launch was fitted to BERT on a V100.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

import gambrel

DATA = Path(__file__).parents[1] / "data/ort"
NONE, ONE = "no row fitted", "host time fitted"


def score(_folder: Path) -> Iterable[Score]:
    """By publication."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    with (DATA / "rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups[_group(row)].append(run_of(row))
    for (what, held), runs in groups.items():
        yield Score(what=f"ONNX Runtime on NVIDIA, {what}", runs=runs, held_out=held, family=what)


def _group(row: dict[str, str]) -> tuple[str, str]:
    if row["source"] == "transformers":
        many = row["model"] == "gpt2-decode" and int(row["batch"]) > 1
        if many:
            return "GPT-2 of 2020, which copies its cache", NONE
        return "BERT and GPT-2, V100", ONE
    if row["source"] == "transformer-deploy":
        return "encoders of 2022, T4 and RTX 3090", NONE
    if row["source"] == "diffusion":
        return "Stable Diffusion 1.5, A100, V100, RTX 3060", NONE
    return "networks fed from the host, RTX 3080", NONE


def run_of(row: dict[str, str]) -> Run:
    """What gambrel says of a row."""
    config = DATA / row["model"] / "config.json"
    sizes = {row["size"]: int(row["value"])} if row["size"] else {}
    found = gambrel.analyze(
        str(config) if config.is_file() else row["model"],
        row["device"],
        runtime="onnxruntime",
        precision=row["precision"],
        batch_size=int(row["batch"]),
        sizes=sizes,
    )
    expected = found.expected_time_s
    what = f"{row['model']} {row['precision']} {row['batch']} {row['value']}".rstrip()
    return Run(
        name=f"{row['device']} {what}",
        measured=float(row["ms"]) * 1e-3,
        expected=None if expected is None else expected.value,
        low=None if expected is None else expected.low,
        high=None if expected is None else expected.high,
        roofline=found.roofline_time_s,
        sol=found.sol_time_s,
    )
