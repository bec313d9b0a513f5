"""Published training runs against ``train-plan``: ``python benchmarks/published_training.py``.

No constant was fitted to these runs. Each is predicted for the stack that it ran on: kernels one
after another with unfused attention for Megatron-LM of 2021 and 2022, the same with fused attention
for Llama 3, tuned for DeepSeek-V3, which hides its exchanges.

Sources, read in November 2026:

- Narayanan et al., "Efficient large-scale language model training on GPU clusters using
  Megatron-LM", 2021, Table 1; FLOPs of an iteration by its equation 3, recomputation included.
  Microbatches and interleaving are not stated: the largest of 4, 2, 1 sequences that divides the
  batch without a pipeline, 1 with one; two or three pieces a stage.
- Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022,
  Tables 3 and 5.
- Llama team, "The Llama 3 herd of models", 2024, Table 4: H100, 400 Gb/s a GPU; TFLOP/s a GPU.
- DeepSeek-AI, "DeepSeek-V3 technical report", 2024, sections 3 and 4: 2,664,000 hours of 2,048 H800
  for 14.8e12 tokens, 15,360 sequences of 4,096 a step, 16 stages, experts over 64 devices, ZeRO 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from common import report
from gambrel.device.model import Device
from gambrel.device.resolve import resolve_hardware
from gambrel.llm.config.read import read_config
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.training import TrainingStep, train
from gambrel.llm.training_plan import TrainingPlan

SEQ, VOCAB = 2048, 51200


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """One published step.

    Attributes:
        table: Where it is from.
        name: Of the row.
        spec: The model.
        device: The device.
        node: Topology.
        plan: Layout and schedule.
        precision: Number formats.
        step_s: Seconds of a step; or
        flop_per_s: FLOP/s of a device by ``work``.
        work: FLOPs of a step on one device by the source's formula; None: model FLOPs.
    """

    table: str
    name: str
    spec: ModelSpec
    device: Device
    node: Any
    plan: TrainingPlan
    precision: str = "bf16"
    step_s: float | None = None
    flop_per_s: float | None = None
    work: float | None = None

    def predicted(self) -> TrainingStep:
        """What ``train-plan`` says."""
        formats = Precisions.parse(self.precision)
        return train(self.spec, self.device, self.plan, precisions=formats, topology=self.node)

    def measured_s(self, step: TrainingStep) -> float:
        """Seconds of the published step."""
        if self.step_s is not None:
            return self.step_s
        assert self.flop_per_s is not None
        own = step.model_flops * self.plan.tokens / self.plan.sharding.devices
        return (self.work or own) / self.flop_per_s


def gpt(hidden: int, layers: int, heads: int) -> ModelSpec:
    """A GPT of the Megatron papers."""
    config = {"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads}
    return read_config(
        {**config, "vocab_size": VOCAB, "n_positions": SEQ}, f"gpt-{hidden}-{layers}"
    )


#: Parameters in 1e9, heads, hidden, layers, tensor, pipeline, GPUs, batch, TFLOP/s a GPU.
SCALING = (
    (1.7, 24, 2304, 24, 1, 1, 32, 512, 137), (3.6, 32, 3072, 30, 2, 1, 64, 512, 138),
    (7.5, 32, 4096, 36, 4, 1, 128, 512, 142), (18.4, 48, 6144, 40, 8, 1, 256, 1024, 135),
    (39.1, 64, 8192, 48, 8, 2, 512, 1536, 138), (76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140),
    (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148), (310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155),
    (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163),
    (1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163),
)  # fmt: skip
#: Name, heads, hidden, layers, pipeline, pieces a stage, batch, microbatch; seconds of a step with
#: full and with selective recomputation.
RECOMPUTED = (
    ("22B", 64, 6144, 48, 1, 1, 4, 4, 1.42, 1.10),
    ("175B", 96, 12288, 96, 8, 3, 64, 1, 18.13, 13.75),
    ("530B", 128, 20480, 105, 35, 3, 280, 1, 49.05, 37.83),
    ("1T", 160, 25600, 128, 64, 1, 512, 1, 94.42, 71.49),
)
#: GPUs, context, replicas, tokens of a sequence, sequences a replica, TFLOP/s a GPU.
LLAMA = (
    (8192, 1, 64, 8192, 32, 430),
    (16384, 1, 128, 8192, 16, 400),
    (16384, 16, 8, 131072, 16, 380),
)


def scaling() -> Iterator[PublishedRun]:
    """Narayanan et al., Table 1."""
    device = resolve_hardware("a100-sxm4-80gb")[0]
    for size, heads, hidden, layers, tensor, stages, gpus, batch, rate in SCALING:
        data = gpus // tensor // stages
        each = next(m for m in (4, 2, 1) if (batch // data) % m == 0) if stages == 1 else 1
        extra = 1 + SEQ / (6 * hidden) + VOCAB / (16 * layers * hidden)
        virtual = next((v for v in (3, 2) if layers % (stages * v) == 0), 1) if stages > 1 else 1
        yield PublishedRun(
            table="Megatron-LM 2021",
            name=f"{size:g}B, {gpus:,} GPUs",
            spec=gpt(hidden, layers, heads),
            device=device,
            node="dgx-a100",
            plan=TrainingPlan(
                sequences=each,
                seq=SEQ,
                sharding=Sharding(tensor=tensor, pipeline=stages, data=data),
                microbatches=batch // data // each,
                recompute="full",
                virtual=virtual,
                tuning="unfused",
            ),
            flop_per_s=rate * 1e12,
            work=96 * batch * SEQ * layers * hidden**2 * extra / gpus,
        )


def recomputed() -> Iterator[PublishedRun]:
    """Korthikanti et al., Table 5."""
    device = resolve_hardware("a100-sxm4-80gb")[0]
    for name, heads, hidden, layers, stages, virtual, batch, each, full, part in RECOMPUTED:
        for recompute, seconds in (("full", full), ("attention", part)):
            what = "full" if recompute == "full" else "selective"
            yield PublishedRun(
                table="Megatron-LM 2022",
                name=f"{name}, {8 * stages} GPUs, {what} recomputation",
                spec=gpt(hidden, layers, heads),
                device=device,
                node="dgx-a100",
                plan=TrainingPlan(
                    sequences=each,
                    seq=SEQ,
                    sharding=Sharding(tensor=8, pipeline=stages),
                    microbatches=batch // each,
                    recompute=recompute,
                    virtual=virtual,
                    tuning="unfused",
                ),
                step_s=seconds,
            )


def llama() -> Iterator[PublishedRun]:
    """Llama 3, Table 4; eight pieces of one layer a stage."""
    spec = spec_of("llama-3.1-405b")
    for gpus, context, data, seq, batch, rate in LLAMA:
        yield PublishedRun(
            table="Llama 3 405B",
            name=f"{gpus:,} GPUs, sequences of {seq:,}",
            spec=spec,
            device=resolve_hardware("h100-sxm5-80gb")[0],
            node="dgx-h100",
            plan=TrainingPlan(
                sequences=1,
                seq=seq,
                sharding=Sharding(tensor=8, pipeline=16, context=context, data=data),
                microbatches=batch,
                virtual=8,
                zero=1,
                tuning="kernels",
            ),
            flop_per_s=rate * 1e12,
        )


def deepseek() -> Iterator[PublishedRun]:
    """DeepSeek-V3; an H800 is an H100 whose NVLink carries 200 GB/s one way."""
    device = resolve_hardware("h100-sxm5-80gb")[0]
    links = (
        msgspec.structs.replace(x, byte_per_s=400e9) if x.name == "nvlink" else x
        for x in device.links
    )
    gpus, batch, seq = 2048, 15360, 4096
    yield PublishedRun(
        table="DeepSeek-V3",
        name=f"{gpus:,} H800",
        spec=spec_of("deepseek-v3"),
        device=msgspec.structs.replace(device, links=tuple(links)),
        node="dgx-h100",
        plan=TrainingPlan(
            sequences=1,
            seq=seq,
            sharding=Sharding(tensor=64, attention_data=64, expert=64, pipeline=16, data=2),
            microbatches=batch // 128,
            schedule="zero-bubble",
            recompute="norms",
            zero=1,
        ),
        precision="fp8",
        step_s=batch * seq / (14.8e12 / (2_664_000 * 3600) * gpus),
    )


def runs() -> Iterator[PublishedRun]:
    """All of them."""
    for table in (scaling, recomputed, llama, deepseek):
        yield from table()


def main() -> None:
    """Prints the table and stores it."""
    rows, near = [], 0
    for run in runs():
        step = run.predicted()
        seconds = run.measured_s(step)
        peak = step.passes.total.peak_flop_per_s or 0.0
        own = step.model_flops * run.plan.tokens / run.plan.sharding.devices
        held = step.expected.low <= seconds <= step.expected.high
        ratio = step.step_s / seconds
        near += abs(ratio - 1) <= 0.15
        rows.append([
            *(f"{run.table}: {run.name}", run.plan.tuning, f"{seconds:.2f}", f"{step.step_s:.2f}"),
            *(f"{ratio:.2f}", f"{own / seconds / peak:.1%}", f"{step.mfu or 0.0:.1%}"),
            "yes" if held else "no",
        ])  # fmt: skip
    report(
        "published_training",
        "Published training runs against train-plan",
        ["run", "--tuning", "published, s", "expected, s", "ratio", "MFU", "expected", "inside"],
        rows,
        notes=notes(near, len(rows)),
    )


def notes(near: int, count: int) -> tuple[str, ...]:
    """What the table says."""
    return (
        f"{near} of {count} steps are within 15 %; no constant was fitted to them.",
        "MFU counts attention over the positions that a token sees, and nothing recomputed; the "
        "Megatron papers count masked positions as well.",
        "Llama 3 does not say how its TFLOP/s count attention: with masked positions the step of "
        "131,072 tokens takes 1.4 times as long as stated here.",
    )


if __name__ == "__main__":
    main()
