"""Time of one estimate of a language model's step, in process and from a cold start."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from common import report
from gambrel.analysis.analyze import analyze
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import sweep
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.lookup import find
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.step import decode
from gambrel.ops import Conventions
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
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return statistics.median(found) * 1e3


def cold_ms(path: Path, times: int = 11) -> float:
    """Processor time of a run from start to exit, mean: what a quiet machine takes."""
    asked = "--hardware h200 --phase decode --batch 16 --context 2048 --precision fp8 --json"
    line = [sys.executable, "-m", "gambrel", "analyze", str(path), *asked.split()]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        subprocess.run(line, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return busy / times * 1e3


def main() -> None:
    spec, h200 = read_config(LLAMA_405B), find("h200").device
    symbols = tuple(Symbol(name=n, default=v) for n, v in SIZES.items())
    opened = build(spec, replace(decode("batch", "context"), symbols=symbols))
    fixed = build(spec, decode(**SIZES))
    settings = Settings(runtime="vllm")
    whole = analyze(fixed, h200, settings).total
    bench, machine = Workbench(fixed, {}, Conventions()), Machine(h200, settings)
    one = answered(bench, machine, settings)
    points = {"batch": range(1, 1001), "context": [2048]}
    many = sweep(opened, [h200], [None], points, settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(LLAMA_405B), encoding="utf-8")
        cold = cold_ms(path)
    assert whole.expected_time_s is not None
    assert one.held.time_s == whole.roofline_time_s
    assert one.expected.total is not None
    apart = abs(many.expected_time_s[15] / whole.expected_time_s.value - 1)
    rows = [
        ["config.json to record", f"{median_ms(lambda: read_config(LLAMA_405B)):.3f}", ""],
        ["record to workload", f"{median_ms(lambda: build(spec, decode(**SIZES))):.3f}", ""],
        [
            "one answer, table made",
            f"{median_ms(lambda: answered(bench, machine, settings)):.3f}",
            "1",
        ],
        [
            "one of 1,000 points of a sweep",
            f"{median_ms(lambda: sweep(opened, [h200], [None], points, settings), 20) / 1e3:.3f}",
            "0.5",
        ],
        [
            "whole analysis, each op's record",
            f"{median_ms(lambda: analyze(fixed, h200, settings), 50):.3f}",
            "",
        ],
        ["cold command, process start to exit", f"{cold:.0f}", "500"],
    ]
    report(
        "llm",
        "One decode step of a 126-layer model",
        ["what", "ms of CPU (median)", "target, ms"],
        rows,
        notes=[
            "Llama 3.1 405B, batch 16, 2,048 positions, H200, vLLM; speed of light, roofline and "
            f"expected time. The roofline of an answer equals the analysis ({one.held.time_s:.6f} "
            f"s), the expected time of the sweep differs by {apart:.1e}.",
        ],
    )


if __name__ == "__main__":
    main()
