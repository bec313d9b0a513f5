"""Cycles of microcontrollers: the arithmetic by hand, published runs, and what is not known."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.estimate import packaged

ROWS = Path(__file__).parents[3] / "benchmarks/data/tiny/earlier_rounds.csv"
MODELS = {"ic": "resnet8", "vww": "mobilenet-v1-0.25", "kws": "ds-cnn", "ad": "deep-autoencoder"}


def cycles(runtime, core, dtype="int8"):
    return next(
        c for c in packaged().cycles if (c.runtime, c.match, c.dtype) == (runtime, (core,), dtype)
    )


def test_cycles_of_layers_add_up():
    c = cycles("hale", "Cortex-M7")
    found = gambrel.analyze("ds-cnn", "stm32h7a3", runtime="hale")
    # A window of 10 x 4 over 25 x 5 places for 64 channels; four pairs of a depthwise 3 x 3 and a
    # 1 x 1 convolution; 12 classes.
    places = 25 * 5
    window = places * 64 * 40 + 4 * places * 64 * 64
    depthwise = 4 * places * 64 * 9
    written = 9 * places * 64 + 12
    by_hand = c.window * window + c.depthwise * depthwise + c.linear * 768 + c.finish * written
    # Padding, pooling and the softmax of 12 values are less than 5 % of it.
    assert found.expected_time_s.value == pytest.approx(by_hand / 280e6, rel=0.05)
    assert found.expected_time_s.value > by_hand / 280e6


def test_several_rows_share_their_weights():
    one = gambrel.analyze("deep-autoencoder", "stm32l4r5", runtime="hale")
    many = gambrel.analyze("deep-autoencoder", "stm32l4r5", runtime="hale", batch_size=8)
    c = cycles("hale", "Cortex-M4")
    assert many.expected_time_s.value < 8 * one.expected_time_s.value
    assert many.expected_time_s.value > 8 * one.expected_time_s.value * c.window / c.linear


def test_most_published_runs_lie_inside_the_range():
    rows = list(csv.DictReader(ROWS.read_text(encoding="utf-8").splitlines()))
    inside = 0
    for row in rows:
        found = gambrel.analyze(MODELS[row["model"]], row["board"], runtime=row["runtime"])
        seconds = 1 / float(row["inf_per_s"])
        expected = found.expected_time_s
        inside += expected.low <= seconds <= expected.high
        assert found.sol_time_s < seconds
    assert len(rows) == 36
    assert inside >= 33


def test_convolutions_are_faster_as_of_release_9_of_stm32cube_ai():
    """MLPerf Tiny v1.1 (release 8), v1.2 and v1.3 (9.0 and 10.2) on one board: vww."""
    before = gambrel.analyze("mobilenet-v1-0.25", "stm32l4r5", runtime="stm32cube-ai-8")
    now = gambrel.analyze("mobilenet-v1-0.25", "stm32l4r5", runtime="stm32cube-ai")
    assert before.expected_time_s.low < 1 / 4.518 < before.expected_time_s.high
    assert now.expected_time_s.low < 1 / 11.245 < now.expected_time_s.high
    assert now.expected_time_s.value < 0.6 * before.expected_time_s.value


def test_energy_is_power_times_expected_time():
    found = gambrel.analyze("resnet8", "stm32h7a3")
    assert found.energy.energy_j == pytest.approx(0.1389 * found.expected_time_s.value, rel=1e-6)


def test_int8_is_the_default_format():
    named = gambrel.analyze("resnet8", "stm32l4r5", precision="int8")
    assert gambrel.analyze("resnet8", "stm32l4r5").expected_time_s == named.expected_time_s


def test_a_chip_without_roofs_has_a_time_and_no_limit():
    found = gambrel.analyze("resnet8", "ndp120")
    # 195.2 inferences per second are published.
    assert found.expected_time_s.low < 1 / 195.238 < found.expected_time_s.high
    assert found.sol_time_s is None


def test_a_core_that_no_runtime_was_measured_on_has_no_time():
    found = gambrel.analyze("resnet8", "stm32g0b1", runtime="stm32cube-ai")
    assert found.expected_time_s is None
    assert gambrel.analyze("resnet8", "stm32g0b1").runtime == "hale"
