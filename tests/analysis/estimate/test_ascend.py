"""Times on Huawei's inference chips that its model zoo publishes, and on an NPU of AMD."""

import statistics

import pytest

import gambrel
from gambrel.runtimes import runtime
from tests.analysis.estimate.published import answers, error, inside


@pytest.fixture(scope="module")
def ascend():
    return answers("ascend/networks.csv")


@pytest.fixture(scope="module")
def ryzen():
    return answers("ryzen/networks.csv")


def test_no_run_is_faster_than_the_speed_of_light(ascend, ryzen):
    assert all(found.sol_time_s <= measured for found, measured in (*ascend, *ryzen))


def test_nine_of_ten_runs_on_ascend_are_inside_the_range(ascend):
    assert len(ascend) == 177
    assert statistics.fmean(inside(*row) for row in ascend) >= 0.9


def test_half_of_the_runs_on_ascend_are_within_a_quarter(ascend):
    assert statistics.median(error(*row) for row in ascend) < 0.25


def test_all_runs_on_the_npu_of_hawk_point_are_inside_the_range(ryzen):
    assert len(ryzen) == 9
    assert all(inside(*row) for row in ryzen)


def test_estimates_of_chips_with_one_publisher_are_marked_low(ascend, ryzen):
    assert {found.expected_time_s.confidence for found, _ in (*ascend, *ryzen)} == {"low"}


def test_the_same_network_takes_longer_on_the_older_chip():
    old, new = (gambrel.analyze("resnet50", hardware=f"ascend-{n}") for n in ("310", "310p"))
    assert old.expected_time_s.value > 3 * new.expected_time_s.value


def test_the_next_npu_of_amd_has_a_wide_range_from_its_datasheet():
    found = gambrel.analyze("yolov8m", hardware="ryzen-ai-300").expected_time_s
    assert found.low <= 0.021 <= found.high  # of AMD's example, which names no chip
    assert found.high > 5 * found.low
    assert found.confidence == "low"


def test_an_order_and_a_depthwise_window_cost_what_the_runtime_states():
    tiling, usual = runtime("cann").tiling, runtime("qnn").tiling
    assert tiling.depthwise < usual.depthwise
    assert tiling.ordered > usual.ordered
