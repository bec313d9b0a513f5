"""Time of one estimate of a language model's step, in process and from a cold start."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gambrel.llm.prepared import Prepared
from msgspec.structs import replace

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.device.lookup import find
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.step import decode
from gambrel.workload import Symbol

LLAMA_405B = {
    "model_type": "llama",
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
SIZES = {"batch": 16, "context": 2048}


def median_ms(action: Callable[[], object], times: int = 200) -> float:
    action()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1e3


def cold_ms(path: Path, times: int = 11) -> tuple[float, float]:
    """Wall time from start to exit (median), and processor time of one run (mean)."""
    asked = "--hardware h200 --phase decode --batch 16 --context 2048 --precision fp8 --json"
    line = [sys.executable, "-m", "gambrel", "analyze", str(path), *asked.split()]
    found = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(line, check=True, capture_output=True)
        found.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return statistics.median(found) * 1e3, busy / times * 1e3


def main() -> None:
    spec, h200 = read_config(LLAMA_405B), find("h200").device
    symbols = tuple(Symbol(name=n, default=v) for n, v in SIZES.items())
    opened = build(spec, replace(decode("batch", "context"), symbols=symbols))
    prepared = Prepared(opened, h200)
    fixed = build(spec, decode(**SIZES))
    whole = analyze(fixed, h200, Settings()).total
    one = prepared(**SIZES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(LLAMA_405B), encoding="utf-8")
        cold, busy = cold_ms(path)
    assert whole.expected_time_s is not None
    assert one.roofline_time_s == whole.roofline_time_s
    assert one.expected_time_s is not None
    apart = abs(one.expected_time_s / whole.expected_time_s.value - 1)
    rows = [
        ["config.json to record", f"{median_ms(lambda: read_config(LLAMA_405B)):.3f}", ""],
        ["record to workload", f"{median_ms(lambda: build(spec, decode(**SIZES))):.3f}", ""],
        ["one estimate, prepared", f"{median_ms(lambda: prepared(**SIZES)):.3f}", "1"],
        [
            "whole analysis, each op's record",
            f"{median_ms(lambda: analyze(fixed, h200), 50):.3f}",
            "",
        ],
        ["cold command, process start to exit", f"{cold:.0f}", "500"],
        ["  of it processor time", f"{busy:.0f}", ""],
    ]
    report(
        "llm",
        "One decode step of a 126-layer model",
        ["what", "ms (median)", "target, ms"],
        rows,
        notes=[
            "Llama 3.1 405B, batch 16, 2,048 positions, H200; bound and expected time. The "
            f"prepared roofline equals the analysis ({one.roofline_time_s:.6f} s), the "
            f"expected time differs by {apart:.1e}.",
            f"{os.getloadavg()[0]:.1f} processes ran on {os.cpu_count()} cores; with more than "
            "there are cores, the processor time of the command is what a quiet machine takes.",
        ],
    )


if __name__ == "__main__":
    main()
