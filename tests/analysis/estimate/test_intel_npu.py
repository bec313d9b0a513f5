"""Times on Intel's NPUs, as Ultralytics and Intel publish them."""

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

FOLDER = Path(__file__).parents[3] / "benchmarks/data/openvino"


def asked(row):
    found = gambrel.analyze(row["model"], hardware=row["device"], precision=row["format"])
    return found, float(row["ms"]) / 1e3


def read(name):
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return [asked(row) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def rows():
    return read("npu.csv")


def test_no_run_is_faster_than_the_speed_of_light(rows):
    assert all(found.sol_time_s <= measured for found, measured in [*rows, *read("npu_unseen.csv")])


def test_all_runs_are_inside_the_range_that_is_marked_low(rows):
    assert len(rows) == 67
    for found, measured in rows:
        assert found.expected_time_s.low <= measured <= found.expected_time_s.high
        assert found.expected_time_s.confidence == "low"


def test_calls_from_python_are_at_the_slow_end():
    for found, measured in read("npu_calls.csv"):
        time = found.expected_time_s
        assert 1.2 * float(time) < measured < time.high
        assert "a call from the host" in time.reason


def test_half_of_the_runs_are_within_an_eighth(rows):
    errors = [abs(found.expected_time_s.value / measured - 1) for found, measured in rows]
    assert statistics.median(errors) < 0.125


def test_a_small_image_is_handed_over_sooner():
    small, large = (
        gambrel.analyze("mobilenet-v2", hardware="intel-npu-lunar-lake", image=side)
        for side in (224, 448)
    )
    assert large.expected_time_s.host_s > 3 * small.expected_time_s.host_s


def test_openvino_on_an_npu_is_its_compiler():
    found = gambrel.analyze("yolo11n", hardware="intel-npu-panther-lake", runtime="openvino")
    assert found.runtime == "openvino-npu"
