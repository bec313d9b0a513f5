"""Attention without a cache, as vision encoders and diffusion transformers run it.

No row is fitted: constants are those of prompts, whose kernels write a cache besides.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

import gambrel

#: Name in the files → (device, its name).
GPUS = {
    "h100_sxm": ("h100-sxm5-80gb", "H100"),
    "b200_sxm": ("b200-hgx-180gb", "B200"),
    "l40s": ("l40s", "L40S"),
}
#: Stack → (runtime, its name).
STACKS = {
    "vllm": ("vllm", "vLLM"),
    "sglang": ("sglang", "SGLang"),
    "trtllm": ("tensorrt-llm", "TensorRT-LLM"),
}
#: Widths of heads for which TensorRT-LLM has no fused kernel without a cache, and SGLang's kernel
#: on Ada, which is Triton's.
ODD, FALLBACK = "heads of 72 and 80", "Triton"


def score(folder: Path) -> Iterable[Score]:
    """By device and stack."""
    groups: dict[str, list[Run]] = defaultdict(list)
    path = folder / "measured" / "encoder_attention_perf.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups[name(row)].append(run(row))
    for what, runs in sorted(groups.items()):
        yield Score(what=what, runs=runs, held_out="no row fitted", family=what)


def name(row: dict[str, str]) -> str:
    """The line that a row belongs to."""
    stack = row["framework"].partition("/")[0]
    kernel = ""
    if stack == "trtllm" and row["head_dim"] != "64":
        kernel = f", {ODD}"
    elif "triton" in row["kernel_source"]:
        kernel = f", {FALLBACK}"
    return f"attention without a cache, {GPUS[row['gpu']][1]}, {STACKS[stack][1]}{kernel}"


def run(row: dict[str, str]) -> Run:
    """One kernel."""
    count = {k: row[k] for k in ("batch_size", "num_heads", "isl", "head_dim")}
    batch, heads, tokens, width = count.values()
    found = gambrel.analyze(
        f"attention:batch={batch},heads={heads},q={tokens},kv={tokens},d={width},bf16",
        GPUS[row["gpu"]][0],
        runtime=STACKS[row["framework"].partition("/")[0]][0],
    )
    name = f"{row['gpu']} {row['framework']} {batch}x{heads}x{tokens}x{width}"
    return Run.of(name, float(row["us"]) * 1e-6, found)
