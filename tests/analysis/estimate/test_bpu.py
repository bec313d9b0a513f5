"""Times on boards with a BPU of Horizon's that D-Robotics publishes."""

import statistics

import pytest

import gambrel
from gambrel.errors import GambrelError
from tests.analysis.estimate.published import answers, error, inside


@pytest.fixture(scope="module")
def runs():
    return answers("horizon/networks.csv")


def of(runs, board):
    return [row for row in runs if row[0].hardware.id == board]


def test_no_run_is_faster_than_the_speed_of_light(runs):
    assert all(found.sol_time_s <= measured for found, measured in runs)


@pytest.mark.parametrize(
    ("board", "rows"), [("rdk-x5", 68), ("rdk-s100", 46), ("rdk-s100p", 35), ("rdk-s600", 40)]
)
def test_nine_of_ten_runs_of_a_board_are_inside_the_range(runs, board, rows):
    own = of(runs, board)
    assert len(own) == rows
    assert statistics.fmean(inside(*row) for row in own) >= 0.9


@pytest.mark.parametrize(
    ("board", "most"),
    [("rdk-x5", 0.11), ("rdk-s100", 0.06), ("rdk-s100p", 0.05), ("rdk-s600", 0.04)],
)
def test_half_of_the_runs_of_a_board_are_near(runs, board, most):
    assert statistics.median(error(*row) for row in of(runs, board)) < most


def test_estimates_of_chips_with_one_publisher_are_marked_low(runs):
    assert {found.expected_time_s.confidence for found, _ in runs} == {"low"}


def test_boards_that_ran_detectors_alone_have_the_widest_range():
    def width(board):
        found = gambrel.analyze("resnet50", hardware=board).expected_time_s
        return found.high / found.low

    assert width("rdk-s100") < width("rdk-x5")
    assert width("rdk-s100p") >= width("rdk-x5") * 0.99
    assert width("rdk-s600") >= width("rdk-x5") * 0.99


def test_attention_weighs_on_the_x5_alone():
    def ratio(board):
        times = [
            gambrel.analyze(m, hardware=board).expected_time_s.value for m in ("yolo12s", "yolo11s")
        ]
        return times[0] / times[1]

    assert ratio("rdk-x5") > 2.5
    assert ratio("rdk-s100") < 2


def test_other_formats_are_refused():
    with pytest.raises(GambrelError, match="int8"):
        gambrel.analyze("yolov8n", hardware="rdk-s100", precision="fp32")
