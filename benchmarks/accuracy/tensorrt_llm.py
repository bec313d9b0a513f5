"""Language models served by TensorRT-LLM, offline and online, as published; nothing is fitted.

The rows come with the project (benchmarks/data/trtllm); no folder is read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.accuracy import Run, Score

import gambrel

DATA = Path(__file__).parents[1] / "data/trtllm"
#: Requests of a run by tokens in and out; 3,000 for others.
REQUESTS = {
    (128, 128): 30_000,
    (128, 4096): 1_500,
    (1000, 2000): 1_500,
    (2048, 2048): 1_500,
    (5000, 500): 1_500,
    (20000, 2000): 1_000,
}
#: Most requests in flight that trtllm-bench asks for.
MOST = 4096
MIXTURES = frozenset(
    {
        "llama-4-maverick",
        "llama-4-scout",
        "mixtral-8x22b",
        "mixtral-8x7b",
        "qwen3-235b-a22b",
        "qwen3-30b-a3b",
    }
)
PCIE = frozenset({"a100-pcie-80gb", "l40s", "rtx-pro-6000-blackwell"})
#: Weights of a 70B model fill these: what is left for the cache is not known to a tenth.
FULL = frozenset({("h100-sxm5-80gb", "fp8", 1), ("h100-sxm5-80gb", "fp16", 2)})
FULL |= {(name, "fp16", 2) for name in ("a100-sxm4-80gb", "a100-pcie-80gb")}

#: A request in Triton, a server in C++: an assumption.
TRITON_S = 1e-3

Row = dict[str, str]


def score(_folder: Path) -> Iterable[Score]:
    """Offline by kind of model, what joins the devices, and version; online by latency."""
    offline: dict[tuple[str, str], list[Run]] = {}
    for row in _rows("rows.csv"):
        if not _full(row):
            offline.setdefault(_family(row), []).append(_run(row))
    for (what, version), runs in sorted(offline.items()):
        yield Score(
            what=f"offline, {what}, TensorRT-LLM {version}",
            runs=runs,
            held_out="one constant of PCIe fitted" if "PCIe" in what else "no row fitted",
            family=f"served offline, {what}, TensorRT-LLM {version}",
        )
    online: dict[str, list[Run]] = {}
    for row in _rows("online.csv"):
        for what, run in _online(row):
            online.setdefault(what, []).append(run)
    for what, runs in sorted(online.items()):
        family = f"served behind Triton at 2 to 32 requests/s, {what}"
        yield Score(what=family, runs=runs, held_out="no row fitted", family=family)


def _rows(name: str) -> Iterator[Row]:
    with (DATA / name).open(newline="") as file:
        yield from csv.DictReader(file)


def _full(row: Row) -> bool:
    place = row["device"], row["precision"], int(row["tensor"])
    return "70b" in row["model"] and place in FULL


def _family(row: Row) -> tuple[str, str]:
    kind = "mixtures" if row["model"] in MIXTURES else "dense models"
    if _divided(row):
        where = "attention divided by data (assumed)"
    elif int(row["tensor"]) * int(row["pipeline"]) == 1:
        where = "one GPU"
    elif row["device"] in PCIE:
        where = "pipelines over PCIe" if int(row["pipeline"]) > 1 else "over PCIe"
    else:
        where = "tensor parallel"
    return f"{kind}, {where}", row["version"]


def _divided(row: Row) -> bool:
    """Mixtures of PyTorch's engine on several devices."""
    return row["version"] == "1.0" and row["model"] in MIXTURES and int(row["tensor"]) > 1


def _run(row: Row) -> Run:
    tensor, pipeline = int(row["tensor"]), int(row["pipeline"])
    lengths = int(row["input"]), int(row["output"])
    groups = tensor if _divided(row) else 1
    asked = {
        "input": lengths[0],
        "output": lengths[1],
        "arrivals": "offline",
        "precision": row["precision"] + ("" if row["precision"] == "fp16" else ",kv=fp8"),
        "runtime": "tensorrt-llm",
        "tensor": tensor,
        "pipeline": pipeline,
        "attention_data": groups,
        "expert": groups,
        "max_devices": tensor * pipeline,
        "max_requests": MOST,
        "utilization": 0.95,
    }
    found = gambrel.serve_sim(
        row["model"],
        row["device"],
        requests=REQUESTS.get(lengths, 3_000),
        replicas=1,
        **asked,
    )
    measured = 1 / float(row["tokens_per_s"])
    seconds, step = 1 / found.outcome.tokens_per_s, found.step
    layout = f"TP{tensor}" + (f" PP{pipeline}" if pipeline > 1 else "")
    return Run(
        name=f"{row['model']} {row['device']} {row['precision']} {layout} "
        f"{row['input']}/{row['output']} ({row['version']})",
        measured=measured,
        expected=seconds,
        low=seconds * step.low / step.value if step else None,
        high=seconds * step.high / step.value if step else None,
        sol=_light(row, asked),
    )


def _light(row: Row, asked: dict[str, Any]) -> float:
    """Speed of light of the decode steps alone, a token, with as many in flight as fit."""
    asked = {**asked, "precision": [asked["precision"]], "layouts": 1}
    plan = gambrel.serve_plan(row["model"], row["device"], **asked)
    point = max(plan.points, key=lambda p: p.batch)
    return point.sol_tpot_s / point.batch


def _online(row: Row) -> Iterator[tuple[str, Run]]:
    tensor = int(row["tensor"])
    found = gambrel.serve_sim(
        row["model"],
        row["device"],
        input=int(row["input"]),
        output=int(row["output"]),
        rate=float(row["per_s"]),
        requests=500,
        precision="bf16",
        runtime="tensorrt-llm",
        tensor=tensor,
        replicas=1,
        max_devices=tensor,
        frontend=TRITON_S,
    )
    name = f"{row['model']} {row['device']} {row['input']}/{row['output']} at {row['per_s']}/s"
    step, first, tpot = found.step, found.ttft, found.outcome.tpot
    assert step is not None
    assert first is not None
    assert tpot is not None
    between = step.times(tpot.mean_s / step.value)
    times = (
        ("time between tokens", row["itl_ms"], between),
        ("time to first token", row["ttft_ms"], first),
    )
    for what, measured, time in times:
        seconds = float(measured) / 1e3
        yield (
            what,
            Run(name=name, measured=seconds, expected=time.value, low=time.low, high=time.high),
        )
