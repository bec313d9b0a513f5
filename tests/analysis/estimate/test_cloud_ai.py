"""Times on Qualcomm's Cloud AI 100 that were submitted to MLPerf."""

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/qaic/mlperf.csv"
CARD = "cloud-ai-100-pro"


def asked(row):
    sizes = {k: int(row[k]) for k in ("batch", "seq") if row[k]}
    found = gambrel.analyze(
        row["model"], hardware=row["device"], precision=row["format"], sizes=sizes
    )
    return found, float(row["ms"]) / 1e3


@pytest.fixture(scope="module")
def rows():
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [asked(row) for row in csv.DictReader(file)]


def test_no_run_is_faster_than_the_speed_of_light(rows):
    assert len(rows) == 23
    assert all(found.sol_time_s <= measured for found, measured in rows)


def test_all_runs_are_inside_the_range(rows):
    for found, measured in rows:
        assert found.expected_time_s.low <= measured <= found.expected_time_s.high
        assert found.expected_time_s.confidence == "low"


def test_half_of_the_runs_are_within_a_third(rows):
    errors = [abs(found.expected_time_s.value / measured - 1) for found, measured in rows]
    assert statistics.median(errors) < 0.35


def seconds(batch):
    return gambrel.analyze(
        "ssd-resnet34", hardware=CARD, precision="int8", batch_size=batch
    ).expected_time_s.value


def test_a_single_input_is_spread_over_some_cores_and_more_take_one_each():
    one, four, eight, sixteen = (seconds(batch) for batch in (1, 4, 8, 16))
    assert one < 0.35 * four  # a core each, and the same four cores
    assert eight == pytest.approx(four, rel=0.15)
    assert sixteen == pytest.approx(eight, rel=0.15)


def test_a_sweep_over_batches_agrees_with_single_answers():
    found = gambrel.sweep("ssd-resnet34", hardware=CARD, precision="int8", batch_size=[1, 4, 16])
    expected = found.table["expected_time_s"].tolist()
    assert expected == pytest.approx([seconds(batch) for batch in (1, 4, 16)])


def test_a_card_of_four_chips_has_their_constants():
    with ROWS.with_name("ultra.csv").open(newline="", encoding="utf-8") as file:
        rows = [asked(row) for row in csv.DictReader(file)]
    assert len(rows) == 8
    for found, measured in rows:
        assert found.sol_time_s <= measured
        assert found.expected_time_s.low <= measured <= found.expected_time_s.high
        assert 0.5 < measured / found.expected_time_s.value < 1.0
        assert "nothing was fitted to this chip" in found.expected_time_s.reason
