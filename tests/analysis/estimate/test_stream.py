"""Streamed frames: the form by hand, and where it does not apply."""

from types import SimpleNamespace

import msgspec
import pytest

from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.stream import (
    StreamEstimator,
    cut_s,
    cut_share,
    for_frames,
    frame_s,
    load_of,
)
from gambrel.analysis.estimate.stream_work import StreamWork
from gambrel.analysis.estimate.tiled_constants import StreamConstants
from gambrel.analysis.measures import Limiter
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device

CHIP = StreamConstants(
    runtime="hailort",
    device="chip",
    window_per_s=4e12,
    point_per_s=2e12,
    depthwise_per_s=1e11,
    norm_per_s=1e9,
    output_per_s=1e10,
    pool_per_s=1e9,
    frame_s=1e-4,
    held_weights=10e6,
    held_stages=100.0,
    move_frame_s=1e-4,
    passed_per_s=2e9,
    switch_per_s=5e9,
    norm_s=1e-4,
    move_s=3e-4,
    layer_s=1e-5,
    rows=10,
    models=5,
    low=0.7,
    high=2.0,
    low_few=0.5,
    high_few=3.0,
)


def work(weights, frames=1.0, dtype="int8", moves=0, passed=0.0):
    items = ({"window": 4e9 * frames, "output": 1e6 * frames}, {"point": 1e9 * frames})
    return StreamWork(
        items=items,
        counts=(1, 2),
        weights=(weights, 0.0),
        totals={"window": 4e9 * frames, "output": 1e6 * frames, "point": 2e9 * frames},
        all_weights=weights,
        layers=3,
        stages=3,
        norms=0,
        moves=moves,
        frames=frames,
        passed=passed,
        dtype=dtype,
    )


def times(asked):
    return StreamEstimator(CHIP).times(SimpleNamespace(stream=asked))


def test_a_network_that_fits_by_hand():
    """1 ms of windows, 1 ms of points, 0.1 ms of outputs, 0.1 ms per frame; nothing is loaded."""
    found = times(work(weights=1.0))
    assert found.total.value == pytest.approx(2.2e-3, rel=1e-3)
    assert found.limited_by is Limiter.COMPUTE
    assert "a single frame takes longer" in found.total.reason


def test_a_network_that_is_cut_by_hand():
    """50 MB at 5 GB/s and three layers: 10.03 ms for each batch, whatever its size."""
    one, eight = times(work(50e6)), times(work(50e6, frames=8.0))
    assert cut_share(CHIP, work(50e6)) == pytest.approx(1.0)
    assert one.total.value == pytest.approx(2.2e-3 + 10.03e-3)
    assert eight.total.value == pytest.approx(8 * 2.2e-3 + 10.03e-3)
    assert one.limited_by is Limiter.MEMORY
    assert eight.limited_by is Limiter.COMPUTE


def test_changes_of_layout_cost_time_where_a_network_is_cut():
    """Each takes 0.3 ms of every batch and 0.1 ms of a frame; they do not decide whether it is."""
    plain, moved = times(work(50e6)), times(work(50e6, moves=4))
    assert moved.total.value == pytest.approx(plain.total.value + 4 * 0.4e-3)
    assert times(work(1.0, moves=4)).total.value == pytest.approx(2.2e-3, rel=2e-3)


def test_inputs_and_outputs_come_through_dram_where_there_is_some():
    """1 MB of each frame at 2 GB/s."""
    plain, passed = times(work(50e6, frames=8.0)), times(work(50e6, frames=8.0, passed=1e6))
    assert passed.total.value == pytest.approx(plain.total.value + 8 * 0.5e-3)
    without = msgspec.structs.replace(CHIP, passed_per_s=None)
    assert cut_s(without, work(50e6, passed=1e6)) == pytest.approx(cut_s(CHIP, work(50e6)))


def test_the_scarcest_resource_decides_whether_a_network_fits():
    """Nine tenths of the weights beside a tenth of the layers are not the whole chip."""
    narrow = msgspec.structs.replace(work(9e6), stages=10)
    assert load_of(CHIP, narrow) == pytest.approx(0.9, rel=1e-3)
    deep = msgspec.structs.replace(work(1e6), stages=120)
    assert load_of(CHIP, deep) == pytest.approx(1.2, rel=1e-3)


def test_in_doubt_the_time_lies_between_both_as_a_factor():
    half = msgspec.structs.replace(work(10e6), stages=0)
    assert cut_share(CHIP, half) == pytest.approx(0.5)
    whole, cut = frame_s(CHIP, half), cut_s(CHIP, half)
    assert times(half).total.value == pytest.approx((whole * cut) ** 0.5)


@pytest.mark.parametrize(
    ("device", "batch", "published_per_s"),
    [  # Hailo Model Zoo, YOLOv8n, which is none of the rows that were fitted.
        ("hailo-8", 1, 1036), ("hailo-8", 8, 1036), ("hailo-8l", 1, 181), ("hailo-8l", 8, 465),
    ],
)  # fmt: skip
def test_yolov8n_is_within_a_quarter(device, batch, published_per_s):
    total = answer("yolov8n", batch, device).expected.total
    assert batch / total.value == pytest.approx(published_per_s, rel=0.25)


@pytest.mark.parametrize(
    ("model", "norms", "moves"),
    [
        ("yolov8n", 0, 0),  # its softmax is over the 16 bins of a distance
        ("resmlp-12", 0, 12),  # each block turns its map twice, one of them stored
        ("poolformer-s12", 25, 24),  # 24 norms over a whole map, and one over channels
        ("deit-t", 37, 0),  # 25 norms, 12 attentions
    ],
)
def test_what_needs_a_whole_row_or_map(model, norms, moves):
    found = answer(model, 1).table.stream
    assert (found.norms, found.moves) == (norms, moves)


def test_other_formats_have_no_time():
    assert times(work(1.0, dtype="int4")) is None


def answer(model, batch, device="hailo-8"):
    workload = load(model)
    settings = Settings(precision="int8")
    values = workload.resolve_symbols({"batch": batch})
    bench = Workbench(workload, values, settings.conventions)
    return answered(bench, Machine(load_device(device), settings), settings)


@pytest.mark.parametrize("batch", [1, 8])
def test_published_rates_are_inside_the_range(batch):
    """ResNet-50 v1 streams at 1,372 frames per second (Hailo Model Zoo)."""
    total = answer("resnet50", batch).expected.total
    assert total.low / batch <= 1 / 1372 <= total.high / batch


@pytest.mark.parametrize("c", packaged().streams, ids=lambda c: c.device)
def test_stored_constants_are_sound(c):
    assert load_device(c.device)
    assert 0 < c.low < 1 < c.high
    assert 0 < c.low_few < 1 < c.high_few
    assert c.confidence == "low"
    assert c.rows >= 30 or (not c.rows and c.note.startswith("nothing was measured on this chip"))


def test_few_frames_have_a_range_of_their_own():
    own = msgspec.structs.replace(CHIP, low_few=0.25, high_few=4.0)
    assert (for_frames(own, 1).low, for_frames(own, 1).high) == (0.25, 4.0)
    assert (for_frames(own, 8).low, for_frames(own, 8).high) == (CHIP.low, CHIP.high)


def test_a_chip_without_rows_says_whose_constants_it_has():
    total = answer("resnet50", 8, "hailo-15l").expected.total
    assert total.confidence == "low"
    assert total.reason.startswith("nothing was measured on this chip: 0.35 of Hailo-15H's rates")
    like = answer("resnet50", 8, "hailo-15h").expected.total
    assert total.value > like.value
