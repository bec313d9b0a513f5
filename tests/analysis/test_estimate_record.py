"""An estimate is used as a number where only its value matters."""

import pytest

from gambrel.analysis import Estimate

TIME = Estimate(
    value=2.0, low=1.0, high=4.0, confidence="high", reason="made up", launches_s=0.5, host_s=0.2
)


def test_compares_and_formats_as_its_value():
    assert float(TIME) == 2.0
    assert TIME > 1.9
    assert TIME >= 2
    assert TIME < 2.1
    assert TIME <= TIME
    assert not TIME < 2
    assert f"{TIME:.1f} s" == "2.0 s"
    assert f"{TIME}" == "2 s (1 s to 4 s), high confidence"


def test_shares_of_launches_and_host():
    assert TIME.launches_share == 0.25
    assert TIME.host_share == 0.1


def test_executions_one_after_another():
    three = TIME.times(3)
    assert (three.value, three.low, three.high) == (6.0, 3.0, 12.0)
    assert (three.launches_s, three.host_s) == (1.5, pytest.approx(0.6))
    assert three.launches_share == TIME.launches_share
