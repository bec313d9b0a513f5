"""Measured time by module."""

import msgspec

from gambrel.measure.profile.modules import modules
from gambrel.measure.profile.points import RooflinePoint


def point(module, time_s, bound=1.0, expected=None):
    return RooflinePoint(
        name=module,
        type="matmul",
        module=module,
        flops=10,
        traffic_bytes=4,
        arithmetic_intensity=2.5,
        time_s=time_s,
        spread=None,
        achieved_flop_per_s=None,
        achieved_byte_per_s=None,
        bound="compute",
        roofline_time_s=bound,
        expected_time_s=expected,
        utilization=None,
    )


def test_a_module_holds_what_runs_inside_it():
    found = modules([point("a.x", 3.0), point("b", 4.0), point("a.y", 1.0), point("", 2.0)])
    assert [(m.name, m.depth, m.ops, m.time_s) for m in found] == [
        ("(model)", 0, 4, 10.0),
        ("a", 1, 2, 4.0),
        ("a.x", 2, 1, 3.0),
        ("a.y", 2, 1, 1.0),
        ("b", 1, 1, 4.0),
    ]
    whole = found[0]
    assert (whole.flops, whole.traffic_bytes) == (40, 16)
    assert found[1].share == 0.4
    assert found[1].utilization == 0.5  # two bounds of a second in four seconds


def test_what_is_unknown_stays_unknown():
    found = {m.name: m for m in modules([point("a", None), point("b", 2.0, bound=None)])}
    assert found["a"].time_s is None
    assert found["a"].share is None
    assert found["b"].roofline_time_s is None
    assert found["b"].utilization is None
    assert found["(model)"].time_s == 2.0
    assert found["(model)"].expected_time_s is None
    assert modules([]) == ()


def test_it_is_data():
    (whole,) = modules([point("", 1.0)])
    assert msgspec.json.decode(msgspec.json.encode(whole), type=type(whole)) == whole
