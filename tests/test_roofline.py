"""The roofline arithmetic, against figures worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel import roofline

rates = st.floats(1e3, 1e18)
counts = st.floats(0, 1e20)


def test_textbook_ridge_points():
    # TPU v5e: 1.97e14 / 8.2e11 = 240.2; H100 SXM fp16: 989.4 / 3.35 = 295.3
    assert roofline.ridge_point(1.97e14, 8.2e11) == pytest.approx(240.24, abs=0.01)
    assert roofline.ridge_point(989.4e12, 3.35e12) == pytest.approx(295.34, abs=0.01)


def test_dot_product_of_bf16_vectors_has_intensity_one_half():
    # n multiplications and n additions over 2 vectors of n elements of 2 bytes: 2n / 4n
    assert roofline.arithmetic_intensity(2 * 4096, 2 * 4096 * 2) == 0.5


def test_no_work_is_intensity_zero_and_no_traffic_is_infinite():
    assert roofline.arithmetic_intensity(0, 0) == 0
    assert roofline.arithmetic_intensity(0, 100) == 0
    assert roofline.arithmetic_intensity(100, 0) == np.inf


def test_attainable_below_at_and_above_the_ridge():
    # 100 FLOP/s and 10 byte/s meet at 10 FLOP/byte
    found = roofline.attainable_flop_per_s([1, 10, 1000, np.inf], 100, 10)
    assert found.tolist() == [10, 100, 100, 100]


def test_three_resources_bound_by_the_slowest():
    # 8 FLOP at 4/s, 30 byte at 10/s, 5 byte at 1/s: 2 s, 3 s, 5 s
    times = roofline.resource_times([8, 30, 5], [4, 10, 1])
    assert times.tolist() == [2, 3, 5]
    assert roofline.bound_time(times) == 5
    assert roofline.binding_resource(times) == 2
    assert roofline.utilizations(times).tolist() == [0.4, 0.6, 1.0]


def test_a_tie_goes_to_the_resource_listed_first():
    assert roofline.binding_resource([3.0, 3.0]) == 0


def test_nothing_to_do_uses_nothing():
    assert roofline.utilizations([0.0, 0.0]).tolist() == [0, 0]


@pytest.mark.parametrize("rate", [0, -1, np.nan])
def test_a_rate_must_be_positive(rate):
    with pytest.raises(ValueError, match="a rate must be a positive number"):
        roofline.ridge_point(rate, 1)


@pytest.mark.parametrize("work", [-1, np.nan])
def test_work_must_not_be_negative(work):
    with pytest.raises(ValueError, match="not negative"):
        roofline.resource_times([work], [1])


@given(intensity=st.floats(0, 1e9), peak=rates, bandwidth=rates)
def test_attainable_never_exceeds_a_roof(intensity, peak, bandwidth):
    found = roofline.attainable_flop_per_s(intensity, peak, bandwidth)
    assert found <= peak
    assert found <= intensity * bandwidth * (1 + 1e-12)


@given(a=st.floats(0, 1e9), b=st.floats(0, 1e9), peak=rates, bandwidth=rates)
def test_attainable_grows_with_intensity(a, b, peak, bandwidth):
    low, high = sorted((a, b))
    found = roofline.attainable_flop_per_s([low, high], peak, bandwidth)
    assert found[0] <= found[1]


@given(st.lists(st.tuples(counts, rates), min_size=1, max_size=6))
def test_bound_is_no_resource_faster_and_one_as_slow(resources):
    work, rate = zip(*resources, strict=True)
    times = roofline.resource_times(work, rate)
    bound = roofline.bound_time(times)
    assert (times <= bound).all()
    assert times[roofline.binding_resource(times)] == bound
