"""Times on Qualcomm's Cloud AI 100 that were submitted to MLPerf."""

import statistics

import pytest

import gambrel
from tests.analysis.estimate.published import answers, error, inside

CARD = "cloud-ai-100-pro"


@pytest.fixture(scope="module")
def rows():
    return answers("qaic/mlperf.csv")


def test_no_run_is_faster_than_the_speed_of_light(rows):
    assert len(rows) == 23
    assert all(found.sol_time_s <= measured for found, measured in rows)


def test_all_runs_are_inside_the_range(rows):
    for found, measured in rows:
        assert inside(found, measured)
        assert found.expected_time_s.confidence == "low"


def test_half_of_the_runs_are_within_a_third(rows):
    assert statistics.median(error(*row) for row in rows) < 0.35


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
    rows = answers("qaic/ultra.csv")
    assert len(rows) == 8
    for found, measured in rows:
        assert found.sol_time_s <= measured
        assert inside(found, measured)
        assert 0.5 < measured / found.expected_time_s.value < 1.0
        assert "nothing was fitted to this chip" in found.expected_time_s.reason
