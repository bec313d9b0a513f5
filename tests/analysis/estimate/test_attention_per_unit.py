"""Attention on devices whose units multiply less per cycle than those that were measured.

Published kernels (benchmarks/data/attention); no constant has seen them, how far the range
reaches has seen those of the H20 and of the RTX A5000.
"""

from __future__ import annotations

import csv

import pytest
from benchmarks.accuracy.attention import CARRIED, on_another

from gambrel.analysis.estimate.attention_forms import on_other_engine
from gambrel.analysis.estimate.chip import pace_of
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.kinship import choose, kin_of
from gambrel.device.catalog import load

#: What matters of a set.
MADE_UP = {"compute": 0.5, "softmax": 128.0, "narrow": 0.1, "wide": 0.2, "tile": 4000.0}


def published() -> list[dict[str, str]]:
    with CARRIED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", published(), ids=lambda r: f"{r['device']} {r['tokens']}")
def test_published_kernels_lie_inside(row: dict[str, str]) -> None:
    run = on_another(row)
    assert run.low < run.measured < run.high


def test_what_a_unit_does_beside_products_keeps_its_cycles() -> None:
    """By hand: heads of 128, 512 FLOP a pair, 1,024 FLOP per cycle where it was measured.

    There (512 + 128) / (1,024 · 0.5) = 1.25 cycles, 0.5 of them products, 0.75 beside. A unit of
    256 FLOP per cycle takes 2 cycles for the products: 2.75.
    """
    slower = on_other_engine(MADE_UP, 0.25)
    assert (512 + slower["softmax"]) / (256 * slower["compute"]) == pytest.approx(2.75)
    # Heads of 64: 256 · 1.1 FLOP and the softmax take 0.8 cycles, 0.25 of them products.
    pair = 256 * (1 + slower["narrow"]) + slower["softmax"]
    assert pair / (256 * slower["compute"]) == pytest.approx(1 + 0.55)
    assert slower["tile"] == MADE_UP["tile"]


def test_the_same_engine_changes_nothing() -> None:
    assert on_other_engine(MADE_UP, 1.0) == pytest.approx(MADE_UP)


@pytest.mark.parametrize(
    ("device", "pace"),
    [
        ("h20-96gb", 0.25),
        ("h200-sxm-141gb", 1.0),
        ("h100-pcie-80gb", 1.0),
        ("h100-nvl-94gb", 1.0),  # publishes no number of units
        ("a30", 1.0),
        ("a10", 0.5),
        ("a10g", 0.25),
        ("rtx-3090", 0.25),
        ("l4", 1.0),
        ("l20", 0.5),
        ("rtx-4090", 0.5),
        ("rtx-pro-6000-blackwell", 1.0),
        ("jetson-agx-thor-t5000", 1.0),  # another generation of engines: a share of the peak
        ("v100-sxm2-32gb", 1.0),  # its softmax was fitted
    ],
)
def test_engines_differ_by_powers_of_two(device: str, pace: float) -> None:
    found = load(device)
    kin = kin_of(found, packaged())
    assert kin is not None
    assert pace_of(found, kin, "attention") == pace


@pytest.mark.parametrize("framework", ["any", "torch", "vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("device", ["h100-sxm5-80gb", "a100-sxm4-80gb", "l40s", "b200-hgx-180gb"])
def test_a_measured_device_keeps_its_constants(device: str, framework: str) -> None:
    base, found = packaged(), load(device)
    kin = kin_of(found, base)
    assert kin is not None
    chosen = choose("attention", "bf16", found, kin, base, framework)
    assert chosen is not None
    own = [s.constants for s in base.sets if (s.form, s.device) == ("attention", device)]
    assert chosen.constants in own


def test_the_reason_says_what_differs() -> None:
    found = load("h20-96gb")
    kin = kin_of(found, packaged())
    assert kin is not None
    chosen = choose("attention", "bf16", found, kin, packaged(), "vllm")
    assert chosen is not None
    assert chosen.reason.endswith("; a unit multiplies 0.25 times as much per cycle")
    assert chosen.confidence == "medium"
