"""Speed of the search of training layouts: plans for each second of processor time.

python benchmarks/train_search.py
"""

from __future__ import annotations

import time

import gambrel
from common import report

CASES = (
    ("llama-3.1-8b", 64, 512, 8192),
    ("llama-3.1-70b", 256, 512, 8192),
    ("deepseek-v3", 512, 2048, 4096),
)


def main() -> None:
    rows = []
    for model, devices, sequences, seq in CASES:
        start = time.process_time()
        found = gambrel.train_search(
            model,
            "h100",
            devices=devices,
            global_batch=sequences,
            seq=seq,
            topology="dgx-h100",
        )
        seconds = time.process_time() - start
        plans = found.tried + found.pruned
        said = (found.tried, found.pruned, plans / seconds, found.tried / seconds)
        rows.append([model, devices, f"{seconds:.1f}", *(f"{n:,.0f}" for n in said)])
    report(
        "train_search",
        "Speed of the search of training layouts",
        ["model", "devices", "CPU, s", "computed", "left out", "plans/s", "computed/s"],
        rows,
        notes=("H100, dgx-h100; left out: by memory or by arithmetic, after one analysis.",),
    )


if __name__ == "__main__":
    main()
