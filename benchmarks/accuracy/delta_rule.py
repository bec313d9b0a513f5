"""Kernels of the gated delta rule in serving engines.

The cycles of flash-linear-attention's kernels are of times that other projects published
(benchmarks/delta_scan.py): no row is fitted. Those of FlashInfer's kernel are the value in steps of
100 at which half of the models come out best; the other half is scored.
"""

from __future__ import annotations

import csv
import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score
from benchmarks.accuracy.attention import GPUS, STACKS
from benchmarks.delta_scan import expected

A100 = ("a100-sxm4-80gb", "A100")
FUSED, HALF = "FlashInfer's kernel", "half of the models; one constant fitted to the others"
#: Fewer tokens are launched by the host in the time of the kernels.
SHORTEST = 32


def score(folder: Path) -> Iterable[Score]:
    """By phase, device and kernel."""
    groups: dict[str, list[Run]] = defaultdict(list)
    path = folder / "measured" / "gdn_perf.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "gated_delta" in row["kernel_source"] and _counts(row):
                groups[name(row)].append(run(row))
    for what, runs in sorted(groups.items()):
        held = HALF if FUSED in what else "no row fitted"
        yield Score(what=what, runs=runs, held_out=held, family=what)


def _counts(row: dict[str, str]) -> bool:
    long = row["phase"] == "generation" or int(row["seq_len"]) >= SHORTEST
    fitted = zlib.crc32(row["model_name"].encode()) % 2 == 0
    return long and not (fitted and _is_fused(row))


def _is_fused(row: dict[str, str]) -> bool:
    return row["kernel_source"].endswith("flashinfer")


def name(row: dict[str, str]) -> str:
    """The line that a row belongs to."""
    phase = "a token" if row["phase"] == "generation" else "prompts"
    own = f", {FUSED}" if _is_fused(row) else ""
    gpu = GPUS.get(row["gpu"], A100)[1]
    return f"gated delta rule, {phase}, {gpu}, {STACKS[_stack(row)][1]}{own}"


def _stack(row: dict[str, str]) -> str:
    return row["framework"].partition("/")[0]


def run(row: dict[str, str]) -> Run:
    """One kernel."""
    tokens = "1" if row["phase"] == "generation" else row["seq_len"]
    asked = {
        "device": GPUS.get(row["gpu"], A100)[0],
        "batch": row["batch_size"],
        "tokens": tokens,
        "key_heads": row["num_k_heads"],
        "heads": row["num_v_heads"],
    }
    found = expected(asked, STACKS[_stack(row)][0])
    return Run(
        name=" ".join(asked.values()),
        measured=float(row["us"]) * 1e-6,
        expected=found.value,
        low=found.low,
        high=found.high,
    )
