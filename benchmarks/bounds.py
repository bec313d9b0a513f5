"""Every measured kernel against its roofline bound, and against the bound with a last cache.

python benchmarks/bounds.py            the sample in benchmarks/data/kernels
python benchmarks/bounds.py FOLDER     all rows of a folder of measurements
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from calibration_rows import DEVICES, FORMS, Form, Rows, load  # noqa: E402
from calibration_table import machine  # noqa: E402
from common import report  # noqa: E402

SAMPLE = ROOT / "benchmarks/data/kernels"
#: A bound that is beaten by less is within the scatter of the measurements.
SLACK = 0.97
COLUMNS = (
    "kernels",
    "format",
    "device",
    "rows",
    "below the bound",
    "fits the L2",
    "stays in part",
    "left",
    "least",
    "least, L2",
)
NOTES = (
    "below the bound: measured in less than 97 % of max(work / peak, compulsory bytes / DRAM "
    "bandwidth). Kernels were replayed, so that what the L2 holds from the last run need not come "
    "from DRAM: fits the L2: all bytes of the kernel do; stays in part: not faster than its work, "
    "or than the bytes beyond the L2's capacity, allow. least: smallest measured / bound; with L2: "
    "the same when as many bytes as the L2 holds come for nothing.",
    "What is left: 49 runs of TensorRT-LLM 1.0 decoding on the A100 read 50 MB to 4 GB at up to "
    "3.5 TB/s, from a memory of 2.04 TB/s behind an L2 of 40 MB. No kernel reads distinct bytes so "
    "fast; several sequences seem to have shared pages of the cache. They are not fitted on.",
    "Expert blocks: balanced routing only, whose touched experts are known; collectives: the bytes "
    "that each device must send over its link.",
    "Facts extracted from ai-dynamo/aiconfigurator (commit 095f58a5, 2026-08-21), Apache-2.0, "
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.",
)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    lines: list[list[object]] = []
    for form in FORMS:
        rows = load(folder, form, everything=True)
        for label in dict.fromkeys(part_of(name) for name in rows["label"]):
            mine = np.array([part_of(name) == label for name in rows["label"]])
            for device in DEVICES:
                part = rows.take(mine & (rows["device"] == device))
                if len(part):
                    lines.append(line(form, label, device, part))
    name = "bounds" if folder == SAMPLE else "bounds_all"
    report(name, "Measured kernels against their bounds", COLUMNS, lines, notes=NOTES)


def part_of(label: str) -> str:
    """Collectives of one kind together, however many devices."""
    return label.split("-")[0]


def line(form: Form, label: str, device: str, rows: Rows) -> list[object]:
    computed, moved, rate = needs(form, device, rows)
    known = np.isfinite(computed)
    computed, moved, times = computed[known], moved[known], rows["seconds"][known]
    cache = machine(device)[1].cache_bytes if form.name != "collective" else 0.0
    bound = np.maximum(computed, moved / rate)
    beyond = np.maximum(computed, np.maximum(moved - cache, 0.0) / rate)
    below = times < SLACK * bound
    fits = below & (moved <= cache) & (times >= SLACK * computed)
    part = below & ~fits & (times >= SLACK * beyond)
    least = float((times / bound).min())
    held = times[beyond > 0] / beyond[beyond > 0]
    return [
        form.name,
        label,
        device,
        len(times),
        int(below.sum()),
        int(fits.sum()),
        int(part.sum()),
        int((below & ~fits & ~part).sum()),
        f"{least:.2f}",
        f"{held.min():.2f}" if len(held) else "",
    ]


def needs(form: Form, device: str, rows: Rows) -> tuple[Any, Any, float]:
    """Seconds of the work at the peak, bytes, and the bandwidth that serves them."""
    found = machine(device)[1]
    if form.name == "matmul":
        return (
            2 * rows["m"] * rows["n"] * rows["k"] / rows["peak"],
            rows["traffic"],
            found.byte_per_s,
        )
    if form.name in ("attention", "decode_attention"):
        work = 4 * rows["pairs"] * rows["head_dim"] / rows["peak"]
        return work, rows["traffic"], found.byte_per_s
    if form.name == "collective":
        return np.zeros(len(rows)), rows["sent"], float(rows["link"][0])
    share = rows["topk"] / rows["num_experts"]
    held = np.maximum(1.0, rows["num_experts"] / rows["moe_ep_size"])
    touched = held * -np.expm1(rows["num_tokens"] * np.log1p(-np.minimum(share, 0.999)))
    routed = rows["num_tokens"] * rows["topk"] / rows["moe_ep_size"]
    size = rows["hidden_size"] * rows["inter"] * (rows["gate"] + 1)
    known = (rows["distribution"] == "balanced") & (routed >= 1)
    work = np.where(known, 2 * routed * size / rows["peak"], np.nan)
    return work, np.minimum(touched, routed) * size * rows["width"], found.byte_per_s


if __name__ == "__main__":
    main()
