"""Arrays and tilings against what SCALE-Sim, ZigZag and Timeloop said of the same layers.

The files hold what those programs printed; ``benchmarks/design_scalesim.py`` and
``benchmarks/design_zigzag.py`` make them.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from gambrel.advise.design.systolic import DATAFLOWS, Arrays, Gemm, cycles
from gambrel.advise.design.tiles import ConvShape, GemmShape, Widths, tile_curve

DATA = Path(__file__).parents[3] / "benchmarks" / "data"


def rows_of(name):
    return json.loads((DATA / f"design_{name}.json").read_text())["rows"]


@pytest.mark.parametrize("row", rows_of("scalesim"), ids=lambda r: f"{r['layer']} {r['dataflow']}")
def test_cycles_are_those_of_scale_sim(row):
    names = {"ws": "weight", "is": "input", "os": "output"}
    arrays = Arrays(
        rows=np.array([float(row["rows"])]),
        cols=np.array([float(row["cols"])]),
        count=np.ones(1),
        dataflow=np.array([DATAFLOWS.index(names[row["dataflow"]])]),
        hidden=False,
    )
    found = float(cycles(Gemm(m=row["m"], n=row["n"], k=row["k"]), arrays)[0])
    # Version 3 of the program lets results leave an output-stationary array in no time; equation 3
    # of its paper, like this module, takes a cycle for each row, in every fold.
    folds = math.ceil(row["m"] / row["rows"]) * math.ceil(row["n"] / row["cols"])
    leaving = folds * row["rows"] if row["dataflow"] == "os" else 0
    assert found == row["cycles"] + leaving


@pytest.mark.parametrize(
    "row", rows_of("zigzag"), ids=lambda r: f"{r['layer']} {r['on_chip_bytes']}"
)
def test_no_tiling_of_zigzag_moves_less(row):
    shape = GemmShape(m=row["m"], n=row["n"], k=row["k"])
    curve = tile_curve(shape, Widths(inputs=1, weights=1, outputs=1, sums=4))
    found = float(curve.at(row["on_chip_bytes"]))
    # Its tiles divide the sizes, and some are held twice; where that does not matter both agree.
    assert found <= row["traffic_bytes"]
    if row["traffic_bytes"] == curve.least:
        assert found == curve.least


@pytest.mark.parametrize("row", rows_of("timeloop"), ids=lambda r: r["design"])
def test_no_published_mapping_of_timeloop_moves_less(row):
    """Layer 1 of AlexNet: 227 x 227 x 3 inputs, 96 filters of 11 x 11, 55 x 55 outputs."""
    shape = ConvShape(
        batch=1, out_channels=96, in_channels=3, out=(55, 55), kernel=(11, 11), stride=(4, 4)
    )
    width = row["word_bytes"]
    curve = tile_curve(shape, Widths(inputs=width, weights=width, outputs=width, sums=width))
    found = float(curve.at(row["buffer_words"] * width)) / width
    assert found <= row["weights"] + row["inputs"] + row["outputs"]
    # With 65,536 words on chip every operand crosses once, which one of the mappings reaches.
    assert found == 96 * 3 * 11 * 11 + 3 * 227 * 227 + 96 * 55 * 55
