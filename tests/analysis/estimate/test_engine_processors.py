"""Engines on processors and on Intel's GPUs: the clock, what waits for threads, whole answers."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.estimate.engine import machine_of
from gambrel.analysis.estimate.engine_forms import kernel_times, running
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions
from gambrel.runtimes import choose
from tests.analysis.estimate.test_engine import EMPTY, NOTHING, PLAIN, WHOLE

#: 1 W at the base clock for each joule of a FLOP.
PROCESSOR = msgspec.structs.replace(PLAIN, tdp_w=8.0, flop_j=1.0, loaded_w=1.0, turbo=3.0)


@pytest.mark.parametrize(
    ("changed", "scale"),
    [
        # Power grows with the cube of the clock: 8 W are twice the clock of 1 W.
        ({}, 2.0),
        ({"tdp_w": 1.0}, 1.0),
        # Lanes that draw more than the processor's power are below the base clock.
        ({"loaded_w": 64.0}, 0.5),
        # The single-core boost clock ends it.
        ({"turbo": 1.5}, 1.5),
        # Of a process that was not measured the base clock is all that is known.
        ({"flop_j": 0.0}, 1.0),
        # A GPU's clock is its boost clock, and its power limits the run as a whole.
        ({"loaded_w": 0.0}, 1.0),
    ],
)
def test_the_clock_follows_from_the_power(changed, scale) -> None:
    machine = running({}, msgspec.structs.replace(PROCESSOR, **changed))
    assert machine.scale == pytest.approx(scale)
    assert machine.clock_hz == pytest.approx(scale)
    assert machine.lanes_per_s == pytest.approx(scale)
    assert machine.tdp_w == (8.0 if "loaded_w" in changed and not changed["loaded_w"] else 0.0)


def _seconds(constants, machine, **work) -> float:
    c = {**NOTHING, **WHOLE, **constants}
    return float(kernel_times(c, machine, {**EMPTY, **work}, 1.0, 0.0).whole)


def test_one_request_waits_for_the_fast_cores() -> None:
    hybrid = msgspec.structs.replace(PLAIN, fast_share=0.6)
    one = {"elements": 10.0}
    assert _seconds({"element": 1.0}, hybrid, images=8, **one) == pytest.approx(10)
    assert _seconds({"element": 1.0}, hybrid, images=1, **one) == pytest.approx(10 / 0.6)
    # Half of what the slow cores have: 0.6 + 0.5 x 0.4.
    assert _seconds({"element": 1.0, "fast": 0.5}, hybrid, images=1, **one) == pytest.approx(12.5)


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


def test_a_processor_is_described_at_its_base_clock() -> None:
    c = next(one for one in gambrel.analysis.estimate.packaged().engines if "amx" in one.match)
    machine, assumed = machine_of(load("core-i9-13900k"), c)
    assert machine.clock_hz == 3.0e9
    assert machine.turbo == pytest.approx(5.8 / 3.0)
    assert machine.loaded_w == pytest.approx(1.3312e12 * 9)
    assert machine.fast_share == pytest.approx(8 * 32 * 3.0e9 / 1.3312e12, abs=1e-3)
    assert assumed == ()


@pytest.mark.parametrize(
    ("device", "name", "precision", "seconds", "sizes"),
    [
        # OpenVINO 2024.3 as Intel publishes it, one request at a time.
        ("core-i3-8100", "resnet50", "int8", 10.71e-3, {}),
        ("core-i7-1185g7", "yolov8n", "int8", 10.25e-3, {}),
        ("core-i9-13900k", "bert-large", "int8", 92.96e-3, {"seq": 384}),
        ("xeon-silver-4316", "yolov3-tiny", "int8", 1.36e-3, {}),
        ("iris-xe-12700h", "resnet50", "int8", 3.22e-3, {}),
        ("arc-a770m", "unet-camvid", "int8", 6.58e-3, {}),
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
    for device in ("arc-a770-16gb", "iris-xe-1185g7", "arc-165h"):
        assert choose(load(device)).runtime.id == "openvino"
        found = gambrel.analyze("resnet50", hardware=device, precision="int8")
        assert found.expected_time_s is not None
