"""The roofline arithmetic, against figures worked out by hand; nobody else divides by a rate."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel import roofline

SRC = Path(gambrel.__file__).parent
#: Modules that divide by what is called a rate and is none of a device: requests and tokens per
#: second. The list only shrinks.
ALLOWED = {"llm/serving/evaluate.py", "llm/serving/records.py"}

rates = st.floats(1e3, 1e18)
counts = st.floats(0, 1e20)


def test_textbook_ridge_points():
    # TPU v5e: 1.97e14 / 8.2e11 = 240.2; H100 SXM fp16: 989.4 / 3.35 = 295.3
    assert roofline.ratio(1.97e14, 8.2e11) == pytest.approx(240.24, abs=0.01)
    assert roofline.ratio(989.4e12, 3.35e12) == pytest.approx(295.34, abs=0.01)


def test_dot_product_of_bf16_vectors_has_intensity_one_half():
    # n multiplications and n additions over 2 vectors of n elements of 2 bytes: 2n / 4n
    assert roofline.intensity(2 * 4096, 2 * 4096 * 2) == 0.5


def test_no_work_is_intensity_zero_and_no_traffic_is_infinite():
    assert roofline.intensity(0, 0) == 0
    assert roofline.intensity(0, 100) == 0
    assert roofline.intensity(100, 0) == math.inf


def test_attainable_below_at_and_above_the_ridge():
    # 100 FLOP/s and 10 byte/s meet at 10 FLOP/byte
    found = [roofline.attainable(x, 100, 10) for x in (1, 10, 1000, math.inf)]
    assert found == [10, 100, 100, 100]


def test_three_resources_bound_by_the_slowest():
    # 8 FLOP at 4/s, 30 byte at 10/s, 5 byte at 1/s: 2 s, 3 s, 5 s
    work = {"matrix": (8, 4), "DRAM": (30, 10), "link": (5, 1)}
    times = {name: roofline.seconds(w, r) for name, (w, r) in work.items()}
    assert times == {"matrix": 2, "DRAM": 3, "link": 5}
    assert roofline.slowest(times) == 5
    assert roofline.binding(times) == "link"
    assert [roofline.utilization(t, 5) for t in times.values()] == [0.4, 0.6, 1.0]


def test_arrays_hold_one_number_per_point():
    """8 and 80 FLOP at 4/s against 30 bytes at 10/s: 3 s and 20 s."""
    times = {"matrix": roofline.seconds(np.array([8.0, 80.0]), 4), "DRAM": 3.0}
    assert roofline.slowest(times).tolist() == [3.0, 20.0]
    assert roofline.maximum(np.array([1.0, 5.0]), 2).tolist() == [2.0, 5.0]
    assert roofline.rate(np.array([8.0, 80.0]), 4).tolist() == [2.0, 20.0]


def test_a_tie_goes_to_the_resource_listed_first():
    tied = {"DRAM": 3.0, "matrix": 3.0}
    assert roofline.binding(tied, ["matrix"]) == "matrix"
    assert roofline.binding(tied, ["vector"]) == "DRAM"
    assert roofline.binding(tied) == "DRAM"


def test_nothing_to_do_uses_nothing():
    assert roofline.utilization(0.0, 0.0) == 0
    assert roofline.slowest({}) is None
    assert roofline.binding({}) is None


def test_an_infinite_rate_never_limits():
    assert roofline.seconds(1e30, math.inf) == 0


@pytest.mark.parametrize("rate", [0, -1, math.nan])
def test_a_rate_must_be_positive(rate):
    with pytest.raises(ValueError, match="a rate must be a positive number"):
        roofline.seconds(1, rate)
    with pytest.raises(ValueError, match="a time must be a positive number"):
        roofline.rate(1, rate)


@given(intensity=st.floats(0, 1e9), peak=rates, bandwidth=rates)
def test_attainable_never_exceeds_a_roof(intensity, peak, bandwidth):
    found = roofline.attainable(intensity, peak, bandwidth)
    assert found <= peak
    assert found <= intensity * bandwidth * (1 + 1e-12)


@given(a=st.floats(0, 1e9), b=st.floats(0, 1e9), peak=rates, bandwidth=rates)
def test_attainable_grows_with_intensity(a, b, peak, bandwidth):
    low, high = sorted((a, b))
    assert roofline.attainable(low, peak, bandwidth) <= roofline.attainable(high, peak, bandwidth)


@given(flops=st.floats(1, 1e18), nbytes=st.floats(1, 1e15), peak=rates, bandwidth=rates)
def test_time_and_attainable_rate_are_two_views_of_one_model(flops, nbytes, peak, bandwidth):
    times = {"a": roofline.seconds(flops, peak), "b": roofline.seconds(nbytes, bandwidth)}
    attained = roofline.rate(flops, roofline.slowest(times))
    known = roofline.attainable(roofline.intensity(flops, nbytes), peak, bandwidth)
    assert attained == pytest.approx(known, rel=1e-9)


@given(st.lists(st.tuples(counts, rates), min_size=1, max_size=6))
def test_no_resource_is_slower_than_the_slowest_and_one_is_as_slow(resources):
    times = {i: roofline.seconds(work, rate) for i, (work, rate) in enumerate(resources)}
    whole = roofline.slowest(times)
    assert all(t <= whole for t in times.values())
    assert times[roofline.binding(times)] == whole


#: What else a rate is called.
RATES = {"rate", "bandwidth", "peak"}


def _rates_in(node):
    named = (n.id if isinstance(n, ast.Name) else getattr(n, "attr", "") for n in ast.walk(node))
    return [name for name in named if name.endswith("_per_s") or name in RATES]


def divisions_by_rates(source):
    """Lines that divide by something that is called a rate."""
    for node in ast.walk(ast.parse(source)):
        divides = isinstance(node, (ast.BinOp, ast.AugAssign))
        called = getattr(getattr(node, "func", None), "attr", "")
        if called in {"divide", "true_divide"} and any(map(_rates_in, node.args[1:])):
            yield node.lineno
        if divides and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            divisor = node.right if isinstance(node, ast.BinOp) else node.value
            if _rates_in(divisor):
                yield node.lineno


def test_nobody_else_divides_by_a_rate():
    found = {
        path.relative_to(SRC).as_posix(): list(divisions_by_rates(path.read_text("utf-8")))
        for path in SRC.rglob("*.py")
        if path != SRC / "roofline.py"
    }
    offenders = {name: lines for name, lines in found.items() if lines}
    new = {name: lines for name, lines in offenders.items() if name not in ALLOWED}
    assert not new, f"call roofline.seconds or roofline.ratio instead: {new}"
    assert offenders.keys() >= ALLOWED, f"no longer needed: {ALLOWED - offenders.keys()}"


def test_that_test_can_fail():
    assert list(divisions_by_rates("a = b / c.peak_byte_per_s")) == [1]
    assert list(divisions_by_rates("a = b\na /= 0.9 * flop_per_s")) == [2]
    assert list(divisions_by_rates("a = b / rate")) == [1]
    assert list(divisions_by_rates("a = np.divide(b, c.bandwidth)")) == [1]
    assert list(divisions_by_rates("a = peak_flop_per_s / 2")) == []
