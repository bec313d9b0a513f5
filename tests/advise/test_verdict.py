"""PASS, MARGINAL, FAIL, UNKNOWN: hand-made facts, and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.advise.figures import Facts, figure
from gambrel.advise.limits import Limit
from gambrel.advise.verdict import Verdict, judge, worst
from gambrel.analysis.energy import energy
from gambrel.analysis.measures import Estimate, Measures
from gambrel.device.lookup import find


def estimate(value, low, high):
    return Estimate(value=value, low=low, high=high, confidence="medium", reason="because")


def facts(**changes):
    """Batch of 2: speed of light 3 s, roofline 4 s, 8 s expected (6 to 12), 100 bytes, 50 W."""
    fields = {
        "items": 2,
        "expected": estimate(8.0, 6.0, 12.0),
        "roofline_s": 4.0,
        "sol_s": 3.0,
        "memory_bytes": 100,
        "power_cap_w": 50.0,
    }
    return Facts(**{**fields, **changes})


def verdict(metric, limit, **changes):
    return judge(facts(**changes), Limit(metric=metric, value=limit)).verdict


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (2.9, "FAIL"),  # no run beats 3 s
        (5.9, "FAIL"),  # below the whole range
        (6.0, "MARGINAL"),  # the lower end reaches it
        (8.0, "MARGINAL"),
        (11.9, "MARGINAL"),  # the upper end misses it
        (12.0, "PASS"),  # 8 of 12: a third stays free
    ],
)
def test_latency(limit, expected):
    assert verdict("latency", limit) == expected


@pytest.mark.parametrize(
    ("limit", "expected"),
    # 2 items in 12, 8, 6, 3 s
    [(2 / 12, "PASS"), (2 / 8, "MARGINAL"), (2 / 6, "MARGINAL"), (0.34, "FAIL"), (0.67, "FAIL")],
)
def test_throughput_counts_items(limit, expected):
    assert verdict("throughput", limit) == expected


def test_under_ten_percent_of_headroom_is_marginal():
    exact = estimate(8.0, 8.0, 8.0)
    assert verdict("latency", 8.8, expected=exact) == "MARGINAL"
    assert verdict("latency", 8.9, expected=exact) == "PASS"
    assert verdict("memory", 110.0) == "MARGINAL"
    assert verdict("memory", 112.0) == "PASS"
    assert verdict("memory", 99.0) == "FAIL"


def test_only_what_no_run_can_beat_is_certain():
    certain = judge(facts(), Limit(metric="latency", value=2.0))
    assert (certain.confidence, certain.proof) == ("certain", "sol")
    assert certain.reason == "no run is faster than the speed of light, 3 s"
    likely = judge(facts(), Limit(metric="latency", value=5.0))
    assert (likely.verdict, likely.confidence) == (Verdict.FAIL, "medium")
    assert likely.proof == "expected"
    assert judge(facts(), Limit(metric="latency", value=7.0)).proof is None
    assert likely.headroom == pytest.approx(-0.6)  # 8 s against 5 s


def test_where_less_work_than_counted_may_do_nothing_is_proved():
    doubtful = judge(facts(doubt=lambda factor: "Winograd"), Limit(metric="latency", value=2.0))
    assert (doubtful.verdict, doubtful.proof) == (Verdict.FAIL, "expected")
    assert doubtful.reason.endswith("no proof here: Winograd")
    memory = judge(facts(), Limit(metric="memory", value=99.0))
    assert (memory.verdict, memory.proof) == (Verdict.FAIL, "expected")


def test_without_an_expected_time_nothing_passes():
    assert verdict("latency", 1e9, expected=None) == "UNKNOWN"
    # another runtime may beat this one's roofline of 4 s; none the speed of light of 3 s
    assert verdict("latency", 3.9, expected=None) == "UNKNOWN"
    assert verdict("latency", 2.9, expected=None) == "FAIL"
    assert verdict("throughput", 0.7, expected=None) == "FAIL"  # 2 items in 3 s are 0.67/s
    assert verdict("latency", 1.0, expected=None, roofline_s=None, sol_s=None) == "UNKNOWN"


def test_ops_without_a_formula_leave_the_time_open():
    assert verdict("latency", 1e9, left_out="1 op without a formula") == "UNKNOWN"
    assert verdict("latency", 5.9, left_out="1 op without a formula") == "FAIL"


def test_power_is_at_most_the_design_power():
    assert verdict("power", 50.0) == "PASS"
    assert verdict("power", 49.0) == "UNKNOWN"
    assert verdict("power", 1e9, power_cap_w=None) == "UNKNOWN"


def test_energy_is_at_most_design_power_times_the_upper_end():
    assert figure(facts(), "energy").worst == 50.0 * 12.0 / 2
    assert verdict("energy", 300.0) == "PASS"
    assert verdict("energy", 299.0) == "UNKNOWN"
    assert figure(facts(), "efficiency").worst == pytest.approx(1 / 300)


def test_price_is_what_was_given():
    assert verdict("price", 300.0, price=249.0) == "PASS"
    assert verdict("price", 300.0) == "UNKNOWN"


def test_the_worst_counts():
    assert worst([Verdict.PASS, Verdict.MARGINAL]) is Verdict.MARGINAL
    assert worst([Verdict.UNKNOWN, Verdict.MARGINAL]) is Verdict.UNKNOWN
    assert worst([Verdict.FAIL, Verdict.UNKNOWN]) is Verdict.FAIL
    assert [v.exit_code for v in Verdict] == [0, 0, 3, 1]


times = st.floats(1e-6, 1e6)


@given(
    st.lists(times, min_size=5, max_size=5).map(sorted),
    st.booleans(),
    st.booleans(),
    times,
    st.floats(1.0, 100.0),
    st.sampled_from(["latency", "throughput", "power", "energy", "memory"]),
)
def test_a_tighter_limit_is_never_better(points, known, capped, limit, factor, metric):
    floor, bound, low, value, high = points
    about = facts(
        expected=estimate(value, low, high) if known else None,
        roofline_s=bound,
        sol_s=floor,
        power_cap_w=floor if capped else None,
    )
    more = metric == "throughput"
    loose = judge(about, Limit(metric=metric, value=limit)).verdict
    tight = judge(about, Limit(metric=metric, value=limit * factor if more else limit / factor))
    assert worst([loose, tight.verdict]) is tight.verdict


POWERED = {"items": 1, "expected": None, "roofline_s": None, "sol_s": None, "memory_bytes": 1}


@pytest.mark.parametrize(
    ("limit", "verdict", "confidence"),
    [
        (9.0, Verdict.PASS, "high"),  # above the most: proved
        (3.0, Verdict.MARGINAL, "low"),  # above typical, below the most
        (2.0, Verdict.FAIL, "low"),  # below typical
    ],
)
def test_typical_power_is_expected_and_the_most_proves(limit, verdict, confidence):
    known = Facts(**POWERED, power_cap_w=8.65, typical_power_w=2.5)
    found = judge(known, Limit(metric="power", value=limit))
    assert (found.verdict, found.confidence) == (verdict, confidence)
    assert (found.figure.value, found.figure.worst) == (2.5, 8.65)


def test_typical_power_alone_proves_nothing():
    known = Facts(**POWERED, power_cap_w=None, typical_power_w=2.5)
    assert judge(known, Limit(metric="power", value=100.0)).verdict is Verdict.UNKNOWN
    assert judge(known, Limit(metric="power", value=1.0)).verdict is Verdict.FAIL


def test_energy_is_at_most_the_design_power_for_the_slow_end():
    # 2.5 W typical for 0.1 s (0.08 to 0.2), 8.65 W at most
    time = Estimate(value=0.1, low=0.08, high=0.2, confidence="medium", reason="a test")
    known = Facts(
        **{**POWERED, "expected": time},
        power_cap_w=8.65,
        typical_power_w=2.5,
        energy=energy(Measures(expected_time_s=time), find("hailo-8").device, 1),
    )
    found = figure(known, "energy")
    assert found.value == pytest.approx(0.25)
    assert found.low == pytest.approx(0.2)
    assert found.high == found.worst == pytest.approx(8.65 * 0.2)


def test_a_low_end_alone_gives_no_more_confidence_than_it_has():
    """Ops without a formula: the time is at least what the others are expected to take."""
    found = judge(facts(left_out="1 op without a formula"), Limit(metric="latency", value=5.0))
    assert (found.verdict, found.proof) == (Verdict.FAIL, "expected")
    assert found.confidence == "medium"  # of the estimate
    drawn = facts(expected=None, idle_power_w=60.0, power_cap_w=None)
    idle = judge(drawn, Limit(metric="power", value=10.0))
    assert (idle.verdict, idle.confidence) == (Verdict.FAIL, "medium")


def test_where_no_time_is_known_the_reason_says_what_the_limit_asks_for():
    """A speed of light of 3 s against 12 s, and 2 items in 3 s against one in 3 s."""
    latency = judge(facts(expected=None), Limit(metric="latency", value=12.0))
    assert latency.verdict is Verdict.UNKNOWN
    assert latency.reason.endswith("; 25% of the speed of light would meet the limit")
    rate = judge(facts(expected=None), Limit(metric="throughput", value=1 / 3))
    assert rate.reason.endswith("; 50% of the speed of light would meet the limit")
    unbound = judge(facts(expected=None, sol_s=None), Limit(metric="latency", value=12.0))
    assert "speed of light" not in unbound.reason
