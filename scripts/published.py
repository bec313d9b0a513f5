"""Writes the published measurements that the tests hold the speed of light against.

    python scripts/published.py FOLDER

FOLDER holds the collected tables (mlperf_inference.csv, edge_aihub.csv, ...). Taken are rows whose
model and device gambrel knows, all in one form, one file per source in tests/data/published:

    source     where in the source: a path, a row's name
    model      a name of the zoo, configs/NAME.json, torchvision:NAME, kernelbench/NAME.py, op:NAME
    device     a name of the catalog
    precision  the fastest format that the run may have used, where the source does not tell
    batch      items at once; empty where the submitter chose it
    sizes      NAME=NUMBER, separated by blanks
    devices    how many devices share the work; a throughput is per device already
    quantity   throughput_per_s or latency_s
    value      as published, in base units
    note       what a reader must know
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from published_tables import (
    AIHUB,
    HAILO,
    LICENCES,
    MEGATRON,
    MLPERF_DEVICES,
    MLPERF_MODELS,
    NEUSIGHT_DEVICES,
    NEUSIGHT_MODELS,
    SERVED,
    SERVED_DEVICES,
    Row,
)

TARGET = Path(__file__).parents[1] / "tests/data/published"
COLUMNS = tuple(Row.__dataclass_fields__)
#: Rows of single kernels, of each op and device; all are evenly spread over time.
KERNELS_EACH = 60
#: Problems that read values of tensors, or need a package of their own.
NOT_ON_META = {"30_SwinTransformerV2.py", "48_Mamba2ReturnY.py"}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, read in READERS.items():
        write(name, list(read(folder)))
    copy_problems(folder)


def write(name: str, rows: list[Row]) -> None:
    with (TARGET / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {LICENCES[name]}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([getattr(row, column) for column in COLUMNS] for row in rows)
    print(f"{name}: {len(rows)} rows")


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text: str | float) -> str:
    """Four digits are more than any of these measurements repeats to."""
    return f"{float(text):.5g}"


# --- Whole models on data-centre devices ------------------------------------------------------


def mlperf(folder: Path) -> Iterator[Row]:
    """Closed division only: the open one allows other networks under the same name."""
    for r in table(folder, "mlperf_inference"):
        model = MLPERF_MODELS.get(r["model"])
        device = MLPERF_DEVICES.get(r["accelerator"] or r["cpu"])
        if model is None or device is None or (r["valid"], r["division"]) != ("VALID", "closed"):
            continue
        name, sizes, eight_bit, tokens, note = model
        path = (
            r["path"]
            .removeprefix("closed/")
            .removesuffix("/performance/run_1/mlperf_log_summary.txt")
        )
        # "2S" is in the name of all systems without accelerator; both counts are of a node.
        count = float(r["n_accel"] if r["accelerator"] else 2) * float(r["nodes"])
        seconds = "latency" in r["metric"]
        if tokens and seconds:
            continue
        rate = float(r["tokens_per_s"] or float(r["value"]) * tokens) if tokens else r["value"]
        yield Row(
            source=f"v{r['version']} {path}",
            model=name,
            device=device,
            precision=_eight_bit(device, r["model"]) if eight_bit else "fp16",
            batch={"SingleStream": "1", "MultiStream": "8"}.get(r["scenario"], ""),
            sizes=sizes,
            quantity="latency_s" if seconds else "throughput_per_s",
            value=number(float(r["mean_ns"]) / 1e9 if seconds else float(rate) / count),
            note=note,
        )


def _eight_bit(device: str, model: str) -> str:
    """BERT's stricter accuracy class and language models run in fp8 where a device has it."""
    if model in {"resnet50", "bert-99"} or device.startswith(("a30", "a40", "a100", "t4")):
        return "fp16" if model.endswith("99.9") else "int8"
    return "bf16" if device.startswith("xeon") and model.endswith("99.9") else "fp8"


def serving(folder: Path) -> Iterator[Row]:
    """Time per output token; without rows of disaggregated servers and of queued requests."""
    for r in table(folder, "serving"):
        model, device = SERVED.get(r["model_path"]), SERVED_DEVICES.get(r["system"])
        queued = float(r["silicon_ttft_ms"]) > 0.5 * int(r["osl"]) * float(r["silicon_tpot_ms"])
        if model is None or device is None or r["mode"] != "agg":
            continue
        if queued and float(r["batch_size"]) > 64:
            continue
        attention, layout = _served_layout(r)
        precision = r["gemm_quant_mode"] or r["precision"] or "fp8"
        yield Row(
            source=r["id"],
            model=model,
            device=device,
            precision="fp8" if precision.startswith("fp8") else "fp4",
            batch=f"{float(r['batch_size']) * attention:.0f}",
            sizes=f"context={r['isl']}",
            devices=str(layout),
            quantity="latency_s",
            value=number(float(r["silicon_tpot_ms"]) / 1e3),
            note=f"{r['backend']}, time per output token",
        )


def _served_layout(r: dict[str, str]) -> tuple[int, int]:
    """Replicas of attention and devices; some layouts are stored multiplied by themselves."""
    tensor, attention = float(r["tp_size"] or 1), float(r["attention_dp_size"] or 1)
    squared = {64.0: 8, 16.0: 4}
    tensor, replicas = squared.get(tensor, tensor), squared.get(attention, attention)
    devices = tensor if tensor == replicas else tensor * replicas
    return int(replicas), int(devices * float(r["pp_size"] or 1))


def training(folder: Path) -> Iterator[Row]:
    """Tokens per second of a device; recomputed work is not part of the limit."""
    for r in table(folder, "training"):
        found = MEGATRON.get((r["model"].split(" (")[0], r["gpu"]))
        if found is None or not r["tokens_per_s_gpu"] or "NVFP4" in r["precision"]:
            continue
        if "LoRA" in r["section"] or "SFT" in r["section"]:  # fewer gradients, other lengths
            continue
        model, device = found
        yield Row(
            source=f"{r['source']} {r['section']}".strip(),
            model=model,
            device=device,
            precision="bf16" if re.fullmatch(r"(?i)bf16|amp_bf16", r["precision"]) else "fp8",
            batch=f"{float(r['mbs'] or 1):.0f}",
            sizes=f"seq={r['seq']}",
            devices=r["n_gpus"],
            quantity="throughput_per_s",
            value=number(r["tokens_per_s_gpu"]),
            note=f"training, tokens; {r['precision']}",
        )


# --- Small devices ----------------------------------------------------------------------------


def aihub(folder: Path) -> Iterator[Row]:
    """Only what ran on the NPU from the first layer to the last."""
    devices = {
        "Samsung Galaxy S24": "snapdragon-8-gen-3",
        "Snapdragon X Elite CRD": "snapdragon-x-elite",
    }
    for r in table(folder, "edge_aihub"):
        found = AIHUB.get((r["model"], r["component"])) or AIHUB.get((r["model"], ""))
        device = devices.get(r["device"])
        if found is None or device is None or r["unit"] != "NPU":
            continue
        if r["npu_layers"] != r["total_layers"]:
            continue
        yield Row(
            source=f"{r['path'].split('/')[2]} {r['runtime']}",
            model=found[0],
            device=device,
            precision="fp16" if r["precision"] == "float" else "int8",
            batch=r["batch"],
            sizes=found[1],
            quantity="latency_s",
            value=number(float(r["latency_ms"]) / 1e3),
            note=r["precision"],
        )


def hailo(folder: Path) -> Iterator[Row]:
    devices = {"HAILO8": "hailo-8", "HAILO10H": "hailo-10h"}
    for r in table(folder, "edge_hailo"):
        model, device = HAILO.get(r["model"]), devices.get(r["device"])
        if model and device:
            yield Row(
                source=r["path"].removeprefix("docs/public_models/") + " " + r["model"],
                model=model,
                device=device,
                precision="int8",
                quantity="throughput_per_s",
                value=number(r["fps"]),
                note=f"batch {r['batch']}, several frames in flight",
            )


def rknn(folder: Path) -> Iterator[Row]:
    for r in table(folder, "edge_rknn"):
        if r["device"] == "RK3588" and r["model"] == "mobilenetv2-12":
            yield Row(
                source=f"{r['path']} {r['model']}",
                model="mobilenet-v2",
                device="rk3588-npu",
                precision=r["precision"],
                batch="1",
                quantity="latency_s",
                value=number(float(r["latency_ms"]) / 1e3),
                note="one of three cores",
            )


# --- PyTorch ----------------------------------------------------------------------------------


def kernelbench(folder: Path) -> Iterator[Row]:
    devices = {"H100_Modal": "h100-sxm5-80gb", "H100_PCIe_LambdaLabs": "h100-pcie-80gb"}
    for r in table(folder, "kernelbench"):
        if r["problem"] in NOT_ON_META:
            continue
        yield Row(
            source=f"{r['gpu']} {r['stack']}",
            model=f"kernelbench/{r['level']}_{r['problem']}",
            device=devices[r["gpu"]],
            precision="fp32",
            quantity="latency_s",
            value=number(float(r["mean"]) / 1e3),
            note=r["stack"],
        )


def copy_problems(folder: Path) -> None:
    (TARGET / "kernelbench").mkdir(exist_ok=True)
    for path in (folder / "kernelbench").iterdir():
        if not path.name.endswith(tuple(NOT_ON_META)):
            shutil.copyfile(path, TARGET / "kernelbench" / path.name)


def pytorch_models(folder: Path) -> Iterator[Row]:
    """Whole models in eager fp32, forward only."""
    for r in table(folder, "pytorch_fp32_models"):
        device = NEUSIGHT_DEVICES.get(r["gpu"].replace("_", " "))
        name, _, rest = r["run"].partition("-inf-")
        if device and rest and name in NEUSIGHT_MODELS:
            seq, batch = rest.split("-")[:2]
            yield Row(
                source=r["run"],
                model=NEUSIGHT_MODELS[name],
                device=device,
                precision="fp32",
                batch=batch,
                sizes=f"seq={seq}",
                quantity="latency_s",
                value=number(float(r["e2e_latency"]) / 1e3),
            )


def pytorch_kernels(folder: Path) -> Iterator[Row]:
    for name in ("linear", "bmm", "conv", "elem", "ln", "softmax"):
        groups: dict[str, list[dict[str, str]]] = {}
        for r in table(folder, f"pytorch_fp32_{name}"):
            if device := NEUSIGHT_DEVICES.get(r["Device"]):
                groups.setdefault(device, []).append(r)
        for device, rows in groups.items():
            rows.sort(key=lambda r: float(r["Latency"]))
            yield from (_kernel(r, device) for r in _spread(rows, KERNELS_EACH))


def _kernel(r: dict[str, str], device: str) -> Row:
    sizes = {"b": "B", "m": "M", "n": "N", "k": "K", "h": "H"}
    if r["OPName"] == "conv":
        sizes = {
            "b": "B",
            "in": "Input_Channel",
            "out": "Output_Channel",
            "kernel": "Kernel_Szie",
            "image": "Input_Size",
            "stride": "Stride",
            "padding": "Padding",
        }
    return Row(
        source=f"{r['OPName']}",
        model=f"op:{r['OPName']}",
        device=device,
        precision="fp32",
        sizes=" ".join(f"{k}={r[c]}" for k, c in sizes.items() if r.get(c)),
        quantity="latency_s",
        value=number(float(r["Latency"]) / 1e3),
        note="winograd" if "winograd" in r["Kernel Name"].lower() + r["Kernels"].lower() else "",
    )


def _spread(rows: list[Any], count: int) -> Iterable[Any]:
    if len(rows) <= count:
        return rows
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "mlperf_inference": mlperf,
    "serving": serving,
    "training": training,
    "edge_aihub": aihub,
    "edge_hailo": hailo,
    "edge_rknn": rknn,
    "kernelbench": kernelbench,
    "pytorch_models": pytorch_models,
    "pytorch_kernels": pytorch_kernels,
}

if __name__ == "__main__":
    main()
