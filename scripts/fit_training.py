"""Fit the constants of training steps to published ones: ``python scripts/fit_training.py FOLDER``.

FOLDER holds ``truth/training.csv``. Each model is left out in turn for the errors that are printed;
the constants of ``src/gambrel/llm/training.toml`` come from all rows. With ``--write`` they are
stored.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import least_squares

from gambrel.analysis.settings import Settings
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import GambrelError
from gambrel.llm import training, training_time
from gambrel.llm.config.read import read_config
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import topology_for
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import Parts, Stack

#: MPT models of llm-foundry: width, layers, heads (mosaicml/llm-foundry, train/yamls/pretrain;
#: 12 x layers x width^2 + 50,368 x width are the parameters that the table states).
MPT = {
    "mpt-125m": (768, 12, 12), "mpt-760m": (1536, 24, 12), "mpt-1b": (2048, 24, 16),
    "mpt-3b": (2560, 32, 20), "mpt-7b": (4096, 32, 32), "mpt-13b": (5120, 40, 40),
    "mpt-30b": (7168, 48, 56), "mpt-70b": (8192, 80, 64),
}  # fmt: skip
NAMES = {
    "LLAMA3.1_405B": "llama-3.1-405b", "llama3.1-405b": "llama-3.1-405b",
    "LLAMA3_70B": "llama-3.1-70b", "LLAMA3_8B": "llama-3.1-8b", "LLAMA3-8B": "llama-3.1-8b",
    "llama3.1-8b": "llama-3.1-8b", "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b", "GPT OSS 120B": "gpt-oss-120b",
    "Nemotron_3_Nano": "nemotron-3-nano",
    "Kimi_K2": "kimi-k2", "llama2-7b": "llama-2-7b", "llama2-70b": "llama-2-70b",
    "DeepSeekV3": "deepseek-v3", "DeepSeekV3 (w/o MTP)": "deepseek-v3",
}  # fmt: skip
#: Devices of the table, and what a node of theirs sends to others: per device, byte/s.
DEVICES = {
    "h100_80gb": ("h100-sxm5-80gb", 50e9), "a100_80gb": ("a100-sxm4-80gb", 25e9),
    "a100_40gb": ("a100-sxm4-40gb", 25e9), "DGX-H100": ("h100-sxm5-80gb", 50e9),
    "DGX-B200": ("b200-hgx-180gb", 50e9), "DGX-B300": ("b300-hgx-270gb", 100e9),
    "DGX-GB200": ("gb200-186gb", 50e9), "DGX-GB300": ("gb300-279gb", 100e9),
    "A100-80GB": ("a100-sxm4-80gb", 25e9), "H200": ("h200-sxm-141gb", 50e9),
    "H100": ("h100-sxm5-80gb", 50e9),
}  # fmt: skip
FORMATS = {
    "amp_bf16": "bf16", "bf16": "bf16", "BF16": "bf16", "MXFP8": "fp8", "FP8": "fp8",
    "fp8": "fp8", "FP8-MX": "fp8", "FP8-CS": "fp8", "FP8 hybrid": "fp8", "NVFP4": "nvfp4",
    "FP8-CS (FP8-MX)": "fp8", "amp_fp8": "fp8",
}  # fmt: skip
#: Constants that are fitted, and the range in which each may lie.
SHARED = {
    "expert_share": (0.3, 1.0), "narrow_experts": (0.3, 1.0), "expert_passes": (5, 100),
    "tensor_shown": (0.05, 1.0), "expert_shown": (0.05, 1.0), "gradient_shown": (0.05, 1.0),
    "network": (0.3, 0.95), "passes": (10, 120),
    "eager_passes": (100, 400), "host_layer_s": (1e-4, 5e-3), "host_experts_s": (1e-4, 2e-2),
}  # fmt: skip
OWN = {"attention": (0.08, 0.6)}
#: Not fitted: attention sinks without a fused kernel until 2026, half of the speed after it.
#: Nor hybrids, whose norms and convolutions between scans are no pass over the stream.
HELD = ("gpt oss 120b", "nemotron3nano")
GEMM = (0.2, 0.9)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published step."""

    model: str
    stack: str
    name: str
    parts: Parts
    microbatches: int
    idle: float
    measured_s: float
    sol_s: float


def spec(name: str) -> ModelSpec | None:
    """The model of a row; None where its architecture is not known here."""
    if name in MPT:
        width, layers, heads = MPT[name]
        config = {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads}
        return read_config({**config, "vocab_size": 50368, "n_positions": 65536}, name)
    known = NAMES.get(name.removesuffix(" (tokendrop)"))
    return None if known is None else spec_of(known)


def number(row: dict[str, str], key: str, default: float = 1) -> int:
    """A whole number of a row."""
    return int(float(row[key] or default))


def rows(folder: Path) -> Iterator[Row]:
    """Every step that can be expressed; what cannot be is counted and named."""
    skipped: dict[str, int] = defaultdict(int)
    for row in csv.DictReader((folder / "truth" / "training.csv").open(encoding="utf-8")):
        try:
            yield of(row)
        except (GambrelError, ValueError) as error:
            skipped[f"{row['model']}: {str(error)[:70]}"] += 1
    for why, count in sorted(skipped.items()):
        print(f"left out {count:3}  {why}")


def of(row: dict[str, str]) -> Row:
    """A row as the form sees it."""
    model, form = spec(row["model"]), FORMATS.get(row["precision"])
    if model is None or form is None or row["gpu"] not in DEVICES:
        raise ValueError("model, format or device not known here")
    if "LoRA" in row["section"] or "SFT" in row["section"] or row["fsdp"] == "HSDP":
        raise ValueError("not pre-training of all parameters")
    device_id, network = DEVICES[row["gpu"]]
    device = resolve_hardware(device_id)[0]
    node = msgspec.structs.replace(
        topology_for(device), network_byte_per_s=network, source="scripts/fit_training.py"
    )
    plan = plan_of(row, model)
    precisions = Precisions.parse(form)
    eager = Settings(runtime="pytorch") if row["model"] in MPT else None
    step = training.train(model, device, plan, precisions=precisions, topology=node, settings=eager)
    if step.parts is None:
        raise ValueError("no stack")
    stack = training_time.stack_of(device)
    assert stack is not None
    tokens = float(row["tokens_per_s_gpu"])
    return Row(
        model=row["model"].removesuffix(" (w/o MTP)").lower().replace("_", "").replace("3.1", "3"),
        stack=stack.name,
        name=f"{row['gpu']} {row['model']} {row['precision']} x{row['n_gpus']} seq {row['seq']}",
        parts=step.parts,
        microbatches=plan.microbatches,
        idle=plan.idle,
        measured_s=plan.tokens / plan.sharding.devices / tokens,
        sol_s=step.sol_step_s or 0.0,
    )


def plan_of(row: dict[str, str], model: ModelSpec) -> TrainingPlan:
    """The layout of a row; experts over data replicas are groups of their own sequences."""
    devices = number(row, "n_gpus")
    tensor, stages, context = (number(row, key) for key in ("tp", "pp", "cp"))
    expert = number(row, "ep") if model.mixtures else 1
    groups = max(1, expert // tensor)
    replicas = devices // (tensor * stages * context)
    if replicas * tensor * stages * context != devices or replicas % groups:
        raise ValueError("the layout does not divide the devices")
    sequences = number(row, "mbs")
    batch = number(row, "gbs", 0)
    passes = number(row, "ga") if row["ga"] else max(1, batch // (sequences * replicas))
    zero = {"FULL_SHARD": 3, "FSDP": 3, "SHARD_GRAD_OP": 2}.get(row["fsdp"], 1)
    return TrainingPlan(
        sequences=sequences,
        seq=number(row, "seq"),
        sharding=Sharding(
            tensor=tensor * groups,
            attention_data=groups,
            expert=max(expert, 1),
            pipeline=stages,
            context=context,
            data=replicas // groups,
        ),
        microbatches=passes,
        zero=zero,
        recompute={"True": "full", "full": "full", "selective": "selective"}.get(
            row["recompute"], "none"
        ),
        virtual=number(row, "vp") if stages > 1 else 1,
    )


class Vector:
    """The constants as one vector of logarithms."""

    def __init__(self, stacks: tuple[Stack, ...]) -> None:
        self.stacks = stacks
        self.keys: list[tuple[str, str, tuple[float, float]]] = []
        for one in stacks:
            self.keys += [(one.name, f"gemm.{k}", GEMM) for k in one.gemm]
            self.keys += [(one.name, k, limits) for k, limits in OWN.items()]
        self.keys += [("", k, limits) for k, limits in SHARED.items()]

    def start(self) -> np.ndarray:
        first = {one.name: one for one in self.stacks}
        values = []
        for name, key, (low, high) in self.keys:
            one = first[name] if name else self.stacks[0]
            value = one.gemm[key[5:]] if key.startswith("gemm.") else getattr(one, key)
            values.append(min(max(value, low * 1.01), high * 0.99))
        return np.log(values)

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        return np.log([k[2][0] for k in self.keys]), np.log([k[2][1] for k in self.keys])

    def filled(self, logs: np.ndarray) -> dict[str, Stack]:
        values = dict(zip([(n, k) for n, k, _ in self.keys], np.exp(logs).tolist(), strict=True))
        shared = {k: v for (n, k), v in values.items() if not n}
        found = {}
        for one in self.stacks:
            gemm = {k: values[one.name, f"gemm.{k}"] for k in one.gemm}
            own = {k: values[one.name, k] for k in OWN}
            found[one.name] = msgspec.structs.replace(one, gemm=gemm, **own, **shared)
        return found


def fit(data: list[Row], vector: Vector) -> dict[str, Stack]:
    """Constants with the least error in logarithms, a weak pull to where they start."""
    start = vector.start()
    count: dict[str, int] = defaultdict(int)
    data = [row for row in data if row.model not in HELD]
    for row in data:
        count[row.model] += 1
    weights = np.array([1 / math.sqrt(count[row.model]) for row in data])

    def residuals(logs: np.ndarray) -> np.ndarray:
        own = vector.filled(logs)
        errors = [math.log(predicted(row, own) / row.measured_s) for row in data]
        return np.concatenate([weights * errors, 0.05 * (logs - start)])

    done = least_squares(residuals, start, bounds=vector.limits(), loss="soft_l1", f_scale=0.15)
    return vector.filled(done.x)


def predicted(row: Row, own: dict[str, Stack]) -> float:
    """Seconds by a set of constants, never below the speed of light."""
    return max(
        training_time.step_s(row.parts, own[row.stack], row.microbatches, row.idle), row.sol_s
    )


def main() -> None:
    """Fits, prints the errors by model, and stores the constants where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="store the constants")
    asked = parser.parse_args()
    data = list(rows(asked.folder))
    here = {row.stack for row in data}  # TPUs have a script of their own
    vector = Vector(tuple(s for s in training_time.stacks() if s.name in here))
    whole = fit(data, vector)
    ratios: dict[str, list[float]] = defaultdict(list)
    sides: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for model in sorted({row.model for row in data}):
        own = fit([row for row in data if row.model != model], vector)
        for row in data:
            if row.model == model:
                ratio = predicted(row, own) / row.measured_s
                ratios[model].append(ratio)
                kind = "mixture" if row.parts.mixtures else "dense"
                sides[f"{row.stack} {kind}"].append((ratio, True))
    for model, own_ratios in ratios.items():
        errors = [abs(r - 1) for r in own_ratios]
        bias = np.mean(own_ratios) - 1
        print(f"{model:20} {len(errors):3} rows  {np.mean(errors):6.1%}  bias {bias:+.1%}")
    for kind, pairs in sorted(sides.items()):
        errors = [abs(r - 1) for r, _ in pairs]
        mean, median = np.mean(errors), np.median(errors)
        print(f"left out: {kind:20} {len(errors):3} rows  {mean:6.1%}  median {median:.1%}")
    below = [row.name for row in data if row.measured_s < row.sol_s]
    print("faster than the speed of light:", below or "none")
    for one in whole.values():
        print(json.dumps(msgspec.to_builtins(one)))
    if asked.write:
        store(whole, data, ratios)


def store(whole: dict[str, Stack], data: list[Row], ratios: dict[str, list[float]]) -> None:
    """Writes the constants with the spread of the rows that were left out."""
    left: dict[str, list[float]] = defaultdict(list)
    for model in sorted(ratios):
        own = [row for row in data if row.model == model]
        for row, ratio in zip(own, ratios[model], strict=True):
            left[row.stack].append(ratio)
    text = HEAD
    for one in whole.values():
        own = left[one.name]
        inverse = 1 / np.array(own)
        low, high = np.quantile(inverse, 0.05), np.quantile(inverse, 0.95)
        fields: dict[str, Any] = msgspec.to_builtins(one) | {
            "low": min(0.95, float(low)),
            "high": max(1.05, float(high)),
            "rows": len(own),
            "error": float(np.mean(np.abs(np.array(own) - 1))),
        }
        text += "\n[[stacks]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in fields.items())
    Path(training_time.__file__).with_name("training.toml").write_text(text, encoding="utf-8")


HEAD = """\
# Constants of tuned training stacks, fitted by scripts/fit_training.py to published steps
# (mosaicml/llm-foundry @8c8dd48f, NVIDIA-NeMo/Megatron-Bridge @067f987d, pytorch/torchtitan,
# foundation-model-stack/fms-fsdp, NVIDIA/Megatron-LM @d98e8a64; Apache-2.0 and BSD-3-Clause;
# figures only); `attention_half` to forward kernels of ai-dynamo/aiconfigurator @095f58a5
# (Apache-2.0; measured on A100 and B200; of Hopper by the FLOP of a cycle between the two).
# GEMMs in 16 bits on Ampere and Hopper take what their kernels take in inference, shape by shape:
# fitted besides, a factor came out at 1.00 and 0.98. On Blackwell training attains less.
# `production`: runs of 2021 to 2024 with a published MFU took up to so many times.
"""


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value) if isinstance(value, (str, int)) else f"{value:.4g}"


if __name__ == "__main__":
    main()
