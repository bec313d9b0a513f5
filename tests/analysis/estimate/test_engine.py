"""Engines: work of kernels by hand, the formula by hand, whole answers."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.engine import machine_of
from gambrel.analysis.estimate.engine_forms import (
    EngineMachine,
    copied_s,
    kernel_times,
    whole_run,
)
from gambrel.analysis.measures import Limiter
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions

#: One unit of 1 Hz with one lane, 1 byte/s, no cache, no power limit: seconds can be counted.
PLAIN = EngineMachine(
    units=1.0,
    clock_hz=1.0,
    byte_per_s=1.0,
    cache_bytes=0.0,
    lanes_per_s=1.0,
    tdp_w=0.0,
    flop_j=0.0,
    byte_j=0.0,
)
NOTHING = dict.fromkeys(
    ("launch", "step", "finish", "tap", "element", "kept", "wave", "start_s", "apart"), 0.0
)
WHOLE = dict.fromkeys(("compute", "attention", "gather", "small", "memory", "cache"), 1.0)
EMPTY = dict.fromkeys(
    ("rows", "columns", "depth", "copies", "attention", "windowed", "finished", "taps",
     "elements", "weight_bytes", "inner_bytes", "step_bytes", "functions", "function_bytes",
     "images"), 0.0
)  # fmt: skip


def _bench(name: str, **sizes: int) -> Workbench:
    workload = gambrel.load_model(name)
    return Workbench(workload, workload.resolve_symbols(sizes), Conventions())


def _answer(device: str, precision: str = "int8", name: str = "resnet50", batch: int = 1):
    settings = Settings(precision=precision, runtime="tensorrt")
    return answered(_bench(name, batch=batch), Machine(load(device), settings), settings)


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        # 65 rows are two tiles of 64, which are one of 128: 2 x 128 x 64 x 10 FLOP.
        ({"rows": 65, "columns": 64, "depth": 10, "copies": 1}, 2 * 128 * 64 * 10),
        # 129 rows: three small tiles beat two large ones.
        ({"rows": 129, "columns": 64, "depth": 10, "copies": 1}, 2 * 192 * 64 * 10),
        # 32 columns in tiles of 256 x 32, not in four of 64 x 64.
        ({"rows": 256, "columns": 32, "depth": 10, "copies": 1}, 2 * 256 * 32 * 10),
        # Several taps: 64 rows of 128 bytes are gathered at 32 bytes a cycle before they multiply.
        (
            {"rows": 64, "columns": 64, "depth": 64, "copies": 1, "windowed": 1, "step_bytes": 128},
            2 * 64 * 64 * 64 + 64 * 128 / 32,
        ),
        ({"weight_bytes": 70.0, "inner_bytes": 30.0}, 100),
        ({"elements": 0.0}, 0),
    ],
)
def test_kernel_by_hand(changed: dict[str, float], seconds: float) -> None:
    shares = {**WHOLE, "gather": 0.5}
    times = kernel_times({**NOTHING, **shares}, PLAIN, {**EMPTY, **changed}, 1.0, 1.0)
    assert float(times.whole) == pytest.approx(seconds)


def test_activation_apart_is_launched_again_and_read_and_written_again() -> None:
    work = {**EMPTY, "inner_bytes": 30.0, "functions": 5.0, "function_bytes": 20.0}
    constants = {**NOTHING, **WHOLE, "launch": 7.0, "element": 2.0}
    whole = {
        share: kernel_times({**constants, "apart": share}, PLAIN, work, 1.0, 1.0)
        for share in (0, 1)
    }
    # Apart: two launches of 7 s, 30 + 20 bytes beside 5 elements of 2 s.
    assert float(whole[0].whole) == pytest.approx(7 + 30)
    assert float(whole[1].whole) == pytest.approx(14 + (50**4 + 10**4) ** 0.25)


def test_only_curved_activations_of_convolutions_can_run_apart() -> None:
    settings = Settings(precision="int8", runtime="tensorrt")
    machine = Machine(load("jetson-orin-nano-8gb"), settings)
    relu = answered(_bench("resnet50", batch=1), machine, settings).table.engine
    assert not relu.columns["functions"].any()
    silu = answered(_bench("yolov8n", batch=1), machine, settings).table.engine
    first = next(k for k in silu.kernels if k.rows == 320 * 320)
    # 16 channels of 320 x 320, read and written in 16 bits.
    assert (first.functions, first.function_bytes) == (16 * 320 * 320, 2 * 2 * 16 * 320 * 320)


def _kernels(name: str, precision: str = "int8"):
    settings = Settings(precision=precision, runtime="tensorrt")
    machine = Machine(load("h100-sxm5-80gb"), settings)
    return answered(_bench(name, batch=1), machine, settings).table


def test_norms_whose_scales_are_folded_still_run() -> None:
    """Instance norms of 3D-UNet: weights are repeated beforehand, the map is read and written.

    The ReLU behind each is in its kernel.
    """
    table = _kernels("3d-unet")
    kinds = [[table.items[i].view.kind for i in k.members] for k in table.engine.kernels]
    norms = [
        k
        for k, own in zip(table.engine.kernels, kinds, strict=True)
        if own[-2:] == ["normalization", "elementwise"]
    ]
    assert sum(k.count for k in norms) == 22
    assert ["elementwise"] not in kinds
    # 32 channels of 128 x 128 x 128, read and written in 16 bits, with a scale and a shift each.
    assert max(k.inner_bytes for k in norms) == 2 * 2 * 32 * 128**3 + 2 * 2 * 32


def test_of_a_concatenation_only_what_no_convolution_wrote_is_copied() -> None:
    """3D-UNet joins a transposed convolution's result with one of a normalization."""
    table = _kernels("3d-unet")
    copies = [k for k in table.engine.kernels if table.items[k.main].view.kind == "copy"]
    # At the largest of five: 32 of the 64 channels, read and written in 16 bits.
    assert len(copies) == 5
    assert max(k.inner_bytes for k in copies) == 2 * 2 * 32 * 128**3
    assert max(k.elements for k in copies) == 32 * 128**3


def test_ops_that_run_together_leave_nothing_between_them_in_memory() -> None:
    """RetinaNet: 120,087 anchors x 264 scores are laid out anew and joined in one kernel."""
    table = _kernels("retinanet-resnext50")
    joined = max(
        (k for k in table.engine.kernels if not k.flops), key=lambda k: float(k.weight_bytes)
    )
    assert (joined.inner_bytes, joined.weight_bytes) == (2 * 120_087 * 264, 120_087 * 264)


def test_lanes_are_not_multiprocessors() -> None:
    # Jetson Nano's table counts 128 CUDA cores, which are one multiprocessor of Maxwell.
    jetson = next(c for c in packaged().engines if c.match == ("jetson",))
    assert machine_of(load("jetson-nano-4gb"), jetson)[0].units == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(
    ("device", "precision", "published_s"),
    [
        # trtexec, GPU time: hokwangchoi/jetson-orin-nano-benchmarks @b7d18154.
        ("jetson-orin-nano-super-8gb", "fp16", 4.43e-3),
        ("jetson-orin-nano-super-8gb", "int8", 3.49e-3),
    ],
)
def test_yolov8n_on_jetson_is_within_a_quarter(
    device: str, precision: str, published_s: float
) -> None:
    whole = _answer(device, precision, "yolov8n").expected.total
    assert whole is not None
    assert whole.value == pytest.approx(published_s, rel=0.25)
    assert whole.low <= published_s <= whole.high


@pytest.mark.parametrize(
    ("model", "published_s"),
    [
        # NVIDIA-AI-IOT/torch2trt @5eeddca7, benchmarks/JETSON_NANO.md: calls from Python, fp16.
        ("alexnet", 14.7e-3),
        ("vgg16", 85.1e-3),
        ("squeezenet-1.1", 4.34e-3),
    ],
)
def test_products_of_a_single_row_read_their_weights_once(model: str, published_s: float) -> None:
    whole = _answer("jetson-nano-4gb", "fp16", model).expected.total
    assert whole is not None
    assert whole.value == pytest.approx(published_s, rel=0.35)
    assert whole.low <= published_s <= whole.high


def test_a_range_on_a_jetson_ends_with_a_call() -> None:
    jetson = next(c for c in packaged().engines if c.match == ("jetson",))
    whole = _answer("jetson-orin-nano-super-8gb", "fp16", "yolov8n").expected.total
    assert whole is not None
    _, high = jetson.range_of("fp16")
    assert whole.high == pytest.approx(whole.value * high + jetson.constants["call_s"])


def test_cache_keeps_activations_but_not_weights() -> None:
    machine = EngineMachine(**{f: getattr(PLAIN, f) for f in PLAIN.__slots__} | {"cache_bytes": 50})
    work = {**EMPTY, "weight_bytes": 70.0, "inner_bytes": 30.0}
    times = kernel_times({**NOTHING, **WHOLE, "kept": 1.0}, machine, work, 1.0, 1.0)
    assert float(times.memory) == pytest.approx(70)


def test_power_limit_sets_the_time_when_it_is_far_beyond() -> None:
    machine = EngineMachine(**{f: getattr(PLAIN, f) for f in PLAIN.__slots__} | {"tdp_w": 10.0})
    # 800 J at 0.8 of 10 W: 100 s, beside which 1 s of kernels does not show.
    assert float(whole_run(machine, 0.0, 1.0, 800.0)) == pytest.approx(100)
    assert float(whole_run(PLAIN, 0.0, 1.0, 800.0)) == pytest.approx(1)


def test_a_card_waits_for_the_copies_of_one_image_alone() -> None:
    constants = {**NOTHING, "copied_per_s": 10.0}
    # 40 bytes at 10 a second: of one image 4 s; of four in flight each is 1 s, three run beside.
    assert copied_s(constants, 40.0, 1.0) == (4.0, 0.0)
    assert copied_s(constants, 40.0, 4.0) == (1.0, 3.0)
    assert copied_s(NOTHING, 40.0, 4.0) == (0.0, 0.0)
    # 1 s of waiting and 2 s of kernels; copies of 30 s beside them take 31 s in all.
    assert float(whole_run(PLAIN, 1.0, 2.0, 0.0, 0.0)) == pytest.approx(3)
    assert float(whole_run(PLAIN, 1.0, 2.0, 0.0, 30.0)) == pytest.approx(31, rel=1e-6)


def test_attention_in_parts_is_launched_so_many_times() -> None:
    work = {**EMPTY, "attention": 1.0, "copies": 0.0}
    times = kernel_times({**NOTHING, **WHOLE, "launch": 7.0, "parts": 3.0}, PLAIN, work, 1.0, 1.0)
    assert float(times.launch) == pytest.approx(4 * 7)


def test_products_of_one_image_wait_for_what_other_cores_read() -> None:
    work = {**EMPTY, "rows": 64.0, "columns": 64.0, "depth": 1.0, "copies": 1.0}
    constants = {**NOTHING, **WHOLE, "shared": 0.5}
    one, two = (kernel_times(constants, PLAIN, {**work, "images": n}, 1.0, 1.0) for n in (1.0, 2.0))
    assert float(two.compute) == pytest.approx(2 * 64 * 64)
    assert float(one.compute) == pytest.approx(1.5 * 2 * 64 * 64)


def test_what_a_host_hands_over_and_takes_back() -> None:
    settings = Settings(precision="int8", runtime="openvino")
    machine = Machine(load("arc-b580"), settings)
    # ResNet-50 takes 3 x 224 x 224 values and returns 1000, in fp32, of each of two images.
    whole = answered(_bench("resnet50", batch=2), machine, settings).table.engine.handed
    assert whole == (2 * 4 * (3 * 224 * 224 + 1000), 2)
    # A detector also returns what its head reads; an exported one returns 84 values of 8400 boxes.
    whole = answered(_bench("yolov8n", batch=1), machine, settings).table.engine.handed
    assert whole == (4 * (3 * 640 * 640 + 84 * 8400), 1)


def test_first_convolution_of_resnet50_by_hand() -> None:
    settings = Settings(precision="int8", runtime="tensorrt")
    machine = Machine(load("l4"), settings)
    found = answered(_bench("resnet50", batch=2), machine, settings)
    first = next(k for k in found.table.engine.kernels if k.depth == 192)
    # 7 x 7 x 3 = 147 bytes along the reduction are padded to three steps of 64.
    assert (first.rows, first.columns, first.copies) == (2 * 112 * 112, 64, 1)
    assert first.step_bytes == 192
    assert first.finished == 2 * 64 * 112 * 112
    assert first.inner_bytes == 2 * 64 * 112 * 112  # written in 8 bits
    assert first.weight_bytes == 2 * 3 * 224 * 224 + 64 * 147


def test_grouped_convolutions_share_tiles() -> None:
    bench = _bench("resnext50", batch=1)
    settings = Settings(precision="int8", runtime="tensorrt")
    found = answered(bench, Machine(load("l4"), settings), settings)
    # 32 groups of 4 channels: 8 groups fill a tile of 32 channels.
    first = next(k for k in found.table.engine.kernels if k.copies == 4)
    assert (first.columns, first.depth) == (32, 32 * 9 + 32)  # 288 bytes padded to 320


def test_long_attention_of_8_bits_runs_in_16() -> None:
    settings = Settings(precision="int8", runtime="tensorrt")
    machine = Machine(load("l4"), settings)
    # BERT reads 384 keys; the first blocks of Stable Diffusion's U-Net 4,096.
    for bench, expected in ((_bench("bert-base", seq=384), "int8"), (_bench("sd15-unet"), "fp16")):
        kernels = answered(bench, machine, settings).table.engine.kernels
        longest = max((k for k in kernels if k.attention), key=lambda k: k.depth)
        assert longest.dtype == expected


def test_parts_add_up_to_the_run() -> None:
    found = _answer("a30", batch=8)
    whole = found.expected.total
    assert whole is not None
    items = zip(found.expected.items, found.table.items, strict=True)
    parts = sum(one.value * item.count for one, item in items if one is not None)
    assert parts + whole.host_s == pytest.approx(whole.value)


def test_small_batches_wait_for_launches_and_large_ones_compute() -> None:
    assert _answer("h100-sxm5-80gb").expected.limited_by is Limiter.LAUNCHES
    assert _answer("t4", batch=256).expected.limited_by is Limiter.COMPUTE


def test_confidence_falls_with_the_distance_from_what_was_measured() -> None:
    own, far = _answer("l4").expected.total, _answer("rtx-4090").expected.total
    other = _answer("l4", "bf16").expected.total
    assert own is not None
    assert far is not None
    assert other is not None
    assert (own.confidence, far.confidence, other.confidence) == ("medium", "low", "low")
    assert far.high / far.low > own.high / own.low
    assert "none on this device" in far.reason
    assert "none in bf16" in other.reason


def test_recurrent_layers_take_the_constants_of_single_kernels() -> None:
    settings = Settings(precision="fp16", runtime="tensorrt")
    machine = Machine(load("h100-sxm5-80gb"), settings)
    found = answered(_bench("lstm"), machine, settings)
    assert not found.table.engine.described
    assert found.expected.total is not None


def test_published_rates_lie_inside_the_range() -> None:
    """MLPerf Inference v3.0, Offline, ResNet-50 in int8, samples/s for each device."""
    published = {"a100-sxm4-80gb": 41_542, "a30": 20_030, "l4": 13_160, "t4": 6_121}
    for device, rate in published.items():
        times = [_answer(device, batch=b).expected.total for b in (32, 128, 512)]
        rates = [(b / t.high, b / t.low) for b, t in zip((32, 128, 512), times, strict=True) if t]
        assert max(low for low, _ in rates) <= rate <= max(high for _, high in rates), device


def test_constants_are_physical() -> None:
    for one in packaged().engines:
        shares = ("compute", "attention", "memory", "small", "wave", "cache")
        assert all(0 <= one.constants[name] <= 1 for name in shares), one.runtime
        assert all(low < 1 < high for low, high in ((one.low, one.high), *one.ranges.values()))
        assert one.far_low < one.low
        assert one.far_high > one.high or one.runtime == "ipex"
        assert msgspec.json.decode(msgspec.json.encode(one), type=type(one)) == one
