"""Measured runs of served language models against the simulation, request by request.

    python benchmarks/served_sim.py serving.csv [EVERY]

Every so many-th run of `served.py` (6 if not given) goes through `gambrel.serve_sim` as its
benchmark did: a closed loop of ten requests for each slot with lengths from 80 to 100 % of the
nominal ones, or one burst of equal lengths. A measured answer takes TTFT + (tokens - 1) TPOT.
Columns: those of silicon_sample.csv of ai-dynamo/aiconfigurator, Apache-2.0, Copyright (c)
2025-2026 NVIDIA CORPORATION & AFFILIATES.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

import gambrel
from common import report
from gambrel.errors import GambrelError
from gambrel.llm.serving.outcomes import Outcome
from gambrel.llm.sharding import Sharding
from served import (
    BURSTS,
    DEVICES,
    FORMATS,
    MIXTURES,
    MODELS,
    RUNTIMES,
    Row,
    name_of,
    rows,
    why_apart,
)

SHORTEST, PER_SLOT = 0.8, 10
#: A prediction is of use to a plan where it is within so much.
NEAR = 0.25


def simulated(row: Row, sharding: Sharding, *, burst: bool) -> Outcome:
    """What the requests of a run see.

    Raises:
        GambrelError: The run cannot be asked, or does not fit.
    """
    slots = int(float(row["batch_size"])) * sharding.attention_data
    return gambrel.serve_sim(
        MODELS[name_of(row)],
        DEVICES[row["system"]],
        input=int(float(row["isl"])),
        output=int(float(row["osl"])),
        concurrency=slots,
        shortest=1.0 if burst else SHORTEST,
        requests=slots * (1 if burst else PER_SLOT),
        precision=FORMATS[row["precision"]],
        runtime=RUNTIMES.get(row["backend"], row["backend"]),
        tensor=sharding.tensor,
        attention_data=sharding.attention_data,
        expert=sharding.expert,
        pipeline=sharding.pipeline,
        replicas=1,
        max_devices=sharding.devices,
    ).outcome


def compared(row: Row, sharding: Sharding) -> dict[str, float]:
    """Simulated over measured, by latency."""
    burst = (row["backend"], row["backend_version"]) in BURSTS
    found = simulated(row, sharding, burst=burst)
    ttft, tpot = (float(row[f"silicon_{name}_ms"]) / 1e3 for name in ("ttft", "tpot"))
    tokens = float(row["osl"]) * (1.0 if burst else (1 + SHORTEST) / 2)
    assert found.tpot is not None
    return {
        "TTFT": found.ttft.mean_s / ttft,
        "TPOT": found.tpot.mean_s / tpot,
        "whole answer": found.total.mean_s / (ttft + (tokens - 1) * tpot),
    }


def main() -> None:
    """Prints the table and stores it."""
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    scored = [(r, s) for r, s in rows(Path(sys.argv[1])) if not why_apart(r)]
    ratios = defaultdict[tuple[str, str], list[float]](list)
    apart = 0
    for row, sharding in scored[::every]:
        try:
            found = compared(row, sharding)
        except GambrelError:
            apart += 1
            continue
        model = MODELS[name_of(row)]
        for name, ratio in found.items():
            for group in ("all", "mixtures" if model in MIXTURES else "dense", model):
                ratios[name, group].append(ratio)
    table = [
        [
            *(name, group, str(len(values))),
            f"{statistics.mean(abs(v - 1) for v in values):.1%}",
            f"{statistics.median(values):.2f}",
            f"{statistics.mean(abs(v - 1) <= NEAR for v in values):.0%}",
        ]
        for (name, group), values in sorted(ratios.items())
    ]
    report(
        "served_sim",
        "Served runs against serve-sim, engine named",
        ["latency", "runs of", "runs", "mean error", "median ratio", "within a quarter"],
        table,
        notes=(
            f"Every {every}th of {len(scored):,} runs; {apart} need more devices than stated.",
            "Means over the requests of a run, first wave and end included.",
        ),
    )


if __name__ == "__main__":
    main()
