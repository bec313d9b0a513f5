"""Which level served an op above the roof of main memory, on a machine that is made up."""

import pytest

from gambrel.analysis.measures import Bound, Measures, State
from gambrel.analysis.result import OpResult
from gambrel.device.model import Device, MemoryLevel
from gambrel.measure.profile import memory_level
from gambrel.measure.profile.join import JoinedCalls
from gambrel.measure.profile.points import points

MIB = 1 << 20


def device(category="cpu", **levels):
    """A machine with 10 GB/s of main memory, unless other levels are given as (bytes, byte/s)."""
    found = levels or {
        "DRAM": (1 << 34, 10e9),
        "LLC": (32 * MIB, 60e9),
        "L2": (MIB, 250e9),
        "L1": (48 << 10, 500e9),
    }
    return Device(
        id="built",
        name="Built",
        vendor="",
        category=category,
        memory=tuple(
            MemoryLevel(name=name, capacity_bytes=size, byte_per_s=rate)
            for name, (size, rate) in found.items()
        ),
    )


def op(traffic_bytes):
    """An op that is bound by memory: at 10 GB/s it takes ``traffic_bytes`` / 10e9 s."""
    return OpResult(
        name="relu",
        kind="elementwise",
        op="relu",
        module="",
        source="",
        phase="forward",
        state=State.COUNTED,
        count=1,
        shapes="",
        measures=Measures(
            vector_flops=1,
            read_bytes=traffic_bytes // 2,
            write_bytes=traffic_bytes - traffic_bytes // 2,
            bound=Bound.MEMORY,
            roofline_time_s=traffic_bytes / 10e9,
        ),
    )


def one(traffic_bytes, byte_per_s, machine=None):
    """The point of an op that moved so many bytes at that rate."""
    step = JoinedCalls(times_s=(traffic_bytes / byte_per_s,), unmatched=(), other_s=0.0)
    (found,) = points([op(traffic_bytes)], machine or device(), [step], [0])
    return found


@pytest.mark.parametrize(
    ("traffic_bytes", "level"),
    [
        (4096, "L1"),
        (48 << 10, "L1"),
        ((48 << 10) + 2, "L2"),
        (MIB, "L2"),
        (8 * MIB, "LLC"),
        (32 * MIB, "LLC"),
        (40 * MIB, ""),
    ],
)
def test_the_working_set_decides_which_cache_served(traffic_bytes, level):
    assert one(traffic_bytes, 20e9).served_by == level


@pytest.mark.parametrize("byte_per_s", [5e9, 9.9e9])
def test_what_main_memory_can_do_it_may_have_done(byte_per_s):
    found = one(4096, byte_per_s)
    assert found.served_by == ""
    assert "served" not in found.reason


def test_the_reason_names_the_level_and_its_size():
    found = one(8 * MIB, 20e9)
    assert found.reason == (
        "above the roof: its 8.39 MB fit in LLC (32 MiB), which served them in place of DRAM"
    )


def test_a_rate_that_even_the_cache_does_not_reach_casts_doubt_on_the_peaks():
    assert "measured peak may be too low" in one(8 * MIB, 61e9).reason
    assert "measured peak may be too low" not in one(8 * MIB, 59e9).reason


def test_data_that_no_cache_holds_may_have_stayed_in_part():
    reason = one(40 * MIB, 12e9).reason
    assert "no cache holds its 41.9 MB (the largest has 32 MiB)" in reason
    assert "measured peak may be too low" in reason


def test_without_known_caches_none_is_named():
    machine = device(DRAM=(1 << 34, 10e9))
    found = one(4096, 20e9, machine)
    assert found.served_by == ""
    assert found.reason == (
        "above the roof: the measured peak may be too low (busy machine, lower clock)"
    )


def test_a_gpu_keeps_nothing_in_its_l1_between_kernels():
    assert one(4096, 20e9, device("datacenter gpu")).served_by == "L2"


def test_the_whole_says_how_many_ops_each_cache_served():
    sizes = [4096, 4096, 8 * MIB, 40 * MIB]
    found = [one(n, 20e9) for n in sizes] + [one(4096, 1e9)]
    assert memory_level.counts(found, device()) == {"L1": 2, "LLC": 1, "": 1}
    assert memory_level.counts(found[-1:], device()) == {}
