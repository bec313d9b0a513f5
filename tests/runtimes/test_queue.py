"""The queue of kernels that a host fills: by hand, and against a simulation launch by launch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel.analysis.queue import behind, queue

seconds = st.floats(0, 100, allow_subnormal=False)
kernels = st.lists(st.tuples(seconds, st.integers(0, 6), seconds), max_size=12)


def end_of(kernels, per_launch_s):
    """When the device is through, and the time of the kernels alone."""
    ends = [end for _, _, _, end in queue(kernels, per_launch_s)]
    return (ends[-1] if ends else 0.0), sum(seconds for seconds, _, _ in kernels)


def simulated(kernels, per_launch_s):
    """Launches one by one: the host is through with one before it starts the next."""
    host = device = 0.0
    for whole, launches, idle_start in kernels:
        for _ in range(launches):
            host += per_launch_s
            device = max(device, host + idle_start) + whole / launches
        if not launches:  # runs within a kernel that was launched before
            device += whole
    return device


def test_a_slow_host_is_waited_for():
    """Three kernels of 1 s, launched every 4 s: the last starts at 12 s."""
    assert end_of([(1.0, 1, 0.0)] * 3, 4.0) == (13.0, 3.0)


def test_a_fast_host_runs_ahead():
    """Launches of 1 s hide behind kernels of 4 s; only the first is seen."""
    assert end_of([(4.0, 1, 0.0)] * 3, 1.0) == (13.0, 12.0)


def test_a_long_kernel_lets_the_host_run_ahead():
    """10 s of work hide the next four launches of 2 s each; they end one after another."""
    assert end_of([(10.0, 1, 0.0), (4.0, 4, 0.0)], 2.0) == (16.0, 14.0)


def test_the_start_on_an_idle_device_is_seen_once_in_a_full_queue():
    """Each kernel needs 3 s from its launch to its start; behind 10 s of work none is seen."""
    assert end_of([(10.0, 1, 3.0)] * 2, 1.0) == (24.0, 20.0)


def test_the_start_on_an_idle_device_delays_each_kernel_of_a_slow_host():
    """Launched at 20 and 40 s, started 3 s later."""
    assert end_of([(1.0, 1, 3.0)] * 2, 20.0) == (44.0, 2.0)


def test_kernels_are_placed_one_after_another():
    assert list(queue([(10.0, 1, 0.0), (4.0, 2, 1.0)], 2.0)) == [
        (0.0, 2.0, 2.0, 12.0),
        (2.0, 6.0, 12.0, 16.0),
    ]


def test_work_inside_a_kernel_needs_no_launch():
    assert end_of([(1.0, 1, 0.0), (2.0, 0, 0.0)], 5.0) == (8.0, 3.0)


def test_nothing_to_run():
    assert end_of([], 5.0) == (0.0, 0.0)


@given(kernels, seconds)
def test_it_ends_when_a_simulation_does(kernels, per_launch_s):
    end, _ = end_of(kernels, per_launch_s)
    assert end == pytest.approx(simulated(kernels, per_launch_s), rel=1e-9, abs=1e-9)


@given(kernels, kernels, st.integers(1, 5), seconds)
def test_passes_end_when_they_do_one_by_one(first, layer, times, per_launch_s):
    state = behind((0.0, 0.0), first, 1, per_launch_s)
    _, end = behind(state, layer, times, per_launch_s)
    expected, _ = end_of([*first, *layer * times], per_launch_s)
    assert end == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_layers_hide_the_launches_of_the_next_behind_their_long_kernels():
    """Each pass hands over 5 s of launches behind 4 s of work, all of it but the first hidden."""
    layer = [(0.0, 4, 0.0), (4.0, 1, 0.0)]
    assert behind((0.0, 0.0), layer, 10, 1.0) == (50.0, 54.0)


@given(kernels, seconds)
def test_it_takes_at_least_what_host_and_device_take(kernels, per_launch_s):
    end, busy = end_of(kernels, per_launch_s)
    launches = sum(n for _, n, _ in kernels)
    starts = sum(start for _, n, start in kernels if n)
    assert end >= busy * (1 - 1e-9)
    assert end >= launches * per_launch_s * (1 - 1e-9)
    assert end <= (busy + launches * per_launch_s + starts) * (1 + 1e-9)


@given(
    st.lists(
        st.tuples(st.lists(seconds, min_size=2, max_size=2), st.integers(0, 4), seconds), max_size=8
    )
)
def test_arrays_are_points_of_their_own(kernels):
    together, _ = end_of([(np.array(whole), n, start) for whole, n, start in kernels], 3.0)
    for i in range(2):
        one, _ = end_of([(whole[i], n, start) for whole, n, start in kernels], 3.0)
        assert np.broadcast_to(together, (2,))[i] == pytest.approx(one)


def test_the_host_of_a_jetson_is_slower_than_that_of_a_card():
    """Orin Nano: 16.2 ms for MobileNetV2 (benchmarks/data/jetson/eager.csv); i9-10900X: 3.7 ms."""
    jetson, card = (
        gambrel.analyze("mobilenet-v2", device, runtime="pytorch", precision="fp32")
        for device in ("jetson-orin-nano-8gb", "rtx-3080-10gb")
    )
    assert jetson.limited_by == card.limited_by == "host"
    assert jetson.expected_time_s.low < 16.234e-3 < jetson.expected_time_s.high
    assert card.expected_time_s.low < 3.686e-3 < card.expected_time_s.high
