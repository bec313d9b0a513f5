"""Published training runs against ``train-plan``: ``python benchmarks/published_training.py``.

No constant was fitted to these runs, and no rule of memory has one. Each is predicted for the stack
that it ran on: kernels one after another with unfused attention for Megatron-LM of 2021 and 2022,
the same with fused attention for Llama 3, tuned for the others.

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
- pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md and
  llama3-8b_h200_202506_trainy-whitefiber.md: FSDP2, memory reserved by the allocator. H100 of 96 GB
  with 2.4 TB/s, limited to 500 W, which is not counted here; as many microbatches as stages (the
  default). The loss is not compiled in 2024 and is in 2025. Runs with asynchronous tensor
  parallelism are left out where the same run without it stands beside them, and the longest of
  each table of context parallelism, whose sequence is beyond the model's context.
- MooreThreads/SimuMax @1b8ca90b, docs/b200/b200_release_v1.2_summary.md and the launch scripts
  beside it: Megatron-LM on eight B200, models cut to 12 or 4 layers, distributed optimizer, fused
  loss, nothing overlapped; memory allocated.
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
        flop_per_s: FLOP/s of a device by ``work``; or
        tokens_per_s: Of a device.
        work: FLOPs of a step on one device by the source's formula; None: model FLOPs.
        memory_gib: Of the fullest device.
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
    tokens_per_s: float | None = None
    work: float | None = None
    memory_gib: float | None = None

    def predicted(self) -> TrainingStep:
        """What ``train-plan`` says."""
        formats = Precisions.parse(self.precision)
        return train(self.spec, self.device, self.plan, precisions=formats, topology=self.node)

    def measured_s(self, step: TrainingStep) -> float:
        """Seconds of the published step."""
        if self.step_s is not None:
            return self.step_s
        if self.tokens_per_s is not None:
            return self.plan.tokens / self.plan.sharding.devices / self.tokens_per_s
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
#: Name, model, format, layout, sequences, tokens of each, microbatches, pieces, what runs again,
#: tokens/s a GPU, GiB.
TORCHTITAN = (
    ("8B, 8 GPUs", "8b", "bf16", {"data": 8}, 2, 8192, 1, 1, "selective", 6667, 77.0),
    ("8B, 8 GPUs", "8b", "fp8", {"data": 8}, 2, 8192, 1, 1, "selective", 8532, 76.8),
    ("8B, 8 GPUs, 32k", "8b", "fp8", {"data": 8}, 1, 32768, 1, 1, "full", 3890, 83.9),
    ("8B, 8 GPUs, 64k, CP 2", "8b", "fp8", {"data": 4, "context": 2}, 1, 65536, 1, 1, "full",
     2540, 84.2),
    ("8B, 8 GPUs, 128k, CP 4", "8b", "fp8", {"data": 2, "context": 4}, 1, 131072, 1, 1, "full",
     1071, 84.0),
    ("8B, 128 GPUs", "8b", "bf16", {"data": 128}, 2, 8192, 1, 1, "selective", 6514, 62.0),
    ("8B, 128 GPUs", "8b", "fp8", {"data": 128}, 2, 8192, 1, 1, "selective", 8380, 61.8),
    ("70B, 256 GPUs", "70b", "fp8", {"data": 32, "tensor": 8}, 16, 8192, 1, 1, "full", 829, 71.9),
    ("405B, 512 GPUs", "405b", "fp8", {"data": 8, "tensor": 8, "pipeline": 8}, 4, 8192, 8, 1,
     "full", 100, 82.5),
    ("405B, 512 GPUs, interleaved", "405b", "fp8", {"data": 8, "tensor": 8, "pipeline": 8}, 4,
     8192, 8, 2, "full", 128, 72.7),
    ("405B, 512 GPUs, 32k", "405b", "fp8", {"data": 8, "tensor": 8, "pipeline": 8}, 1, 32768, 8, 1,
     "full", 76, 75.3),
    ("405B, 512 GPUs, 64k, CP 2", "405b", "fp8",
     {"data": 4, "tensor": 8, "pipeline": 8, "context": 2}, 1, 65536, 8, 1, "full", 47, 75.9),
    ("405B, 512 GPUs, 128k, CP 4", "405b", "fp8",
     {"data": 2, "tensor": 8, "pipeline": 8, "context": 4}, 1, 131072, 8, 1, "full", 31, 77.1),
    ("8B, 32 H200", "8b", "fp8", {"data": 32}, 2, 8192, 1, 1, "selective", 10938, 47.96),
    ("8B, 64 H200", "8b", "fp8", {"data": 64}, 2, 8192, 1, 1, "selective", 10753, 46.97),
)  # fmt: skip
#: Model, layers, layout (experts over data replicas where ``expert`` is given), tokens of a
#: sequence, microbatches → ms, GiB.
B200 = (
    ("70b", 12, {"pipeline": 2, "data": 4}, 4096, {4: 843.0, 8: 1476.8, 32: 5436.5}, 66.55),
    ("70b", 12, {"tensor": 2, "data": 4}, 4096, {4: 725.5, 8: 1387.0, 32: 5376.5}, 60.68),
    ("70b", 12, {"tensor": 4, "data": 2}, 4096, {4: 409.8, 8: 765.6, 32: 2964.6}, 39.07),
    ("70b", 12, {"tensor": 8}, 4096, {4: 280.9, 8: 556.7, 32: 2073.7}, 28.29),
    ("405b", 4, {"pipeline": 2, "data": 4}, 4096, {4: 1074.6, 8: 1935.4, 32: 7046.4}, 87.08),
    ("405b", 4, {"tensor": 2, "data": 4}, 4096, {4: 907.3, 8: 1716.8, 32: 6604.1}, 81.59),
    ("405b", 4, {"tensor": 4, "data": 2}, 4096, {4: 476.0, 8: 899.6, 32: 3455.4}, 52.89),
    ("405b", 4, {"tensor": 8}, 4096, {4: 258.8, 8: 488.1, 32: 1901.8}, 38.57),
    ("70b", 12, {"tensor": 2, "context": 4}, 32768, {4: 1758.0}, 68.43),
    ("70b", 12, {"context": 8}, 32768, {4: 1768.1}, 104.51),
    ("405b", 4, {"tensor": 2, "context": 4}, 32768, {4: 1984.7}, 87.03),
    ("405b", 4, {"context": 8}, 32768, {4: 2003.6}, 139.22),
    ("70b", 12, {"tensor": 2, "context": 4}, 131072, {4: 11315.7}, 112.67),
    ("70b", 12, {"context": 8}, 131072, {4: 11301.9}, 147.99),
    ("405b", 4, {"tensor": 2, "context": 4}, 131072, {4: 10577.6}, 118.13),
    ("deepseek-v3", 4, {"expert": 8}, 4096, {4: 603.2, 8: 1101.7, 32: 4141.2}, 104.30),
    ("deepseek-v3", 4, {"expert": 4, "pipeline": 2}, 4096, {4: 452.2, 8: 771.6, 32: 2718.6}, 114.0),
    ("deepseek-v2", 4, {"expert": 8}, 4096, {4: 366.6, 8: 676.2, 32: 2721.3}, 45.63),
    ("deepseek-v2", 4, {"expert": 4, "pipeline": 2}, 4096, {4: 282.1, 8: 492.6, 32: 1727.7}, 44.70),
)  # fmt: skip
LLAMA = (
    (8192, 1, 64, 8192, 32, 430),
    (16384, 1, 128, 8192, 16, 400),
    (16384, 16, 8, 131072, 16, 380),
)


def megatron(
    table: str, name: str, model: ModelSpec, plan: dict[str, Any], **measured: Any
) -> PublishedRun:
    """A run of Megatron-LM on DGX A100, with unfused attention."""
    return PublishedRun(
        table=table,
        name=name,
        spec=model,
        device=resolve_hardware("a100-sxm4-80gb")[0],
        node="dgx-a100",
        plan=TrainingPlan(seq=SEQ, tuning="unfused", **plan),
        **measured,
    )


def scaling() -> Iterator[PublishedRun]:
    """Narayanan et al., Table 1."""
    for size, heads, hidden, layers, tensor, stages, gpus, batch, rate in SCALING:
        data = gpus // tensor // stages
        each = next(m for m in (4, 2, 1) if (batch // data) % m == 0) if stages == 1 else 1
        extra = 1 + SEQ / (6 * hidden) + VOCAB / (16 * layers * hidden)
        virtual = next((v for v in (3, 2) if layers % (stages * v) == 0), 1) if stages > 1 else 1
        plan = {
            "sequences": each,
            "sharding": Sharding(tensor=tensor, pipeline=stages, data=data),
            "microbatches": batch // data // each,
            "recompute": "full",
            "virtual": virtual,
        }
        yield megatron(
            "Megatron-LM 2021",
            f"{size:g}B, {gpus:,} GPUs",
            gpt(hidden, layers, heads),
            plan,
            flop_per_s=rate * 1e12,
            work=96 * batch * SEQ * layers * hidden**2 * extra / gpus,
        )


def recomputed() -> Iterator[PublishedRun]:
    """Korthikanti et al., Table 5."""
    for name, heads, hidden, layers, stages, virtual, batch, each, full, part in RECOMPUTED:
        for recompute, seconds in (("full", full), ("attention", part)):
            what = "full" if recompute == "full" else "selective"
            plan = {
                "sequences": each,
                "sharding": Sharding(tensor=8, pipeline=stages),
                "microbatches": batch // each,
                "recompute": recompute,
                "virtual": virtual,
            }
            yield megatron(
                "Megatron-LM 2022",
                f"{name}, {8 * stages} GPUs, {what} recomputation",
                gpt(hidden, layers, heads),
                plan,
                step_s=seconds,
            )


def llama() -> Iterator[PublishedRun]:
    """Llama 3, Table 4; eight pieces of one layer a stage."""
    for gpus, context, data, seq, batch, rate in LLAMA:
        yield PublishedRun(
            table="Llama 3 405B",
            name=f"{gpus:,} GPUs, sequences of {seq:,}",
            spec=spec_of("llama-3.1-405b"),
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


def torchtitan() -> Iterator[PublishedRun]:
    """FSDP2 of PyTorch with its own pipelines, compiled."""
    narrow = resolve_hardware("h100-sxm5-80gb")[0]
    levels = (
        msgspec.structs.replace(level, byte_per_s=2.4e12, capacity_bytes=96 * 10**9)
        if level.name == "DRAM"
        else level
        for level in narrow.memory
    )
    narrow = msgspec.structs.replace(narrow, memory=tuple(levels))
    for name, model, form, degrees, sequences, seq, passes, pieces, again, rate, gib in TORCHTITAN:
        late = "H200" in name
        yield PublishedRun(
            table="torchtitan",
            name=f"{name}, {form}",
            spec=spec_of(f"llama-3.1-{model}"),
            device=resolve_hardware("h200-sxm-141gb")[0] if late else narrow,
            node="dgx-h200" if late else "dgx-h100",
            plan=TrainingPlan(
                sequences=sequences,
                seq=seq,
                sharding=Sharding(**degrees),
                microbatches=passes,
                virtual=pieces,
                zero=3,
                recompute=again,
                loss="fused" if late else "fp32",
            ),
            precision=form,
            tokens_per_s=rate,
            memory_gib=gib,
        )


def shortened(name: str, layers: int) -> ModelSpec:
    """A model with fewer layers, of which the first stays dense where it was."""
    spec = spec_of(name)
    *first, rest = spec.layers
    counts = [1] * len(first) + [layers - len(first)]
    groups = (
        msgspec.structs.replace(group, count=count, distinct=None)
        for group, count in zip((*first, rest), counts, strict=True)
    )
    return msgspec.structs.replace(spec, layers=tuple(groups), name=f"{name}, {layers} layers")


def eight() -> Iterator[PublishedRun]:
    """Megatron-LM on one node of eight B200."""
    for model, layers, degrees, seq, measured, gib in B200:
        groups = degrees.get("expert", 1)
        layout = (
            Sharding(**degrees, tensor=groups, attention_data=groups)
            if groups > 1
            else Sharding(**degrees)
        )
        spec = shortened(model if groups > 1 else f"llama-3.1-{model}", layers)
        for passes, milliseconds in measured.items():
            yield PublishedRun(
                table="Megatron-LM 2026",
                name=f"{spec.name}, 8 B200, {layout}, {seq:,} tokens, {passes} passes",
                spec=spec,
                device=resolve_hardware("b200-hgx-180gb")[0],
                node=None,
                plan=TrainingPlan(
                    sequences=1, seq=seq, sharding=layout, microbatches=passes, zero=1
                ),
                step_s=milliseconds / 1e3,
                memory_gib=gib if passes == min(measured) else None,
            )


def runs() -> Iterator[PublishedRun]:
    """All of them."""
    for table in (scaling, recomputed, llama, deepseek, torchtitan, eight):
        yield from table()


def main() -> None:
    """Prints the tables and stores them."""
    found = [(run, run.predicted()) for run in runs()]
    report(
        "published_training",
        "Published training runs against train-plan",
        ["run", "--tuning", "published, s", "expected, s", "ratio", "MFU", "expected", "inside"],
        [timed(run, step) for run, step in found],
        notes=(
            *summary([(run, step.step_s / run.measured_s(step)) for run, step in found], 0.15),
            "No constant was fitted to them.",
            "MFU counts attention over the positions that a token sees, and nothing recomputed; "
            "the Megatron papers count masked positions as well.",
            "Llama 3 does not say how its TFLOP/s count attention: with masked positions the step "
            "of 131,072 tokens takes 1.4 times as long as stated here.",
        ),
    )
    kept = [(run, step) for run, step in found if run.memory_gib is not None]
    report(
        "training_memory",
        "Memory of published training runs against train-plan",
        ["run", "measured, GiB", "expected, GiB", "ratio", "fullest"],
        [remembered(run, step) for run, step in kept],
        notes=(
            *summary([(run, memory_ratio(run, step)) for run, step in kept], 0.05),
            "torchtitan states what the allocator reserves, Megatron-LM 2026 what is allocated.",
        ),
    )


def timed(run: PublishedRun, step: TrainingStep) -> list[str]:
    """A row of the table of times."""
    seconds = run.measured_s(step)
    peak = step.passes.total.peak_flop_per_s or 0.0
    own = step.model_flops * run.plan.tokens / run.plan.sharding.devices
    held = step.expected.low <= seconds <= step.expected.high
    return [
        *(f"{run.table}: {run.name}", run.plan.tuning, f"{seconds:.2f}", f"{step.step_s:.2f}"),
        *(f"{step.step_s / seconds:.2f}", f"{own / seconds / peak:.1%}", f"{step.mfu or 0.0:.1%}"),
        "yes" if held else "no",
    ]  # fmt: skip


def memory_ratio(run: PublishedRun, step: TrainingStep) -> float:
    """Expected over measured memory."""
    assert run.memory_gib is not None
    return step.memory.total_bytes / 2**30 / run.memory_gib


def remembered(run: PublishedRun, step: TrainingStep) -> list[str]:
    """A row of the table of memory."""
    m = step.memory
    stage = f"stage {m.stage}, " if len(step.ranks) > 1 else ""
    return [
        f"{run.table}: {run.name}",
        f"{run.memory_gib:.1f}",
        f"{m.total_bytes / 2**30:.1f}",
        f"{memory_ratio(run, step):.2f}",
        f"{stage}{m.moment}",
    ]


def summary(ratios: list[tuple[PublishedRun, float]], near: float) -> Iterator[str]:
    """Errors by source."""
    tables: dict[str, list[float]] = {}
    for run, ratio in ratios:
        tables.setdefault(run.table, []).append(abs(ratio - 1))
    for table, errors in tables.items():
        within = sum(error <= near for error in errors)
        mean = sum(errors) / len(errors)
        yield f"{table}: {within} of {len(errors)} within {near:.0%}, mean error {mean:.1%}."


if __name__ == "__main__":
    main()
