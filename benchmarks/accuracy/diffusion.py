"""Networks that make images in PyTorch and TensorRT, and best rates of GEMMs in PyTorch.

Both are public reports that nothing was fitted to, but for two constants: the softmax of attention
on Volta and Turing saw the rows of the V100, and what GeForce cards attain in 16-bit products those
of Ada and Blackwell. The power limit of the T4 is that of NVIDIA's BERT.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.accuracy import Run, Score

import gambrel

DATA = Path(__file__).parents[1] / "data"
#: Sizes of the products of which the best counts.
SIZES = (1024, 2048, 4096, 8192, 10240)
#: GPUs whose rows one constant has seen.
SEEN = {"v100-sxm2-32gb", "v100-pcie-16gb", "t4"}
#: AMD's cards and what their PyTorch was.
AMD = {"mi100": "MI100", "mi250x": "a die of an MI250X, before its fused attention"}
#: Publications of PyTorch 2.0 and 2.1, whose attention was the first FlashAttention.
OLDER = {"diffusers torch2.0", "fal", "onnxruntime"}
NONE, ONE = "no row fitted", "one constant fitted"
#: Two rows on A100s are among the runs of benchmarks/hosts.py.
HOST = "no row fitted, but for two of the median host time"


def score(_folder: Path) -> Iterable[Score]:
    """Images by how they are made; products by number format."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for row in _rows("diffusion/rows.csv"):
        seen = row["device"] in SEEN
        way = "TensorRT" if row["runtime"] == "tensorrt" else "PyTorch"
        older = way == "PyTorch" and row["source"] in OLDER
        kind = f"Stable Diffusion, SDXL, FLUX in 16 bits, {way}{' before 2.2' * older}"
        what = f"{kind}, V100 and T4" if seen else kind
        what = f"{kind}, {AMD[row['device']]}" if row["device"] in AMD else what
        timed = way == "PyTorch" and row["device"] not in AMD
        groups[what, ONE if seen else HOST if timed else NONE].append(image(row))
    for row in _rows("gemm/rows.csv"):
        wide = "fp32" if row["precision"] == "fp32" else "16 bits"
        held = NONE if wide == "fp32" else ONE
        groups[f"best rate of square GEMMs, eager PyTorch, {wide}", held].append(product(row))
    for (what, held), runs in groups.items():
        yield Score(what=what, runs=runs, held_out=held, family=what)


def image(row: dict[str, str]) -> Run:
    """One pass of a network, or a whole image."""
    parts = (part.split("=") for part in row["sizes"].split())
    found = gambrel.analyze(
        row["model"],
        row["device"],
        runtime=row["runtime"],
        precision=row["precision"],
        sizes={name: int(size) for name, size in parts},
    )
    name = f"{row['model']} {row['sizes']} {row['device']} {row['runtime']}"
    return Run.of(name, float(row["seconds"]), found)


def product(row: dict[str, str]) -> Run:
    """Seconds of 10^12 operations at the best rate."""
    points = [
        gambrel.analyze(
            f"matmul:m={n},n={n},k={n}",
            row["device"],
            precision=row["precision"],
            runtime="pytorch",
        )
        for n in SIZES
    ]
    per = [(a, 1e12 / (2 * n**3)) for a, n in zip(points, SIZES, strict=True)]
    best, scale = min(per, key=lambda p: p[0].expected_time_s.value * p[1])
    expected = best.expected_time_s
    assert expected is not None
    return Run(
        name=f"{row['device']} {row['precision']}",
        measured=1 / float(row["tflop_per_s"]),
        expected=expected.value * scale,
        low=expected.low * scale,
        high=expected.high * scale,
        roofline=_scaled(best.roofline_time_s, scale),
        sol=min(s for a, k in per if (s := _scaled(a.sol_time_s, k)) is not None),
    )


def _scaled(seconds: float | None, scale: float) -> float | None:
    return None if seconds is None else seconds * scale


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)
