"""Rates on cards with a Metis that Axelera publishes."""

import statistics

import pytest

import gambrel
from gambrel.errors import GambrelError
from tests.analysis.estimate.published import answers, error, inside


@pytest.fixture(scope="module")
def runs():
    return answers("axelera/rates.csv")


def of(runs, card):
    return [row for row in runs if row[0].hardware.id == card]


def test_no_run_is_faster_than_the_speed_of_light(runs):
    assert all(found.sol_time_s <= measured for found, measured in runs)


@pytest.mark.parametrize(("card", "most"), [("metis-pcie", 0.16), ("metis-m2", 0.21)])
def test_nine_of_ten_rates_are_inside_the_range_and_half_are_near(runs, card, most):
    own = of(runs, card)
    assert len(own) == 55
    assert statistics.fmean(inside(*row) for row in own) >= 0.9
    assert statistics.median(error(*row) for row in own) < most


def test_estimates_are_marked_low_and_say_that_they_are_rates(runs):
    assert {found.expected_time_s.confidence for found, _ in runs} == {"low"}
    assert all(found.expected_time_s.streamed for found, _ in runs)


def test_convolutions_of_groups_cost_what_dense_ones_do():
    grouped, dense = (
        gambrel.analyze(m, hardware="metis-pcie").expected_time_s.value
        for m in ("resnext50", "wide-resnet50")
    )
    assert grouped == pytest.approx(dense, rel=0.05)


def test_weights_beyond_what_the_chip_keeps_tell_the_cards_apart():
    def times(model):
        pcie, m2 = (
            gambrel.analyze(model, hardware=f"metis-{card}").expected_time_s.value
            for card in ("pcie", "m2")
        )
        return m2 / pcie

    assert times("wide-resnet50") > 1.7
    assert times("mobilenet-v2") < 1.4


def test_other_formats_are_refused():
    with pytest.raises(GambrelError, match="int8"):
        gambrel.analyze("yolov8n", hardware="metis-pcie", precision="fp16")
