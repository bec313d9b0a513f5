"""Measured matrix products faster than the roofline, and whether the cache levels explain them.

python benchmarks/levels.py            the sample in benchmarks/data/kernels
python benchmarks/levels.py FOLDER     all rows of a folder of measurements
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from pathlib import Path

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from gambrel.device.model import Device
from gambrel.workload import Op, Role, Tensor, Workload

SAMPLE = Path(__file__).resolve().parent / "data/kernels"
DEVICES = {"a100_sxm": "a100-sxm4-80gb", "h100_sxm": "h100-sxm5-80gb", "l40s": "l40s"}
#: A bound that is beaten by less is within the scatter of the measurements.
SLACK = 0.97
TITLE = "Matrix products faster than the roofline, and the memory levels"
COLUMNS = (
    "device",
    "rows",
    "below the bound",
    "explained: activations stay",
    "explained: all stays",
    "left",
    "least ratio",
    "least ratio, levels",
)
NOTES = (
    "bf16 rows of gemm.csv: facts extracted from ai-dynamo/aiconfigurator (commit 095f58a5, "
    "2026-08-21), Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.",
    "Measured by replaying a product, its weights rotated over several copies (how many is not "
    "known), its activations in place. Analyzed the same way, with warm caches: `activations "
    "stay` has as many copies of the weights as exceed the L2, `all stays` has one.",
    "below the bound: measured in less than 97 % of it. explained: not below 97 % of the bound "
    "with the traffic of each level. ratio: measured / bound.",
    "What is left sweeps over weights about as large as the L2 or larger: a least-recently-used "
    "cache keeps nothing of them, the real one a part.",
)


def rotated(m: int, n: int, k: int, copies: int) -> Workload:
    """One product per copy of the weights; all read and write the same activations."""

    def tensor(storage: int, role: Role, *shape: int) -> Tensor:
        return Tensor(shape=shape, dtype="bf16", storage=storage, role=role)

    weights = [tensor(2 + i, Role.WEIGHT, n, k) for i in range(copies)]
    tensors = (tensor(0, Role.INPUT, m, k), tensor(1, Role.ACTIVATION, m, n), *weights)
    sizes = {"b": 1, "m": m, "n": n, "k": k}
    ops = tuple(
        Op(kind="matmul", inputs=(0, 2 + i), outputs=(1,), sizes=sizes) for i in range(copies)
    )
    return Workload(name="gemm", dtype="bf16", tensors=tensors, ops=ops)


def copies_of(device: Device, n: int, k: int) -> int:
    """How many copies of the weights exceed the L2; 200 of tiny ones say the same as more."""
    cache = device.level("L2")
    assert cache is not None
    return min(200, 1 + max(1, -(-(cache.capacity_bytes or 0) // (2 * n * k))))


def bounds(device: Device, m: int, n: int, k: int, copies: int) -> tuple[float, float]:
    """The roofline bound of a product, and that with the levels, s."""
    found = analyze(rotated(m, n, k, copies), device, Settings(precision="bf16", warm=True))
    assert found.roofline_time_s is not None
    assert found.cached_roofline_time_s is not None
    return found.roofline_time_s / copies, found.cached_roofline_time_s / copies


def quick(device: Device, m: int, n: int, k: int) -> float:
    """The roofline bound alone, to leave out what does not beat it."""
    peak, memory = device.ceiling("matrix", "bf16"), device.level("DRAM")
    assert peak is not None
    assert memory is not None
    assert memory.byte_per_s is not None
    return max(2 * m * n * k / peak.flop_per_s, 2 * (m * k + n * k + m * n) / memory.byte_per_s)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    lines = (folder / "gemm.csv").read_text(encoding="utf-8").splitlines()
    table = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    rows = []
    for gpu, name in DEVICES.items():
        device = load_device(name)
        mine = [r for r in table if r["gpu"] == gpu and r["gemm_dtype"] == "bfloat16"]
        ratios = []
        for r in mine:
            m, n, k, measured = int(r["m"]), int(r["n"]), int(r["k"]), float(r["us"]) * 1e-6
            if measured < SLACK * quick(device, m, n, k):
                bound, cold = bounds(device, m, n, k, copies_of(device, n, k))
                _, warm = bounds(device, m, n, k, 1)
                ratios.append((measured / bound, measured / cold, measured / warm))
        rows.append((name, len(mine), len(ratios), *_explained(ratios)))
    report("levels", TITLE, COLUMNS, rows, notes=(*NOTES, _speed()))


def _explained(ratios: list[tuple[float, float, float]]) -> tuple[object, ...]:
    activations = sum(1 for _, cold, _ in ratios if cold >= SLACK)
    everything = sum(1 for _, cold, warm in ratios if cold < SLACK <= warm)
    least = [f"{min(column):.2f}" for column in list(zip(*ratios, strict=True))[::2]] or ["", ""]
    return activations, everything, len(ratios) - activations - everything, *least


def _speed() -> str:
    workload, device = load("resnet50"), load_device("a100-sxm4-80gb")
    bare = without_caches(device)
    with_s, without_s = (
        statistics.median(_seconds(workload, d) for _ in range(15)) for d in (device, bare)
    )
    return (
        f"Analysis of ResNet-50: {with_s * 1e3:.1f} ms with its levels, {without_s * 1e3:.1f} ms "
        "for the same device without cache sizes."
    )


def without_caches(device: Device) -> Device:
    import msgspec

    return msgspec.structs.replace(
        device, memory=tuple(m for m in device.memory if m.name == "DRAM")
    )


def _seconds(workload: Workload, device: Device) -> float:
    start = time.process_time()
    analyze(workload, device)
    return time.process_time() - start


if __name__ == "__main__":
    main()
