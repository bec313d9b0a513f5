"""Measured runs of MLPerf Inference, read from the collected table; see its README for traps.

Offline is a throughput at a batch that the submitter chose: any that fits is allowed, so the best
of several counts. SingleStream is the mean latency of one sample, MultiStream of eight. Left out:
the open division, systems that were tuned for power (MaxQ), servers (Triton), accelerators that the
catalog has not, models that the zoo has not (RNN-T), GPT-J, whose beams of four are no mode of the
serving models, DLRM, whose tables lie in several memories, and 3D-UNet at 99.9 %, which repeats 99.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gambrel
from gambrel.analysis.estimate.engine_work import EngineTable
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.ops import Conventions
from gambrel.runtimes import runtime

#: Accelerator → catalog.
GPUS = {
    "NVIDIA A100-PCIe-80GB": "a100-pcie-80gb",
    "NVIDIA A100-SXM-80GB": "a100-sxm4-80gb",
    "NVIDIA A2": "a2",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA GH200 Grace Hopper Superchip 96GB": "gh200-96gb",
    "NVIDIA H100-NVL-94GB": "h100-nvl-94gb",
    "NVIDIA H100-PCIe-80GB": "h100-pcie-80gb",
    "NVIDIA H100-SXM-80GB": "h100-sxm5-80gb",
    "NVIDIA H200-SXM-141GB": "h200-sxm-141gb",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA T4": "t4",
}
#: Processor → catalog; two sockets in each system, and the rows are of both.
PROCESSORS = {
    "Intel(R) Xeon(R) Platinum 8480+": "xeon-8480+",
    "INTEL(R) XEON(R) 6980P": "xeon-6980p",
}
#: Benchmark → name in the zoo and batches that Offline is asked at. Questions of SQuAD are taken to
#: have 178 tokens on average: an assumption without a source; engines leave the padding out.
MODELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "resnet50": ("resnet50", (1, 8, 32, 128, 512, 2048)),
    "retinanet": ("retinanet-resnext50", (1, 2, 8, 16, 32)),
    "bert-99": ("bert-large", (1, 8, 32, 128, 512, 1024)),
    "bert-99.9": ("bert-large", (1, 8, 32, 128, 512, 1024)),
    "stable-diffusion-xl": ("stable-diffusion-xl", (1, 8, 32)),
    "3d-unet-99": ("3d-unet", (1, 2, 4, 8)),
}
#: Runs of the network in a sample. Scans of KiTS19 are cut into windows of 128 x 128 x 128 that
#: overlap by half: 2,636 in 42 scans, and 125 in the copy of case 185 that is the 43rd (shapes of
#: the scans after preprocessing: itu-rad/collocation-benchmark @b30121c2,
#: evaluation/unet3d/results/choreo_dice_cuda.csv; of D x H x W, (D/64 - 1)(H/64 - 1)(W/64 - 1)).
PARTS = {"3d-unet-99": (2636 + 125) / 43}
SIZES = {"bert-99": (("seq", 178),), "bert-99.9": (("seq", 178),)}
#: Steps of the sampler in MLPerf.
STEPS = 20
#: Samples of a query.
SAMPLES = {"SingleStream": 1, "MultiStream": 8}
SOCKETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Equal runs of several submitters, of which the median counts.

    Attributes:
        model: Benchmark.
        device: Id in the catalog.
        runtime: Id.
        precision: Number format of the submissions.
        scenario: ``Offline``, ``SingleStream`` or ``MultiStream``.
        version: Of MLPerf.
        seconds: Of a sample (Offline) or of a query.
        rows: Submissions.
        group: What is left out together: BERT's two accuracies are one model.
        batches: At which it is asked; the best counts.
        called: Whether the stopwatch ran around a call from Python.
        sizes: Of the model, beside the batch.
    """

    model: str
    device: str
    runtime: str
    precision: str
    scenario: str
    version: str
    seconds: float
    rows: int
    group: str
    batches: tuple[int, ...]
    called: bool = False
    sizes: tuple[tuple[str, int], ...] = ()


def rows(folder: Path) -> list[Row]:
    """All that can be scored."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with (folder / "truth/mlperf_inference.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            key = _key(r)
            if key is not None:
                found[key].append(_seconds(r, key) / PARTS.get(r["model"], 1.0))
    return [
        Row(
            model=k[0], device=k[1], runtime=k[2], precision=k[3], scenario=k[4], version=k[5],
            seconds=statistics.median(v), rows=len(v), group=k[0].partition("-")[0],
            batches=MODELS[k[0]][1] if k[4] == "Offline" else (SAMPLES[k[4]],),
            sizes=SIZES.get(k[0], ()),
        )
        for k, v in sorted(found.items())
    ]  # fmt: skip


def _key(r: dict[str, str]) -> tuple[str, ...] | None:
    device = GPUS.get(r["accelerator"]) or (
        PROCESSORS.get(r["cpu"]) if not r["accelerator"] else None
    )
    usable = r["division"] == "closed" and r["valid"] == "VALID" and r["model"] in MODELS
    apart = any(name in r["system"] for name in ("MaxQ", "Triton"))
    if device is None or not usable or apart or not _scenario(r):
        return None
    name = "tensorrt" if r["accelerator"] else "ipex"
    return r["model"], device, name, _precision(r["model"], device), r["scenario"], r["version"]


def _scenario(r: dict[str, str]) -> bool:
    # Of RetinaNet's MultiStream some rows repeat SingleStream's figure.
    return r["scenario"] in ("Offline", "SingleStream") or (
        r["scenario"] == "MultiStream" and r["model"] == "resnet50"
    )


def _precision(model: str, device: str) -> str:
    """As submitted: BERT at 99.9 % and SDXL in fp8 where there is one on Hopper."""
    hopper = device.startswith(("h100", "h200", "gh200"))
    if model == "bert-99.9":
        return "fp8" if hopper else "fp16"
    if model == "stable-diffusion-xl":
        return "fp8" if hopper else "int8"
    return "int8"


def _seconds(r: dict[str, str], key: tuple[str, ...]) -> float:
    if key[4] != "Offline":
        return float(r["mean_ns"]) / 1e9
    count = float(r["n_accel"]) if r["accelerator"] else SOCKETS
    return count / float(r["value"])


@cache
def bench(model: str, batch: int, own: tuple[tuple[str, int], ...] = ()) -> Workbench:
    """The workload at a batch and sizes of its own."""
    name = MODELS[model][0] if model in MODELS else model
    sizes = {"steps": STEPS} if name == "stable-diffusion-xl" else {}
    workload = gambrel.load_model(name, sizes=sizes) if sizes else gambrel.load_model(name)
    values = workload.resolve_symbols({"batch": batch, **dict(own)})
    return Workbench(workload, values, Conventions())


def tables(row: Row) -> Iterator[tuple[int, EngineTable]]:
    """Batch and work at each batch."""
    for batch in row.batches:
        yield batch, _table(row, batch)


def _table(row: Row, batch: int) -> EngineTable:
    return _engine_table(row.model, batch, row.sizes, row.precision, row.runtime)


@cache
def _engine_table(
    model: str, batch: int, sizes: tuple[tuple[str, int], ...], precision: str, name: str
) -> EngineTable:
    # On-chip memory takes no part in an engine's table, so any device serves.
    device = load("h100-sxm5-80gb" if name == "tensorrt" else "xeon-8480+")
    plan = Machine(device, Settings()).plan(runtime(name))
    return bench(model, batch, sizes).table(precision, plan).engine
