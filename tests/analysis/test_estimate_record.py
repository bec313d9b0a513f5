"""An estimate is used as a number where only its value matters."""

from gambrel.analysis import Estimate

TIME = Estimate(value=2.0, low=1.0, high=4.0, confidence="high", reason="made up", overhead_s=0.5)


def test_compares_and_formats_as_its_value():
    assert float(TIME) == 2.0
    assert TIME > 1.9
    assert TIME >= 2
    assert TIME < 2.1
    assert TIME <= TIME
    assert not TIME < 2
    assert f"{TIME:.1f} s" == "2.0 s"
    assert f"{TIME}" == "2 s (1 s to 4 s), high confidence"


def test_share_of_launches():
    assert TIME.overhead_share == 0.25
