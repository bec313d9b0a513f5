"""What libraries attain, as `gambrel peaks` finds it, against a plain loop over many sizes.

The plain loop calls every product of a large grid of sides, shapes and layouts in turn with
gambrel's search, round after round, and keeps the best; either is worth the mean of the faster half
of its best way's rounds.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import torch

from common import report
from gambrel.measure import library, machine
from gambrel.measure.stats import figure, over_rounds

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
SIDES = (512, 768, 1024, 1280, 1536, 1792, 2048, 2560)
DEEP = ((2048, 2048, 768), (1536, 1536, 768), (1024, 2048, 1024), (2048, 1024, 1024))
LEAST_CALLS, LEAST_S, FINALISTS = 2, 10e-3, 3


def plain() -> Iterator[library.LibraryProduct]:
    """The grid."""
    shapes = [(n, n, n) for n in SIDES] + list(DEEP)
    kinds = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}
    for dtype, kind in kinds.items():
        ways = [library._mm(kind, s, turned) for s in shapes for turned in (True, False)]
        yield library.LibraryProduct(name="torch mm", dtype=dtype, threads=0, ways=tuple(ways))
    for dtype, kind in (("fp32", np.float32), ("fp64", np.float64)):
        ways = tuple(numpy_way(s, kind) for s in shapes)
        yield library.LibraryProduct(name="numpy matmul", dtype=dtype, threads=0, ways=ways)
    for dtype in ("fp32", "bf16"):
        ways = tuple(
            library._convolution(kinds[dtype], (images, channels, side, window))
            for images in (8, 16)
            for channels, side in ((64, 56), (128, 56), (128, 28), (256, 28), (256, 14), (512, 14))
            for window in (1, 3)
        )
        yield library.LibraryProduct(name="torch conv2d", dtype=dtype, threads=0, ways=ways)


def numpy_way(shape, kind) -> library.ProductLayout:
    m, n, k = shape

    def prepare():
        random = np.random.default_rng(2)
        a, b = random.random((m, k)).astype(kind), random.random((k, n)).astype(kind)
        out = np.empty((m, n), dtype=kind)
        return lambda: np.matmul(a, b, out=out)

    return library.ProductLayout(
        label="x".join(map(str, shape)), flop=2.0 * m * n * k, prepare=prepare
    )


class Grid:
    """All ways twice, then the best few again in every round."""

    def __init__(self) -> None:
        self.rounds = defaultdict(lambda: defaultdict(list))
        self.flop, self.calls = {}, {}
        for product in plain():
            for way in product.ways:
                key = (product.name, product.dtype)
                self.rounds[key][way.label] = []
                self.flop[key, way.label], self.calls[key, way.label] = way.flop, way.prepare
        self.turns = 0

    def turn(self) -> None:
        for key, ways in self.rounds.items():
            labels = list(ways)
            if self.turns >= 2:
                labels = sorted(ways, key=lambda w: -max(f.value for f in ways[w]))[:FINALISTS]
            for label in labels:
                call = self.calls[key, label]()
                call()
                times = []
                while len(times) < LEAST_CALLS or sum(times) < LEAST_S:
                    begun = time.perf_counter()
                    call()
                    times.append(time.perf_counter() - begun)
                ways[label].append(figure(times, self.flop[key, label]))
        self.turns += 1

    def best(self):
        for key, ways in self.rounds.items():
            late = {w: f for w, f in ways.items() if len(f) > 2} or ways
            value, label = max((over_rounds(f).value, w) for w, f in late.items())
            yield key, value, label


def main() -> None:
    search, grid = library.Search(), Grid()
    for _ in range(ROUNDS):
        search.turn()
        grid.turn()
    ours = {(m.mix, m.dtype): m for m in search.result().measurements}
    rows = []
    for key, value, label in grid.best():
        m = ours[key]
        rows.append(
            [
                " ".join(key),
                f"{m.value / 1e9:.0f}",
                m.note.rpartition(", the best")[0],
                f"{value / 1e9:.0f}",
                label,
                f"{m.value / value:.3f}",
            ]
        )
    ways = sum(len(w) for w in grid.rounds.values())
    report(
        "peaks_library",
        "What libraries attain, against a plain loop over many sizes",
        ["product", "gambrel", "its way", "plain loop", "its way", "ratio"],
        rows,
        notes=[
            f"GFLOP/s of both cores; {ROUNDS} rounds in turns, the loop tries {ways} ways; load "
            f"{machine.load():.1f}. Target: 0.97.",
        ],
        packages=("gambrel", "numpy", "torch"),
    )


if __name__ == "__main__":
    main()
