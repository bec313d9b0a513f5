"""Speed of the simulation of serving: processor time for each request, and of a step time.

    python benchmarks/simulation.py [REQUESTS]

A plan is the best of three; everything else is one run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gambrel
from common import report
from gambrel.llm.serving.trace import read_trace

STEPS = 20_000


def spent(work: Callable[[], object]) -> float:
    """Processor seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def plan() -> object:
    """A plan over many layouts."""
    return gambrel.serve_plan(
        "llama-3.1-70b",
        ["h100", "h200", "b200"],
        max_devices=64,
        input=1024,
        output=1024,
        precision="fp8",
        tpot="20ms",
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rows = []
    for rate, tokens in (("5/s", 256), ("20/s", 256), ("5/s", 2048)):
        asked = {"rate": rate, "input": 1024, "output": tokens, "shortest": 0.5}
        seconds = spent(
            lambda asked=asked: gambrel.serve_sim(
                "llama-3.1-8b", "h100", replicas=2, requests=count, **asked
            )
        )
        rows.append([f"{rate}, {tokens} tokens out", f"{seconds / count * 1e6:.1f}"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        lines = (f"{i / 20},1024,{i % 256 + 1}\n" for i in range(count))
        path.write_text("time,input,output\n" + "".join(lines))
        seconds = spent(lambda: sum(1 for _ in read_trace(path)))
        rows.append(["a trace read alone", f"{seconds / count * 1e6:.1f}"])
    timer = gambrel.StepTimer("llama-3.1-8b", "h100", "vllm")
    contexts = [500 + 10 * i for i in range(64)]
    for name, call in (
        ("decode(64, 3000)", lambda: timer.decode(64, 3000)),
        ("prefill(2000)", lambda: timer.prefill(2000)),
        ("mixed([512], 64 contexts)", lambda: timer.mixed([512], contexts)),
    ):
        seconds = spent(lambda call=call: [call() for _ in range(STEPS)])
        rows.append([name, f"{seconds / STEPS * 1e6:.1f}"])
    seconds = min(spent(plan) for _ in range(3))
    rows.append(["serve-plan, 64 devices of three kinds", f"{seconds * 1e6:,.0f}"])
    report(
        "simulation",
        "Processor time of the simulation of serving",
        ["what", "µs"],
        rows,
        notes=(
            f"{count:,} requests; Llama-3.1-8B on two H100, vLLM; plans: Llama-3.1-70B; "
            "a request or a call.",
        ),
    )


if __name__ == "__main__":
    main()
