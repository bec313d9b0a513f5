"""Peaks beside a peer's way: one square matrix product and one copy, in turns with ours.

fasterbench measures peaks that way in `fasterbench.roofline`; where an installed version has that
module it is called itself, else its way is done here with the same library calls.
"""

from __future__ import annotations

import statistics
import sys
import time
from importlib.util import find_spec

import torch

from common import report
from gambrel.measure.machine import load
from gambrel.measure.peaks import measure_peaks

SIDE, COPY_BYTES, REPEATS = 2048, 256 << 20, 10


def ours() -> tuple[float, float]:
    found = measure_peaks("cpu", steps=10, warmup=2, rounds=2, refresh=True, cache=False)
    return found.peak_flops, found.peak_bandwidth


def peer() -> tuple[float, float]:
    if find_spec("fasterbench") and find_spec("fasterbench.roofline"):
        from fasterbench.roofline import measure_peaks as theirs

        found = theirs("cpu")
        return found.peak_flops, found.peak_bandwidth
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    x, y = torch.randn(COPY_BYTES // 4), torch.empty(COPY_BYTES // 4)
    product = min(_times(lambda: a @ b))
    copy = min(_times(lambda: y.copy_(x)))
    return 2 * SIDE**3 / product, 2 * COPY_BYTES / copy


def _times(call) -> list[float]:
    call()
    found = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    ways = {"gambrel": ours, "square product and copy": peer}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seen[name].append(way())
    best = max(peak for peak, _ in seen["gambrel"])
    rows = []
    for name, found in seen.items():
        peaks, bandwidths = [p for p, _ in found], [b for _, b in found]
        ridges = [p / b for p, b in found]
        rows.append(
            [
                name,
                f"{statistics.median(peaks) / 1e9:.0f}",
                f"{statistics.median(peaks) / best:.0%}",
                _spread(peaks),
                f"{statistics.median(bandwidths) / 1e9:.1f}",
                _spread(bandwidths),
                f"{min(ridges):.2f} to {max(ridges):.2f}",
            ]
        )
    here = find_spec("fasterbench") and find_spec("fasterbench.roofline")
    report(
        "peaks_peer",
        "fp32 peak and bandwidth of all cores, beside a square matrix product and a copy",
        ["way", "GFLOP/s", "of the vector units", "spread", "GB/s", "spread", "ridge point"],
        rows,
        notes=[
            f"{rounds} rounds in turns; spread (max - min) / max; load {load():.1f}.",
            "fasterbench.roofline was called itself."
            if here
            else "fasterbench 0.1.0, the newest release, has no roofline module: its way was "
            "repeated with torch's own calls.",
        ],
        packages=("gambrel", "torch", "fasterbench"),
    )


def _spread(values: list[float]) -> str:
    return f"{(max(values) - min(values)) / max(values):.0%}"


if __name__ == "__main__":
    main()
