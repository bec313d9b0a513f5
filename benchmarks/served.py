"""Measured runs of served language models against the speed of light and the expected times.

    python benchmarks/served.py serving.csv [--any]

A row is a time per output token and a time to the first token at a number of requests in flight.
No run may be faster than the speed of light of its decode step; rows that are, are listed. With
``--any`` no serving engine is named. Columns: those of silicon_sample.csv of
ai-dynamo/aiconfigurator, Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gambrel
from common import report
from gambrel.analysis.measures import Estimate
from gambrel.errors import GambrelError
from gambrel.llm.serving.records import Choice
from gambrel.llm.sharding import Sharding

Row = dict[str, str]

MODELS = {
    "MiniMax-M2.5": "minimax-m2",
    "Qwen3-32B": "qwen3-32b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "DeepSeek-V3": "deepseek-v3",
}
MIXTURES = ("minimax-m2", "deepseek-v3")
DEVICES = {"h100_sxm": "h100-sxm5-80gb", "h200_sxm": "h200-sxm-141gb", "b200_sxm": "b200-hgx-180gb"}
#: The narrowest that the row may have run in; caches in 8 bits where the weights are narrow.
FORMATS = {"": "bf16", "fp8": "fp8", "fp4": "nvfp4"}
RUNTIMES = {"trtllm": "tensorrt-llm"}
#: Versions whose runs sent each slot one request of the same length.
BURSTS = (("sglang", "0.5.1.post1"),)


def layout(row: Row) -> Sharding:
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


def name_of(row: Row) -> str:
    """The model's name, last part."""
    return row["model_path"].rpartition("/")[2]


def rows(path: Path) -> Iterator[tuple[Row, Sharding]]:
    """Rows of one kind of worker for a known model."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            known = name_of(row) in MODELS and row["system"] in DEVICES
            if known and row["mode"] == "agg" and row["batch_size"]:
                yield row, layout(row)


def why_apart(row: Row) -> str:
    """Why a row is not scored; empty where it is."""
    ttft, tpot = (float(row[f"silicon_{name}_ms"] or 0) for name in ("ttft", "tpot"))
    if name_of(row).endswith("Instruct-FP8") and row["backend"] == "vllm":
        return "prompts were cached"
    if float(row["batch_size"]) > 64 and ttft > 0.5 * tpot * float(row["osl"]):
        return "requests were queued"
    return ""


def predicted(row: Row, sharding: Sharding, *, named: bool) -> Choice:
    """The plan of a row's layout.

    Raises:
        GambrelError: The row cannot be asked, or does not fit.
    """
    runtime = RUNTIMES.get(row["backend"], row["backend"])
    plan = gambrel.serve_plan(
        MODELS[name_of(row)],
        DEVICES[row["system"]],
        input=int(float(row["isl"])),
        output=int(float(row["osl"])),
        precision=[FORMATS[row["precision"]]],
        concurrency=int(float(row["batch_size"])) * sharding.attention_data,
        arrivals="burst" if (row["backend"], row["backend_version"]) in BURSTS else None,
        sharding=sharding,
        max_devices=sharding.devices,
        runtime=runtime if named else None,
    )
    if not plan.best:
        raise GambrelError(plan.refused[0].reason)
    return plan.best[0]


class Errors:
    """Errors of predicted over measured, group by group."""

    def __init__(self) -> None:
        self.ratios = defaultdict[tuple[str, ...], list[float]](list)
        self.inside = defaultdict[tuple[str, ...], list[bool]](list)

    def add(self, key: tuple[str, ...], estimate: Estimate, measured: float) -> None:
        """One run."""
        self.ratios[key].append(estimate.value / measured)
        self.inside[key].append(estimate.low <= measured <= estimate.high)

    def rows(self, what: str) -> Iterator[list[str]]:
        """Group, runs, mean absolute error, median ratio, share inside the range."""
        for key, ratios in sorted(self.ratios.items()):
            error = statistics.mean(abs(r - 1) for r in ratios)
            yield [
                *(what, " ".join(key), str(len(ratios)), f"{error:.1%}"),
                *(f"{statistics.median(ratios):.2f}", f"{statistics.mean(self.inside[key]):.0%}"),
            ]


def main() -> None:
    """Prints the table and stores it."""
    faster, apart = [], defaultdict[str, int](int)
    tpots, ttfts = Errors(), Errors()
    closest, counted = 0.0, 0
    named = "--any" not in sys.argv
    for row, sharding in rows(Path(sys.argv[1])):
        try:
            choice = predicted(row, sharding, named=named)
        except GambrelError as error:
            apart[str(error)[:60].rstrip(".")] += 1
            continue
        tpot, least = float(row["silicon_tpot_ms"]) / 1e3, choice.point.sol_tpot_s or 0.0
        counted, closest = counted + 1, max(closest, least / tpot)
        if tpot < least:
            faster.append(row["id"])
        if reason := why_apart(row):
            apart[reason] += 1
            continue
        model = MODELS[name_of(row)]
        for key in (("mixtures" if model in MIXTURES else "dense",), (model, row["backend"])):
            if choice.tpot is not None:
                tpots.add(key, choice.tpot, tpot)
            if row["silicon_ttft_ms"] and choice.ttft is not None:
                ttfts.add(key, choice.ttft, float(row["silicon_ttft_ms"]) / 1e3)
    report(
        "served" if named else "served_any",
        f"Served runs against serve-plan, {'engine named' if named else 'no engine named'}",
        ["latency", "runs of", "runs", "mean error", "median ratio", "inside the range"],
        [*tpots.rows("TPOT"), *ttfts.rows("TTFT")],
        notes=(
            f"{counted:,} runs; {len(faster)} faster than the speed of light, the closest at "
            f"{closest:.2f} of it.",
            f"Not scored: {'; '.join(f'{n} {why}' for why, n in sorted(apart.items()))}.",
        ),
    )


if __name__ == "__main__":
    main()
