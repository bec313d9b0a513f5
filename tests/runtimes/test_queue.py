"""The queue of kernels that a host fills: by hand, and against a simulation launch by launch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.expected import queue_end

seconds = st.floats(0, 100, allow_subnormal=False)
kernels = st.lists(st.tuples(seconds, st.integers(0, 6)), max_size=12)


def simulated(queue, per_launch_s):
    """Launches one by one: the host is through with one before it starts the next."""
    host = device = 0.0
    for whole, launches in queue:
        for _ in range(launches):
            host += per_launch_s
            device = max(device, host) + whole / launches
        if not launches:  # runs within a kernel that was launched before
            device += whole
    return device


def test_a_slow_host_is_waited_for():
    """Three kernels of 1 s, launched every 4 s: the last starts at 12 s."""
    assert queue_end([(1.0, 1)] * 3, 4.0) == (13.0, 3.0)


def test_a_fast_host_runs_ahead():
    """Launches of 1 s hide behind kernels of 4 s; only the first is seen."""
    assert queue_end([(4.0, 1)] * 3, 1.0) == (13.0, 12.0)


def test_a_long_kernel_lets_the_host_run_ahead():
    """10 s of work hide the next four launches of 2 s each; they end one after another."""
    assert queue_end([(10.0, 1), (4.0, 4)], 2.0) == (16.0, 14.0)


def test_work_inside_a_kernel_needs_no_launch():
    assert queue_end([(1.0, 1), (2.0, 0)], 5.0) == (8.0, 3.0)


def test_nothing_to_run():
    assert queue_end([], 5.0) == (0.0, 0.0)


@given(kernels, seconds)
def test_it_ends_when_a_simulation_does(queue, per_launch_s):
    end, busy = queue_end(queue, per_launch_s)
    assert end == pytest.approx(simulated(queue, per_launch_s), rel=1e-9, abs=1e-9)
    assert busy == pytest.approx(sum(whole for whole, _ in queue), abs=1e-9)


@given(kernels, seconds)
def test_it_takes_at_least_what_host_and_device_take(queue, per_launch_s):
    end, busy = queue_end(queue, per_launch_s)
    launches = sum(n for _, n in queue)
    assert end >= busy * (1 - 1e-9)
    assert end >= launches * per_launch_s * (1 - 1e-9)
    assert end <= (busy + launches * per_launch_s) * (1 + 1e-9)


@given(
    st.lists(st.tuples(st.lists(seconds, min_size=2, max_size=2), st.integers(0, 4)), max_size=8)
)
def test_arrays_are_points_of_their_own(queue):
    together, _ = queue_end([(np.array(whole), n) for whole, n in queue], 3.0)
    for i in range(2):
        one, _ = queue_end([(whole[i], n) for whole, n in queue], 3.0)
        assert np.broadcast_to(together, (2,))[i] == pytest.approx(one)
