"""Cards run above the clock of their printed peaks: published rates against the limits."""

import csv
from pathlib import Path

import pytest

import gambrel
from gambrel.device.catalog import load
from gambrel.device.fastest import above_rated, fastest

ROWS = Path(__file__).parents[2] / "benchmarks/data/gemm/rows.csv"


def published():
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [
            (r["device"], r["precision"], float(r["tflop_per_s"])) for r in csv.DictReader(file)
        ]


@pytest.mark.parametrize(("device", "precision", "rate"), published())
def test_no_published_product_is_faster_than_light(device, precision, rate):
    found = gambrel.analyze("matmul:m=8192,n=8192,k=8192", device, precision=precision)
    assert 2 * 8192**3 / found.sol_time_s / 1e12 > rate


def test_printed_peaks_of_cards_are_beaten_and_the_range_knows():
    """An RTX 5090 reached 242 TFLOP/s in bf16; its printed peak is 209.5."""
    device = load("rtx-5090")
    assert above_rated(device) == 1.3
    assert above_rated(load("h100-sxm5-80gb")) == 1
    found = gambrel.analyze(
        "matmul:m=8192,n=8192,k=8192", device, precision="bf16", runtime="pytorch"
    )
    expected = found.expected_time_s
    flops = 2 * 8192**3
    assert flops / found.roofline_time_s < 210e12 < 242e12 < flops / expected.low
    assert found.sol_time_s <= expected.low <= found.roofline_time_s <= expected.value


@pytest.mark.parametrize(("name", "proves"), [("rtx-5090", True), ("rx-7900-xtx", False)])
def test_a_card_whose_clocks_nobody_named_proves_nothing(name, proves):
    assert fastest(load(name), "matrix", "fp16").proves is proves


def test_a_rate_above_the_printed_peak_is_no_failure():
    checked = gambrel.check(
        "matmul:m=8192,n=8192,k=8192", "rtx-5090", precision="bf16", latency="4.6ms"
    )
    assert checked.verdict != "FAIL" or checked.proof != "sol"
