"""Attention without a cache, as vision encoders and diffusion transformers run it.

No row is fitted: constants are those of prompts, whose kernels write a cache besides. On the
devices of ``data/attention`` nothing was measured; they have the constants of their kin.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy import Run, Score

import gambrel

CARRIED = Path(__file__).parents[1] / "data/attention/rows.csv"
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


#: Devices of `CARRIED` → their names.
OTHERS = {
    "a800-sxm4-80gb": "A800, the chip of the A100",
    "h20-96gb": "H20",
    "rtx-a5000": "RTX A5000",
    "rtx-4090": "RTX 4090",
    "rtx-pro-6000-blackwell": "RTX PRO 6000",
}


def score(folder: Path) -> Iterable[Score]:
    """By device and stack."""
    groups: dict[str, list[Run]] = defaultdict(list)
    path = folder / "measured" / "encoder_attention_perf.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups[name(row)].append(run(row))
    for what, runs in sorted(groups.items()):
        yield Score(what=what, runs=runs, held_out="no row fitted", family=what)
    yield from carried()


def carried() -> Iterable[Score]:
    """FlashAttention on devices that borrow their constants."""
    groups: dict[str, list[Run]] = defaultdict(list)
    with CARRIED.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups[row["device"]].append(on_another(row))
    for device, label in OTHERS.items():
        what = f"FlashAttention on devices that were not measured, {label}"
        yield Score(what=what, runs=groups[device], held_out="device left out", family=what)


def on_another(row: dict[str, str]) -> Run:
    """One kernel of `CARRIED`."""
    batch, heads, tokens, width = (row[k] for k in ("batch", "heads", "tokens", "head_dim"))
    mask = ",causal" if row["causal"] == "yes" else ""
    found = gambrel.analyze(
        f"attention:batch={batch},heads={heads},q={tokens},kv={tokens},d={width}{mask},fp16",
        row["device"],
        runtime=row["runtime"],
    )
    name = f"{row['device']} {row['runtime']} {batch}x{heads}x{tokens}x{width}{mask}"
    return Run.of(name, float(row["seconds"]), found)


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
