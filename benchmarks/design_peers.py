"""Cycles and DRAM traffic of layers beside what SCALE-Sim, ZigZag, Timeloop and Eyeriss say.

    python benchmarks/design_peers.py

The files in ``benchmarks/data`` are made by ``design_scalesim.py`` and ``design_zigzag.py``; those
of Timeloop are what its authors published, those of the Eyeriss chip are in its paper.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from common import report
from gambrel.advise.design.systolic import DATAFLOWS, Arrays, Gemm, cycles
from gambrel.advise.design.tiles import ConvShape, GemmShape, Widths, tile_curve

DATA = Path(__file__).with_name("data")
NAMES = {"ws": "weight", "is": "input", "os": "output"}
#: Layer of AlexNet → product, active units and processing time of four images in ms (Chen et al.,
#: IEEE Journal of Solid-State Circuits 52(1), 2017, table V).
EYERISS = {
    "alexnet conv1": (Gemm(m=3025, n=96, k=363, filter_rows=11, out_rows=55), 154, 16.5),
    "alexnet conv2": (Gemm(m=729, n=128, k=1200, groups=2, filter_rows=5, out_rows=27), 135, 39.2),
    "alexnet conv3": (Gemm(m=169, n=384, k=2304, filter_rows=3, out_rows=13), 156, 21.8),
    "alexnet conv4": (Gemm(m=169, n=192, k=1728, groups=2, filter_rows=3, out_rows=13), 156, 16.0),
    "alexnet conv5": (Gemm(m=169, n=128, k=1728, groups=2, filter_rows=3, out_rows=13), 156, 10.0),
}
#: Clock of that measurement, Hz, and images.
EYERISS_CLOCK, EYERISS_BATCH = 200e6, 4


def arrays(rows: int, cols: int, dataflow: str) -> Arrays:
    """One array without hidden loading."""
    return Arrays(
        rows=np.array([float(rows)]),
        cols=np.array([float(cols)]),
        count=np.ones(1),
        dataflow=np.array([DATAFLOWS.index(dataflow)]),
        hidden=False,
    )


def scalesim() -> list[tuple[str, ...]]:
    """Cycles, exposed loading."""
    found = []
    for row in json.loads((DATA / "design_scalesim.json").read_text())["rows"]:
        product = Gemm(m=row["m"], n=row["n"], k=row["k"])
        own = float(cycles(product, arrays(row["rows"], row["cols"], NAMES[row["dataflow"]]))[0])
        folds = math.ceil(row["m"] / row["rows"]) * math.ceil(row["n"] / row["cols"])
        why = f"{folds} folds x {row['rows']} rows leave the array" if own != row["cycles"] else ""
        what = f"{row['rows']}x{row['cols']} {NAMES[row['dataflow']]}"
        found.append(
            _row("SCALE-Sim 3.0.0", row["layer"], f"{what}, cycles", row["cycles"], own, why)
        )
    return found


def zigzag() -> list[tuple[str, ...]]:
    """DRAM bytes of the best tiling."""
    found = []
    for row in json.loads((DATA / "design_zigzag.json").read_text())["rows"]:
        shape = GemmShape(m=row["m"], n=row["n"], k=row["k"])
        curve = tile_curve(shape, Widths(inputs=1, weights=1, outputs=1, sums=4))
        own = float(curve.at(row["on_chip_bytes"]))
        room = row["on_chip_bytes"]
        limited = [divisors_only(shape, size) for size in (room, room // 2)]
        why = "tiles that divide the sizes: {:,}; and half the memory: {:,}".format(*limited)
        why = "" if own == row["traffic_bytes"] else why
        what = f"{row['on_chip_bytes'] // 1024} KiB, DRAM bytes"
        found.append(_row("ZigZag 3.9.1", row["layer"], what, row["traffic_bytes"], own, why))
    return found


def timeloop() -> list[tuple[str, ...]]:
    """DRAM words of a convolution in published mappings."""
    data = json.loads((DATA / "design_timeloop.json").read_text())
    shape = ConvShape(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in data["layer"].items()}
    )
    found = []
    for row in data["rows"]:
        width = row["word_bytes"]
        curve = tile_curve(shape, Widths(inputs=width, weights=width, outputs=width, sums=width))
        own = float(curve.at(row["buffer_words"] * width)) / width
        theirs = row["weights"] + row["inputs"] + row["outputs"]
        what = f"{row['design']}, 65,536 words, DRAM words"
        found.append(_row("Timeloop", "alexnet conv1", what, theirs, own, row["why"]))
    return found


def divisors_only(s: GemmShape, room: int) -> int:
    """Least traffic of a GEMM of bytes with sums of four, where tiles divide the sizes."""
    m, n, k = ([d for d in range(1, size + 1) if size % d == 0] for size in (s.m, s.n, s.k))
    a, b, c = s.m * s.k, s.k * s.n, s.m * s.n
    outputs = (
        a * (s.n // y) + b * (s.m // x) + c for x in m for y in n if 4 * x * y + x + y <= room
    )
    inputs = (
        a + b * (s.m // x) + c * (1 + 8 * (s.k // z - 1))
        for x in m
        for z in k
        if x * z + z + 4 * x <= room
    )
    weights = (
        b + a * (s.n // y) + c * (1 + 8 * (s.k // z - 1))
        for y in n
        for z in k
        if y * z + z + 4 * y <= room
    )
    return min(*outputs, *inputs, *weights)


def eyeriss() -> list[tuple[str, ...]]:
    """Active units and time of a row-stationary array of 12 x 14."""
    found = []
    for layer, (product, active, ms) in EYERISS.items():
        turns = float(cycles(product, arrays(12, 14, "row"))[0])
        own = product.macs / turns
        why = "a mean: the last strip of 55 rows on 14 columns has 13" if own < active - 1 else ""
        found.append(_row("Eyeriss, JSSC 2017", layer, "active units", active, own, why))
        took = turns * EYERISS_BATCH / EYERISS_CLOCK * 1e6
        why = "the chip loads filters and drains sums between passes"
        found.append(_row("Eyeriss, JSSC 2017", layer, "time, us", ms * 1e3, took, why))
    return found


def _row(
    source: str, layer: str, what: str, theirs: float, own: float, why: str
) -> tuple[str, ...]:
    return source, layer, what, f"{theirs:,.0f}", f"{own:,.0f}", f"{own / theirs:.3f}", why


if __name__ == "__main__":
    heads = ("source", "layer", "what", "theirs", "gambrel", "ratio", "difference")
    title = "Cycles and DRAM traffic of layers beside other programs and a chip"
    report("design_peers", title, heads, [*scalesim(), *eyeriss(), *zigzag(), *timeloop()])
