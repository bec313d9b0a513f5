"""A million points of a language model: batch x context x layout x precision x device.

    python benchmarks/llm_sweep.py

Every point is a decode step with its speed of light, roofline and expected time, as
`gambrel.analysis` gives them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from common import report
from gambrel.analysis.sweep import sweep
from gambrel.device.lookup import find
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.steps import symbolic
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import decode
from gambrel.llm.topology import topology_for

BATCHES = tuple(range(1, 101))
CONTEXTS = tuple(range(256, 256 + 100 * 1024, 1024))
LAYOUTS = (
    *(Sharding(tensor=t) for t in (1, 2, 4, 8)),
    *(Sharding(tensor=t, pipeline=2) for t in (1, 2, 4)),
)
PRECISIONS = ("bf16", "fp8", "w4a16")
DEVICES = ("a100", "h100", "h200", "b200", "mi300x")
MODELS = ("llama-3.1-70b", "qwen3-235b-a22b", "deepseek-v3")
PLAN = """
import time; start = time.perf_counter()
import gambrel
plan = gambrel.serve_plan("llama-3.1-70b", ["h100", "h200", "b200"], input="8k", output="1k",
    max_devices=64, ttft="1s", tpot="30ms", precision=["fp8", "bf16"])
print(time.perf_counter() - start, time.process_time(), len(plan.points))
"""


def main() -> None:
    rows = []
    for name in MODELS:
        spec = spec_of(name)
        start, points, checked = time.perf_counter(), 0, 0.0
        for precision in PRECISIONS:
            formats = Precisions.parse(precision)
            for layout in LAYOUTS:
                step = symbolic(decode("batch", "context"), {"batch": BATCHES, "context": CONTEXTS})
                for device in (find(d).device for d in DEVICES):
                    node = topology_for(device)
                    workload = build_rank(spec, step, formats, layout, topology=node)
                    found = sweep(
                        workload,
                        [node.place(device, layout.devices)],
                        [None],
                        {"batch": BATCHES, "context": CONTEXTS},
                    )
                    points += len(found)
                    checked += float(np.isfinite(found.expected_time_s).mean())
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rows.append(
            [name, f"{points:,}", f"{seconds:.1f}", f"{points / seconds:,.0f}", f"{peak:.2f}"]
        )
    plan = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True)
    taken, busy, compared = plan.stdout.split()
    report(
        "llm_sweep",
        "Sweeps of language models",
        ["model", "points", "s", "points/s", "peak GB"],
        rows,
        notes=[
            "Decode steps over batch, context, layout, precision and device; speed of light, "
            "roofline and expected time at every point, one process. Target: 1e6 points in under "
            "20 s and 2 GB.",
            f"A plan over 1 to 64 devices of three types in two formats under a target: "
            f"{float(taken):.2f} s from `import gambrel` on ({float(busy):.2f} s of processor "
            f"time, the start of Python included), {compared} points compared. Target: under 2 s.",
        ],
    )


if __name__ == "__main__":
    main()
