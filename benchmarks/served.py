"""Measured runs of served language models against the speed of light and the expected time.

    python benchmarks/served.py serving.csv

A row is a time per output token at a number of requests in flight. No run may be faster than the
speed of light of its decode step; rows that are, are listed. Columns: those of silicon_sample.csv
of ai-dynamo/aiconfigurator, Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gambrel
from gambrel.errors import GambrelError
from gambrel.llm.sharding import Sharding

MODELS = {
    "MiniMax-M2.5": "minimax-m2",
    "Qwen3-32B": "qwen3-32b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "DeepSeek-V3": "deepseek-v3",
}
DEVICES = {"h100_sxm": "h100-sxm5-80gb", "h200_sxm": "h200-sxm-141gb", "b200_sxm": "b200-hgx-180gb"}
#: The narrowest that the row may have run in; caches in 8 bits where the weights are narrow.
FORMATS = {"": "bf16", "fp8": "fp8,kv=fp8", "fp4": "nvfp4,kv=fp8"}
RUNTIMES = {"trtllm": "tensorrt-llm"}


def layout(row: dict[str, str]) -> Sharding:
    """Degrees of parallelism; where tensor and attention are equal, each names all devices."""
    tensor, data, experts, stages = (
        max(1, int(float(row[name] or 1)))
        for name in ("tp_size", "attention_dp_size", "moe_ep_size", "pp_size")
    )
    devices = {64: 8, 16: 4}.get(tensor, tensor)
    data = {64: 8, 16: 4}.get(data, data)
    if not data == devices > 1:
        devices *= data
    return Sharding(
        tensor=devices, attention_data=data, expert=min(experts, devices), pipeline=stages
    )


def rows(path: Path) -> Iterator[tuple[dict[str, str], Sharding]]:
    """Rows of one kind of worker for a known model."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            known = row["model_path"].rpartition("/")[2] in MODELS and row["system"] in DEVICES
            if known and row["mode"] == "agg" and row["batch_size"]:
                yield row, layout(row)


def main() -> None:
    faster, skipped = [], defaultdict(int)
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    counted, closest = 0, 0.0
    for row, sharding in rows(Path(sys.argv[1])):
        model, runtime = MODELS[row["model_path"].rpartition("/")[2]], row["backend"]
        try:
            plan = gambrel.serve_plan(
                model,
                DEVICES[row["system"]],
                input=int(float(row["isl"])),
                output=int(float(row["osl"])),
                precision=[FORMATS[row["precision"]]],
                concurrency=int(float(row["batch_size"])) * sharding.attention_data,
                sharding=sharding,
                max_devices=sharding.devices,
                runtime=RUNTIMES.get(runtime, runtime),
            )
        except GambrelError as error:
            skipped[str(error)[:90]] += 1
            continue
        if not plan.best:
            skipped[plan.refused[0].reason[:60]] += 1
            continue
        point, measured = plan.best[0].point, float(row["silicon_tpot_ms"]) / 1e3
        counted += 1
        closest = max(closest, point.sol_tpot_s / measured)
        errors[model, runtime].append(point.tpot_s / measured)
        if measured < point.sol_tpot_s:
            faster.append((measured / point.sol_tpot_s, row["id"]))
    print(f"{counted} rows; speed of light over measured at most {closest:.2f}")
    print(f"faster than the speed of light: {len(faster)}", *sorted(faster)[:40], sep="\n")
    for key, ratios in sorted(errors.items()):
        error = statistics.mean(abs(r - 1) for r in ratios)
        print(*key, f"n {len(ratios)}, expected / measured median", end=" ")
        print(f"{statistics.median(ratios):.2f}, mean absolute error {error:.0%}")
    print("left out:", dict(skipped))


if __name__ == "__main__":
    main()
