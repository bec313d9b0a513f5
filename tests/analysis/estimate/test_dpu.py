"""Times and rates on boards with AMD's DPUs that the Vitis AI model zoo publishes."""

import statistics

import pytest

import gambrel
from gambrel.analysis.costs import Item
from gambrel.analysis.estimate.tiled import Pace, pace
from gambrel.analysis.estimate.tiled_constants import Flight, TiledConstants
from gambrel.analysis.estimate.tiled_work import TiledTable, tiled_work
from gambrel.dtypes import width_bytes
from gambrel.errors import InputError
from gambrel.ops import OpView
from gambrel.ops.base import Cost
from gambrel.runtimes import runtime
from tests.analysis.estimate.published import answers, error, inside

BOARDS = ("zcu102", "zcu104", "kv260", "vck190")


@pytest.fixture(scope="module")
def zoo():
    return answers("dpu/model_zoo.csv")


def test_no_run_is_faster_than_the_speed_of_light(zoo):
    assert len(zoo) == 158
    assert all(found.sol_time_s <= measured for found, measured in zoo)


def test_nine_of_ten_runs_are_inside_the_range(zoo):
    assert statistics.fmean(inside(*row) for row in zoo) >= 0.9


def test_half_of_the_runs_are_within_a_tenth(zoo):
    assert statistics.median(error(*row) for row in zoo) < 0.1


def test_one_publisher_means_low_confidence(zoo):
    assert {found.expected_time_s.confidence for found, _ in zoo} == {"low"}


def seconds(board, batch, model="resnet50"):
    return gambrel.analyze(model, hardware=board, batch_size=batch).expected_time_s.value


@pytest.mark.parametrize(("board", "cores"), [("zcu102", 3), ("zcu104", 2)])
def test_frames_in_flight_take_a_core_each_and_share_the_memory(board, cores):
    one, all_busy = seconds(board, 1), seconds(board, cores)
    assert one < all_busy < cores * one
    assert seconds(board, 2 * cores) == pytest.approx(2 * all_busy, rel=0.02)


def test_the_processor_prepares_a_frame_while_another_is_computed():
    assert seconds("kv260", 2) < 1.97 * seconds("kv260", 1)


def test_a_versal_call_takes_six_frames_in_about_the_time_of_one():
    one, six = seconds("vck190", 1), seconds("vck190", 6)
    assert one < six < 2 * one  # what is more is the processor's
    assert seconds("vck190", 12) < 1.3 * six


def test_small_networks_wait_for_the_processor_of_a_versal():
    found = gambrel.analyze("mobilenet-v1", hardware="vck190", batch_size=12).expected_time_s
    assert 12 / found.value == pytest.approx(5000, rel=0.05)  # two cores make 0.4 ms an image


def test_a_sweep_over_batches_agrees_with_single_answers():
    sizes = [1, 2, 3, 6]
    found = gambrel.sweep("mobilenet-v2", hardware="zcu102", batch_size=sizes)
    single = [seconds("zcu102", batch, "mobilenet-v2") for batch in sizes]
    assert found.table["expected_time_s"].tolist() == pytest.approx(single)


def test_times_of_ops_add_up_to_the_run_but_for_the_processor():
    found = gambrel.analyze("resnet50", hardware="zcu102", batch_size=6)
    times = ((o.measures.expected_time_s, o.count) for o in found.ops)
    ops = sum(t.value * n for t, n in times if t)
    assert ops == pytest.approx(found.expected_time_s.value, rel=0.01)


def chip(**flight):
    return TiledConstants(
        runtime="dpu", device="", start_s={"int8": 1.0}, macs_per_s={"int8": 1.0},
        vector_per_s=1.0, activation_byte_per_s=1.0, ahead_byte_per_s=1.0, rows=0, low=1.0,
        high=1.0, flight=Flight(**flight),
    )  # fmt: skip


def table(inputs):
    return TiledTable(
        works=(), groups=(), counts=(), formats=("int8",), ahead_bytes=0, inputs=inputs
    )


def test_pace_of_calls_by_hand():
    three = chip(inputs=1, calls=3, fed=1.5, hosts=4)
    # Six frames on three cores: two rounds, each core with half of the bandwidth that it has alone.
    assert pace(three, table(6)) == Pace(
        longer=1 / 6, kept_bytes=0, waits=2.0, rounds=2.0, calls=6.0, hosts=4
    )
    # 4 s of preparation on four cores beside two rounds of 3 s; alone they add up.
    assert pace(three, table(6)).whole(4.0, 3.0) == (6.0, 0.0)
    assert pace(three, table(1)).whole(4.0, 3.0) == (7.0, 4.0)
    six = chip(inputs=6, calls=1, fed=1.0, hosts=2, kept_bytes=100)
    # Two frames of six: as long as six, each group moving what exceeds 600 bytes of six frames.
    assert pace(six, table(2)).longer == 3
    assert pace(six, table(2)).moving(300, 10.0) == 30.0


def test_rows_of_a_map_are_padded_to_eight_pixels():
    view = OpView(
        kind="convolution",
        sizes={
            "batch": 1, "groups": 1, "in_channels": 3, "out_channels": 20, "kernel": (3, 3),
            "spatial": (17, 17),
        },
    )  # fmt: skip
    item = Item(view=view, cost=Cost(work={}, read_bytes=0, write_bytes=0), count=1)
    found = tiled_work(item, runtime("vitis-ai-dpu").tiling)
    assert found.macs == 17 * 24 * 9 * 16 * 32


def test_a_pooling_takes_time_on_a_versal_alone():
    view = OpView(kind="pooling", attrs={"function": "max"}, sizes={"outputs": 100, "window": 9})
    item = Item(view=view, cost=Cost(work={}, read_bytes=0, write_bytes=0), count=1)
    zynq, versal = (
        tiled_work(item, runtime(name).tiling) for name in ("vitis-ai-dpu", "vitis-ai-versal")
    )
    assert zynq.vector == 0
    assert versal.vector == 6 * 100 * 9 * width_bytes(view.dtype) / 2


@pytest.mark.parametrize("board", BOARDS)
def test_vitis_ai_means_this_runtime_on_a_board(board):
    found = gambrel.analyze("resnet50", hardware=board, runtime="vitis-ai")
    assert found.expected_time_s is not None
    assert found.sol_time_s < found.expected_time_s.value


def test_other_formats_are_refused():
    with pytest.raises(InputError, match="takes int8"):
        gambrel.analyze("resnet50", hardware="zcu102", precision="fp16")


def test_what_transformers_leave_to_the_processor_has_no_time():
    found = gambrel.analyze("vit-b-16", hardware="kv260")
    assert found.expected_time_s is None
    assert {"attention", "normalization"} <= found.host_ops.keys()
