"""Language models on MI300X with vLLM, one version by the other; and MLPerf's Llama-2-70B.

FOLDER/truth/mlperf_inference.csv (MLPerf Inference v4.0, v4.1; Apache-2.0): prompts of 294 tokens
are assumed, as long as the answers; a system is asked for its best layout.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.accuracy import Run, Score

import gambrel

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_rocm
from gambrel.runtimes import runtime

MLPERF = "MLPerf llama2-70b offline, serving engines (prompts assumed)"
TOKENS = 294
#: Accelerator as MLPerf names it → device, engine.
DEVICES = {
    "AMD Instinct MI300X-NPS1-SPX-192GB-750W": ("mi300x", "vllm"),
    "NVIDIA GH200 Grace Hopper Superchip 96GB": ("gh200-96gb", "tensorrt-llm"),
    "NVIDIA H100-NVL-94GB": ("h100-nvl-94gb", "tensorrt-llm"),
    "NVIDIA H100-PCIe-80GB": ("h100-pcie-80gb", "tensorrt-llm"),
    "NVIDIA H100-SXM-80GB": ("h100-sxm5-80gb", "tensorrt-llm"),
    "NVIDIA H200-SXM-141GB": ("h200-sxm-141gb", "tensorrt-llm"),
    "NVIDIA H200-SXM-141GB-CTS": ("h200-sxm-141gb", "tensorrt-llm"),
}


def score(folder: Path) -> Iterable[Score]:
    """Both."""
    what = "served offline, Llama 3.1 on eight MI300X, vLLM"
    yield Score(what=what, runs=list(_rocm()), held_out="leave one version out", family=what)
    yield Score(what=MLPERF, runs=list(_mlperf(folder)), held_out="no row fitted", family=MLPERF)


def _rocm() -> Iterator[Run]:
    service = runtime("vllm").service
    assert service is not None
    data = fit_rocm.rows()
    for version in sorted({r.version for r in data}):
        own = fit_rocm.fit([r for r in data if r.version != version], service)
        for i, row in enumerate(r for r in data if r.version == version):
            seconds = fit_rocm.predicted(row, own, service)
            low, high = (seconds * end for end in fit_rocm.RANGE)
            yield Run(
                name=f"{version}, row {i + 1}",
                measured=row.measured_s,
                expected=seconds,
                low=low,
                high=high,
                sol=max(row.memory_s, row.matrix_s),
            )


def _mlperf(folder: Path) -> Iterator[Run]:
    seen: set[tuple[str, int, str]] = set()
    with (folder / "truth/mlperf_inference.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            whole = r["model"] == "llama2-70b-99.9" and r["scenario"] == "Offline"
            one = r["division"] == "closed" and r["nodes"] == "1" and r["accelerator"] in DEVICES
            key = (r["accelerator"], int(float(r["n_accel"])), r["tokens_per_s"])
            if whole and one and key not in seen:
                seen.add(key)
                yield _system(*key)


def _system(accelerator: str, count: int, tokens_per_s: str) -> Run:
    device, engine = DEVICES[accelerator]
    measured = 1 / float(tokens_per_s)
    best = None
    for tensor in (1, 2, 4, 8):
        if tensor > count:
            break
        plan = gambrel.serve_plan(
            "llama-2-70b",
            device,
            input=TOKENS,
            output=TOKENS,
            precision=["fp8,kv=fp8"],
            runtime=engine,
            arrivals="offline",
            tensor=tensor,
            max_devices=tensor,
            utilization=0.95,
            layouts=1,
        )
        if plan.best:
            choice = plan.best[0]
            rate = choice.point.tokens_per_s * (count // tensor)
            best = max(best or (0.0, choice), (rate, choice), key=lambda pair: pair[0])
    assert best is not None
    rate, choice = best
    tpot = choice.tpot
    assert tpot is not None
    return Run(
        name=f"{accelerator} x{count}",
        measured=measured,
        expected=1 / rate,
        low=tpot.low / tpot.value / rate,
        high=tpot.high / tpot.value / rate,
    )
