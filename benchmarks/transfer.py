"""Expected times on H100, H200 and B200, against fits and medians known of them.

python benchmarks/transfer.py

The figures are medians and three-constant fits of the same database. The H200 lent no rows but
those of 4-bit weights: its lines test what is carried from the H100. Kernels of H100 and B200 were
fitted here row by row: their lines compare two readings of the same runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.device.catalog import load as load_device
from gambrel.device.roofs import resolve
from gambrel.dtypes import width_bytes
from gambrel.workload import Op, Role, Tensor, Workload

COLUMNS = ("what", "device", "framework", "known", "predicted", "predicted / known")
NOTES = (
    "Products: t0 + max(flops / (ec · peak), bytes / (em · bandwidth)) with the fitted ec, em, t0, "
    "over m = 1 to 16,384, n and k = 1,024 to 16,384; known: mean difference left by the fit on "
    "unseen shapes where stated, predicted: mean |predicted / fit - 1|, then the median ratio.",
    "Prompts: TFLOP/s of causal attention, 32 to 64 heads of 128; the known median is over a mix "
    "of batches and key/value heads that is not stated, the predicted one over batches 1 to 128.",
    "Collectives: bus bandwidth of an all-reduce of 512 MiB in fp16 over 2, 4, 8 devices, GB/s.",
    "Known: ai-dynamo/aiconfigurator (commit 095f58a5, 2026-08-21), Apache-2.0, "
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.",
)
H100, H200, B200 = "h100-sxm5-80gb", "h200-sxm-141gb", "b200-hgx-180gb"
#: Device, weights, activations, framework → ec, em, t0 in µs.
PRODUCTS = {
    (H100, "bf16", "bf16", "any"): (0.786, 0.833, 3.0),
    (H200, "bf16", "bf16", "any"): (0.785, 0.771, 3.2),
    (B200, "bf16", "bf16", "any"): (0.689, 0.711, 2.7),
    (H100, "fp8", "fp8", "trtllm"): (0.53, 0.78, 13.4),
    (B200, "nvfp4", "nvfp4", "trtllm"): (0.37, 0.46, 10.2),
    (H200, "int4", "bf16", "trtllm"): (0.76, 0.38, 11.1),
}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
PROMPTS = {
    (H100, "vllm"): (222, 337, 456, 547, 601, 613),
    (H100, "trtllm"): (174, 267, 358, 436, 502, 535),
    (B200, "vllm"): (383, 598, 843, 1018, 1152, 1239),
}
REDUCE_GB_PER_S = {H100: (318, 350, 445), B200: (534, 634, 704)}
REDUCED_BYTES = 512 * 2**20

#: Framework, as the tables name it → runtime.
RUNTIMES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", "any": "pytorch-graph"}


def seconds(workload: Workload, device: str, framework: str) -> float:
    """The expected time."""
    settings = Settings(precision=workload.dtype, runtime=RUNTIMES[framework])
    found = analyze(workload, load_device(device), settings).expected_time_s
    assert found is not None
    return found.value


def one(op: Op, *tensors: Tensor) -> Workload:
    return Workload(name=op.kind, dtype=tensors[0].dtype, tensors=tensors, ops=(op,))


def tensor(storage: int, dtype: str, *shape: int, role: Role = Role.ACTIVATION) -> Tensor:
    return Tensor(shape=shape, dtype=dtype, storage=storage, role=role)


def product(m: int, n: int, k: int, weights: str, activations: str) -> Workload:
    op = Op(
        kind="matmul",
        inputs=(0, 1),
        outputs=(2,),
        sizes={"b": 1, "m": m, "n": n, "k": k},
        attrs={"compute_dtype": activations},
    )
    w = tensor(1, weights, n, k, role=Role.WEIGHT)
    return one(op, tensor(0, activations, m, k), w, tensor(2, "bf16", m, n))


def prompt(batch: int, length: int, heads: int, kv_heads: int) -> Workload:
    sizes = {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "q_len": length,
        "kv_len": length,
        "head_dim": 128,
    }
    op = Op(kind="attention", inputs=(0, 1, 2), outputs=(3,), sizes=sizes, attrs={"causal": True})
    q = [tensor(i, "bf16", batch, heads, length, 128) for i in (0, 3)]
    kv = [tensor(i, "bf16", batch, kv_heads, length, 128) for i in (1, 2)]
    return one(op, q[0], *kv, q[1])


def reduction(devices: int) -> Workload:
    op = Op(
        kind="collective",
        inputs=(0,),
        outputs=(1,),
        sizes={"devices": devices, "payload_bytes": REDUCED_BYTES},
        attrs={"function": "all_reduce"},
    )
    return one(op, *(tensor(i, "fp16", REDUCED_BYTES // 2) for i in (0, 1)))


def products() -> Iterator[tuple[object, ...]]:
    for (device, weights, inputs, framework), (ec, em, t0) in PRODUCTS.items():
        found = load_device(device)
        roof, memory = resolve(found, "matrix", inputs), found.level("DRAM")
        assert roof is not None
        assert memory is not None
        assert memory.byte_per_s is not None
        ratios = []
        sides = (1024, 4096, 8192, 16384)
        for m, n, k in itertools.product((1, 16, 64, 256, 1024, 4096, 16384), sides, sides):
            moved = width_bytes(inputs) * m * k + width_bytes(weights) * n * k + 2 * m * n
            computed = 2 * m * n * k / roof.flop_per_s / ec
            fit = t0 * 1e-6 + max(computed, moved / memory.byte_per_s / em)
            workload = product(m, n, k, weights, inputs)
            ratios.append(seconds(workload, device, framework) / fit)
        name = weights if weights == inputs else f"{weights} weights"
        mean = np.abs(np.array(ratios) - 1).mean()
        known = f"{ec:g} / {em:g} / {t0:g} µs"
        yield f"product, {name}", device, framework, known, f"{mean:.1%}", ratio(np.median(ratios))


def prompts() -> Iterator[tuple[object, ...]]:
    for (device, framework), known in PROMPTS.items():
        for length, figure in zip(LENGTHS, known, strict=True):
            rates = [
                2
                * heads
                * 128
                * length**2
                * batch
                / 1e12
                / seconds(prompt(batch, length, heads, kv), device, framework)
                for heads in (32, 64)
                for kv in (4, 8, heads)
                for batch in (1, 2, 4, 8, 16, 32, 64, 128)
                if batch * length <= 65536
            ]
            rate = float(np.median(rates))
            yield (
                f"prompt of {length:,}",
                device,
                framework,
                figure,
                f"{rate:.0f}",
                ratio(rate / figure),
            )


def reductions() -> Iterator[tuple[object, ...]]:
    for device, known in REDUCE_GB_PER_S.items():
        for devices, figure in zip((2, 4, 8), known, strict=True):
            moved = 2 * REDUCED_BYTES * (devices - 1) / devices
            rate = moved / seconds(reduction(devices), device, "any") / 1e9
            yield (
                f"all-reduce, {devices}",
                device,
                "NCCL",
                figure,
                f"{rate:.0f}",
                ratio(rate / figure),
            )


def ratio(value: float) -> str:
    return f"{value:.2f}"


def main() -> None:
    lines = [*products(), *prompts(), *reductions()]
    report(
        "transfer",
        "Expected times on H100, H200 and B200, against known figures",
        COLUMNS,
        lines,
        notes=NOTES,
    )


if __name__ == "__main__":
    main()
