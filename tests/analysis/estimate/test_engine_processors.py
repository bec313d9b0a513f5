"""Engines on processors and on Intel's GPUs: the clock, what waits for threads, whole answers."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.estimate.engine import machine_of, widened
from gambrel.analysis.estimate.engine_forms import kernel_times, over_clocks, running
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions
from gambrel.runtimes import choose
from tests.analysis.estimate.test_engine import EMPTY, NOTHING, PLAIN, WHOLE

#: 1 W at the highest clock for each joule of a FLOP; held halfway to a base clock of a quarter.
PROCESSOR = msgspec.structs.replace(PLAIN, tdp_w=0.125, flop_j=1.0, loaded_w=1.0, halfway=0.5)


@pytest.mark.parametrize(
    ("changed", "scale"),
    [
        # Power grows with the cube of the clock: an eighth of 1 W is half the clock.
        ({}, 0.5),
        ({"loaded_w": 8.0}, 0.25),
        # The highest clock ends it.
        ({"tdp_w": 27.0}, 1.0),
        # Where that is not published the power alone does, up to twice the clock of the peaks.
        ({"tdp_w": 27.0, "turbo": 2.0}, 2.0),
        # Of a process that was not measured it is halfway between the base clock and the highest.
        ({"flop_j": 0.0, "halfway": 0.7}, 0.7),
        # A GPU's clock is its boost clock, and its power limits the run as a whole.
        ({"loaded_w": 0.0, "halfway": 1.0}, 1.0),
    ],
)
def test_the_clock_follows_from_the_power(changed, scale) -> None:
    machine = running({}, msgspec.structs.replace(PROCESSOR, **changed))
    assert machine.scale == pytest.approx(scale)
    assert machine.clock_hz == pytest.approx(scale)
    assert machine.lanes_per_s == pytest.approx(scale)
    assert machine.tdp_w == (0.125 if "loaded_w" in changed and not changed["loaded_w"] else 0.0)


def _seconds(constants, machine, **work) -> float:
    c = {**NOTHING, **WHOLE, **constants}
    return float(kernel_times(c, machine, {**EMPTY, **work}, 1.0, 0.0).whole)


def test_one_request_runs_on_the_fast_cores() -> None:
    hybrid = msgspec.structs.replace(PLAIN, fast_share=0.6, fast_units=2.0, units=5.0)
    one = {"elements": 10.0}
    assert _seconds({"element": 1.0}, hybrid, images=8, **one) == pytest.approx(10)
    assert _seconds({"element": 1.0}, hybrid, images=1, **one) == pytest.approx(10 / 0.6)
    # Its threads are fewer.
    assert _seconds({"launch": 5.0, "sync": 2.0}, hybrid, images=8) == pytest.approx(15)
    assert _seconds({"launch": 5.0, "sync": 2.0}, hybrid, images=1) == pytest.approx(9)
    # Alone they have all of the power.
    powered = msgspec.structs.replace(
        hybrid, tdp_w=1.0, flop_j=1.0, loaded_w=8.0, fast_loaded_w=1.0
    )
    clocked = running({}, powered)
    assert (clocked.scale, clocked.fast_scale) == (pytest.approx(0.5), pytest.approx(1.0))
    assert _seconds({"element": 1.0}, clocked, images=8, **one) == pytest.approx(20)
    assert _seconds({"element": 1.0}, clocked, images=1, **one) == pytest.approx(10 / 0.6)


@pytest.mark.parametrize(
    ("changed", "turbo_w", "ends"),
    [
        # Eight times the power is twice the clock.
        ({}, 1.0, (0.5, 1.0)),
        # A processor whose turbo power is not published, or is its rated one.
        ({}, 0.0, (1.0, 1.0)),
        ({}, 0.125, (1.0, 1.0)),
        # Of a process that was not measured it may hold any clock.
        ({"flop_j": 0.0}, 1.0, (0.5, 2.0)),
        ({"loaded_w": 0.0}, 1.0, (1.0, 1.0)),
    ],
)
def test_a_range_reaches_to_the_other_clocks(changed, turbo_w, ends) -> None:
    machine = msgspec.structs.replace(PROCESSOR, **changed)
    held = msgspec.structs.replace(running({}, machine), tdp_w=machine.tdp_w)
    assert over_clocks({}, held, turbo_w) == pytest.approx(ends)


def test_two_causes_widen_a_range_less_than_their_product() -> None:
    assert widened((0.5, 2.0), (1.0, 1.0)) == pytest.approx((0.5, 2.0))
    low, high = widened((0.5, 2.0), (0.5, 2.0))
    assert low == pytest.approx(0.5**2**0.5)
    assert high == pytest.approx(2**2**0.5)


def test_a_kernel_waits_for_every_thread() -> None:
    eight = msgspec.structs.replace(PLAIN, units=8.0)
    assert _seconds({"launch": 5.0, "sync": 2.0}, eight, images=1) == pytest.approx(5 + 16)


def test_threads_share_small_tiles_and_scores_cost_functions() -> None:
    # 16 x 32 outputs of 10 steps on 1 lane: one small tile instead of one of 64 x 64.
    work = {"rows": 16.0, "columns": 32.0, "depth": 10.0, "copies": 1.0}
    assert _seconds({}, PLAIN, **work) == pytest.approx(2 * 64 * 64 * 10)
    assert _seconds({"fine": 1.0, "finest": 0.5}, PLAIN, **work) == pytest.approx(2 * 16 * 32 * 20)
    # One row has a kernel of its own, which waits for its operand.
    assert _seconds({"single": 0.5}, PLAIN, **{**work, "rows": 1.0}) == pytest.approx(2 * 64 * 20)
    # An attention of 16 queries and 10 keys has 160 scores.
    scores = {**work, "attention": 1.0}
    less = _seconds({}, PLAIN, **scores)
    assert _seconds({"softmax": 3.0}, PLAIN, **scores) == pytest.approx(less + 3 * 160)


def test_a_matrix_engine_attains_a_share_of_its_own() -> None:
    # 1 FLOP/s with 1/16 lane per second: 16 FLOP per lane, more than any vector unit.
    amx = msgspec.structs.replace(PLAIN, lanes_per_s=1 / 16)
    work = {"rows": 64.0, "columns": 64.0, "depth": 1.0, "copies": 1.0}
    assert _seconds({"matrix": 0.5}, amx, **work) == pytest.approx(2 * 2 * 64 * 64)
    assert _seconds({"matrix": 0.5}, PLAIN, **work) == pytest.approx(2 * 64 * 64)


def test_a_processor_is_described_at_its_highest_clock() -> None:
    c = next(one for one in gambrel.analysis.estimate.packaged().engines if "amx" in one.match)
    machine, assumed = machine_of(load("core-i9-13900k"), c)
    fast, slow = 8 * 32 * 5.8e9, 16 * 16 * 4.3e9
    assert machine.clock_hz == 5.8e9
    assert machine.lanes_per_s == pytest.approx((fast + slow) / 2)
    assert machine.loaded_w == pytest.approx(fast * 5.8**2 + slow * 4.3**2)
    assert machine.fast_loaded_w == pytest.approx(fast * 5.8**2)
    assert machine.fast_share == pytest.approx(fast / (fast + slow))
    assert machine.fast_units == 8
    assert machine.fast_halfway == pytest.approx((3.0 / 5.8) ** 0.5)
    assert assumed == ()


@pytest.mark.parametrize(
    ("device", "name", "precision", "seconds", "sizes"),
    [
        # OpenVINO 2024.3 as Intel publishes it, one request at a time.
        ("core-i3-8100", "resnet50", "int8", 10.71e-3, {}),
        ("core-i7-1185g7", "yolov8n", "int8", 10.25e-3, {}),
        ("core-i9-13900k", "bert-large", "int8", 92.96e-3, {"seq": 384}),
        # The same of Ultralytics: two laptops, at 28 W or more and at 17; a desktop.
        ("core-ultra-7-155h", "yolo26m", "fp32", 102.35e-3, {}),
        ("core-ultra-7-155h", "yolo26m", "fp32", 137.06e-3, {}),
        ("core-ultra-7-258v", "yolo26m", "int8", 52.89e-3, {}),
        ("core-ultra-7-265k", "yolo26m", "fp32", 85.29e-3, {}),
        ("xeon-silver-4316", "yolov3-tiny", "int8", 1.36e-3, {}),
        ("iris-xe-12700h", "resnet50", "int8", 3.22e-3, {}),
        ("arc-a770m", "unet-camvid", "int8", 6.58e-3, {}),
        ("xeon-6979p", "resnet50", "int8", 2.17e-3, {}),
        # A release of 2025, benchmark_app.
        ("arc-b580", "yolov8n", "int8", 1.25e-3, {}),
        ("arc-b570", "bert-base", "int8", 1.43e-3, {"seq": 128}),
        ("arc-140v-288v", "resnet50", "int8", 1.56e-3, {}),
        # Ultralytics, releases of 2026, from Python.
        ("arc-b580", "yolo26x", "fp16", 5.94e-3, {}),
        ("arc-140v-258v", "yolo26m", "fp16", 8.98e-3, {}),
        ("arc-b390", "yolo26s", "int8", 3.09e-3, {}),
    ],
)
def test_published_latencies_lie_inside_the_range(device, name, precision, seconds, sizes) -> None:
    settings = Settings(precision=precision, runtime="openvino")
    workload = gambrel.load_model(name)
    bench = Workbench(workload, workload.resolve_symbols(sizes), Conventions())
    total = answered(bench, Machine(load(device), settings), settings).expected.total
    assert total is not None
    assert total.low <= seconds <= total.high


def test_intels_gpus_have_a_default_with_expected_times() -> None:
    shown = ("arc-a770-16gb", "iris-xe-1185g7", "arc-165h", "arc-b580", "arc-140v-258v", "arc-b390")
    for device in shown:
        assert choose(load(device)).runtime.id == "openvino"
        found = gambrel.analyze("resnet50", hardware=device, precision="int8")
        assert found.expected_time_s is not None
