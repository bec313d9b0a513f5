"""Whole runs on NPUs: the form by hand, laws, and fits that find what data were made from."""

from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

import gambrel
from gambrel.analysis.costs import Item
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.tiled import TiledEstimator, from_datasheet, tiled_estimator
from gambrel.analysis.estimate.tiled_constants import TiledClass, TiledConstants
from gambrel.analysis.estimate.tiled_fit import (
    MeasuredRun,
    MeasuredRuns,
    fit,
    left_out,
    scaled,
    scales_of,
)
from gambrel.analysis.estimate.tiled_work import TiledTable, TiledWork, tiled_work
from gambrel.analysis.measures import Limiter
from gambrel.analysis.plan import plan_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from gambrel.ops import Conventions, OpView, TensorView, cost
from gambrel.runtimes import UnitTiling, runtime

CHIP = TiledConstants(
    runtime="qnn",
    device="chip",
    start_s={"fp16": 1e-3, "int8": 5e-4},
    macs_per_s={"fp16": 1e12, "int8": 4e12},
    vector_per_s=1e9,
    activation_byte_per_s=1e9,
    ahead_byte_per_s=10e9,
    rows=50,
    models=20,
    low=0.8,
    high=1.5,
)


HEXAGON = UnitTiling()


def work(macs=0.0, vector=0.0, moved=0.0, ahead=0.0, dtype="fp16", softmax=0.0):
    return TiledWork(
        macs=macs,
        dtype=dtype,
        vector=vector,
        softmax=softmax,
        moved_bytes=moved,
        ahead_bytes=ahead,
    )


def table(works, groups, counts):
    return TiledTable(
        works=works,
        groups=groups,
        counts=counts,
        formats=tuple(dict.fromkeys(w.dtype for w in works if w.macs)),
        ahead_bytes=sum(
            works[i].ahead_bytes * n for g, n in zip(groups, counts, strict=True) for i in g
        ),
    )


def run(works, groups, counts, chip=CHIP, late=0.0):
    found = msgspec.structs.replace(table(tuple(works), groups, counts), late_bytes=late)
    return TiledEstimator(chip, "measured").times(SimpleNamespace(tiled=found))


def test_a_run_by_hand():
    """Groups of max(2 + 1, 1) and max(1, 4) ms, the second twice: 11 ms. Ahead: 60 MB, 6 ms."""
    works = [
        work(macs=2e9, moved=1e6, ahead=20e6),
        work(vector=1e6),
        work(macs=1e9, moved=4e6, ahead=20e6),
    ]
    found = run(works, ((0, 1), (2,)), (1, 2))
    assert found.total.value == pytest.approx(1e-3 + (11e-3**2 + 6e-3**2) ** 0.5)
    assert found.total.host_s == 1e-3
    assert found.limited_by is Limiter.MEMORY
    assert found.limiters == (Limiter.COMPUTE, Limiter.COMPUTE, Limiter.MEMORY)


def test_everything_waits_for_weights_that_have_no_room_ahead():
    """11 ms of groups, 60 MB of weights: 40 of them late, 4 ms; 20 ahead of the groups, 2 ms."""
    found = run([work(macs=11e9, ahead=60e6)], ((0,),), (1,), late=40e6)
    assert found.total.value == pytest.approx(1e-3 + (11e-3**2 + 2e-3**2) ** 0.5 + 4e-3)
    assert found.items[0].value + 1e-3 == pytest.approx(found.total.value)


def test_softmaxes_may_have_a_rate_of_their_own():
    """A million elements at 1 G/s, or at a tenth of that where the processor computes them."""
    works = [work(macs=2e9, softmax=1e6)]
    slow = msgspec.structs.replace(CHIP, softmax_per_s=0.1e9)
    assert run(works, ((0,),), (1,)).total.value == pytest.approx(1e-3 + 3e-3)
    assert run(works, ((0,),), (1,), slow).total.value == pytest.approx(1e-3 + 12e-3)


def test_the_parts_make_the_run():
    works = [work(macs=2e9, moved=1e6, ahead=30e6), work(vector=1e6), work(macs=1e9, ahead=9e6)]
    found = run(works, ((0, 1), (2,)), (1, 3))
    parts = found.items[0].value + found.items[1].value + 3 * found.items[2].value
    assert parts + 1e-3 == pytest.approx(found.total.value)


def test_a_format_that_was_not_measured_has_no_time():
    assert run([work(macs=1e9, dtype="int16")], ((0,),), (1,)) is None


def tensor(*shape, role="activation", storage=0, dtype="fp16"):
    elements = 1
    for n in shape:
        elements *= n
    return TensorView(shape=shape, dtype=dtype, elements=elements, storage=storage, role=role)


def convolution(cin, cout, kernel, groups=1, side=10, tiling=HEXAGON):
    view = OpView(
        kind="convolution",
        inputs=(
            tensor(1, cin, side, side),
            tensor(cout, cin // groups, kernel, kernel, role="weight", storage=1),
        ),
        outputs=(tensor(1, cout, side, side, storage=2),),
        sizes={
            "batch": 1,
            "in_channels": cin,
            "out_channels": cout,
            "groups": groups,
            "kernel": (kernel, kernel),
            "spatial": (side, side),
        },
    )
    weights = cout * cin // groups * kernel * kernel * 2
    return tiled_work(Item(view=view, cost=cost(view), count=1, prefetched_bytes=weights), tiling)


@pytest.mark.parametrize(
    ("cin", "cout", "kernel", "groups", "macs"),
    [
        (64, 64, 1, 1, 100 * 64 * 64),
        (3, 40, 1, 1, 100 * 32 * 64),  # both sides padded to 32
        (32, 32, 3, 1, 0.7 * 100 * 9 * 32 * 32),  # neighbours share what a window loads
        (128, 128, 3, 32, 100 * 9 * 32 * 32 * 32 / 8),  # 8 groups of 4 channels side by side
        (64, 64, 3, 64, 0),  # depthwise runs on the vector unit
    ],
)
def test_multiply_adds_are_padded(cin, cout, kernel, groups, macs):
    found = convolution(cin, cout, kernel, groups)
    assert found.macs == pytest.approx(macs)
    assert found.moved_bytes == 2 * 100 * (cin + cout)


def test_rockchips_atoms_are_16_channels_in_and_32_out():
    """YOLOv5n's 24 channels are 32 and 32 on it, and a window is no cheaper than its taps."""
    tiling = runtime("rknn").tiling
    assert convolution(24, 24, 3, tiling=tiling).macs == 100 * 9 * 32 * 32
    assert convolution(48, 48, 1, tiling=tiling).macs == 100 * 48 * 64


def test_groups_are_dense_where_the_unit_holds_matrices():
    """32 groups of 4 channels: 128 times 128, with as many weights; not depthwise ones."""
    tiling = UnitTiling(window=1.0, dense_groups=True)
    found = convolution(128, 128, 3, groups=32, tiling=tiling)
    assert found.macs == 100 * 9 * 128 * 128
    assert found.ahead_bytes == 128 * 128 * 9 * 2
    assert convolution(64, 64, 3, groups=64, tiling=tiling).macs == 0


def test_weights_that_stay_on_the_chip_are_not_loaded_again():
    """ResNet-50 has 25.5 million, of which a Metis keeps 16 million bytes."""
    workload = load("resnet50")
    bench = Workbench(workload, workload.resolve_symbols({}), Conventions())
    tables = []
    for name in ("voyager", "axera"):
        plan = plan_of(runtime(name), load_device("rdk-x5"), off_chip_only=False, on_chip_bytes=0)
        tables.append(
            bench.on(Machine(load_device("rdk-x5"), Settings())).table("int8", plan).tiled
        )
    held, loaded = tables
    assert held.loads == pytest.approx(loaded.ahead_bytes, rel=0.01)
    assert held.ahead_bytes == pytest.approx(loaded.ahead_bytes - 16e6, rel=0.01)
    assert held.late_bytes <= held.ahead_bytes


def test_depthwise_is_a_tenth_of_an_element_per_multiply_add():
    assert convolution(64, 64, 3, 64).vector == pytest.approx(0.1 * 100 * 9 * 64)


def test_w8a16_loads_one_byte_per_weight():
    view = OpView(
        kind="matmul",
        inputs=(
            tensor(1, 64, dtype="int16"),
            tensor(64, 64, role="weight", storage=1, dtype="int16"),
        ),
        outputs=(tensor(1, 64, storage=2, dtype="int16"),),
        sizes={"m": 1, "n": 64, "k": 64},
        attrs={"compute_dtype": "int16"},
    )
    found = tiled_work(Item(view=view, cost=cost(view), count=1, prefetched_bytes=8192), HEXAGON)
    assert found.ahead_bytes == 4096


def answer(model, device, precision, batch=1, runtime=None):
    workload = load(model)
    settings = Settings(precision=precision, runtime=runtime)
    values = workload.resolve_symbols({"batch": batch})
    bench = Workbench(workload, values, settings.conventions)
    return answered(bench, Machine(load_device(device), settings), settings)


MODELS = ("mobilenet-v2", "resnet50", "vit-b-16", "yolov8n", "densenet121", "whisper-tiny-encoder")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("device", ["snapdragon-8-gen-3", "iq-9075", "snapdragon-8-elite-gen-5"])
def test_int8_is_no_slower_than_fp16_and_no_run_beats_light(model, device):
    wide, narrow = answer(model, device, "fp16"), answer(model, device, "int8")
    if model != "densenet121":  # its norms are ops of their own where it is quantized
        assert narrow.expected.total.value <= wide.expected.total.value
    for found in (wide, narrow):
        assert found.expected.total.low >= (found.sol_time_s or 0.0)
        assert found.expected.total.low < found.expected.total.value < found.expected.total.high


def test_weights_of_a_layer_beyond_the_room_on_chip_are_late():
    """VGG-16 in int8: 25,088 x 4,096 and 4,096 x 4,096 weights, of which 4 MB each are in time."""
    late = answer("vgg16", "ax650n", "int8").table.tiled.late_bytes
    assert late == pytest.approx(25088 * 4096 + 4096 * 4096 - 2 * 4e6, rel=0.001)


def vector_work(model, precision):
    runs = answer(model, "snapdragon-8-gen-3", precision).table
    pairs = zip(runs.tiled.works, runs.items, strict=True)
    return sum(work.vector * item.count for work, item in pairs)


def test_a_quantized_norm_without_a_convolution_before_it_is_an_op_by_hand():
    """DenseNet-121: a norm before each of 58 layers, three transitions and the classifier."""
    blocks = ((64, 6, 56), (128, 12, 28), (256, 24, 14), (512, 16, 7))
    layers = sum((first + 32 * i) * side**2 for first, n, side in blocks for i in range(n))
    between = 256 * 56**2 + 512 * 28**2 + 1024 * 14**2 + 1024 * 7**2
    wide = vector_work("densenet121", "fp16")
    assert layers + between == 10_549_504
    assert vector_work("densenet121", "int16") - wide == pytest.approx(3 * 10_549_504)
    assert vector_work("densenet121", "int8") - wide / 2 == pytest.approx(3 * 10_549_504)


def test_a_norm_behind_a_convolution_is_folded_in_every_format():
    wide = vector_work("resnet50", "fp16")
    assert vector_work("resnet50", "int16") == wide
    assert vector_work("resnet50", "int8") == wide / 2


@pytest.mark.parametrize("device", ["snapdragon-8-gen-3", "rk3588-npu", "ax650n", "hailo-8"])
def test_a_larger_batch_takes_longer(device):
    """But less than that many runs, unless what passed on chip no longer fits (Hexagon)."""
    times = [answer("resnet50", device, "int8", n).expected.total.value for n in (1, 2, 4, 8)]
    assert times == sorted(times)
    if device != "snapdragon-8-gen-3":
        assert all(b <= 2 * a for a, b in pairwise(times))


def test_runs_of_one_chip_under_several_runtimes():
    found = {
        r: answer("resnet50", "snapdragon-8-gen-3", "fp16", runtime=r)
        for r in ("qnn", "litert", "onnxruntime-qnn")
    }
    assert len({a.expected.total.value for a in found.values()}) == 3


CLASS = TiledClass(
    runtime="qnn",
    int8_share=0.5,
    formats={"fp16": 0.25},
    ahead_share=0.8,
    activation_share=0.4,
    vector_share=0.002,
    start_s={"int8": 1e-3},
    chips=3,
    low=0.4,
    high=2.5,
)


def test_constants_from_a_datasheet_by_hand():
    """X Elite: 45 TOPS are 22.5e12 multiply-adds; 135 GB/s."""
    found = from_datasheet(load_device("snapdragon-x-elite"), CLASS)
    assert found.macs_per_s == {"int8": 0.5 * 22.5e12, "fp16": 0.25 * 0.5 * 22.5e12}
    assert found.vector_per_s == pytest.approx(0.002 * 0.5 * 22.5e12)
    assert found.ahead_byte_per_s == pytest.approx(0.8 * 135e9)
    assert found.confidence == "low"


def test_a_chip_without_published_roofs_has_none():
    assert from_datasheet(load_device("qcs8275"), CLASS) is None


def test_no_other_class_of_device_borrows():
    h100 = load_device("h100-sxm5-80gb")
    assert tiled_estimator(h100, ("any",), packaged()) is None


def made(chip, models=8):
    """Runs that take exactly what a chip's constants say."""
    runs = []
    for i in range(1, models + 1):
        for dtype in ("fp16", "int8"):
            works = tuple(
                work(macs=m * i * 1e9, vector=v * 1e6, moved=a * 1e6, ahead=w * 1e6, dtype=dtype)
                for m, v, a, w in ((1, 0.1, 0.1, 5 * i), (0.1, 3, 1, 1), (0.2, 0.1, 4 * i, 9))
            )
            one = table(works, ((0,), (1,), (2,)), (1, i, 2))
            time = TiledEstimator(chip, "").times(SimpleNamespace(tiled=one)).total.value
            runs.append(MeasuredRun(model=f"m{i}", run=one, seconds=time))
    return MeasuredRuns(runs)


def joined(*offsets):
    """Slices of an image of 3 x 8 x 8 in a model of 4 x 4 pixels."""
    inputs = tuple(
        msgspec.structs.replace(tensor(1, 3, 4, 4, role="input"), offset=n) for n in offsets
    )
    view = OpView(
        kind="copy",
        inputs=inputs,
        outputs=(tensor(1, 12, 4, 4, storage=1),),
        sizes={"elements": 192},
        attrs={"function": "cat"},
    )
    return Item(view=view, cost=cost(view), count=1)


@pytest.mark.parametrize(
    ("offsets", "taken"),
    [
        ((0, 8, 1, 9), 4 * 48),  # every second pixel of every second row
        ((0, 8), 0),  # whole rows
        ((0, 64, 128), 0),  # channels
    ],
)
def test_slices_with_a_step_along_rows_are_taken_apart_under_onnx_runtime(offsets, taken):
    ort = runtime("onnxruntime-qnn").tiling
    found = tiled_work(joined(*offsets), ort).vector
    assert found == pytest.approx(ort.interleaved * taken)
    assert tiled_work(joined(*offsets), HEXAGON).vector == 0


def test_a_large_image_is_handed_over_under_onnx_runtime():
    """Fewer bytes where the graph is quantized; an image of 224 x 224 does not show."""
    chip = load_device("snapdragon-8-gen-3")
    plan = plan_of(runtime("onnxruntime-qnn"), chip, off_chip_only=False, on_chip_bytes=0)

    def handed(model, dtype):
        one = load(model)
        bench = Workbench(one, one.resolve_symbols({}), Conventions())
        return float(bench.table(dtype, plan).tiled.handed)

    image, free = 3 * 640 * 640, 3 * 224 * 224
    assert handed("yolov8n", "fp16") == image - free
    assert handed("yolov8n", "int16") == image / 2 - free
    assert handed("yolov8n", "int8") == image / 4 - free
    assert handed("resnet18", "fp16") == 0


#: Milliseconds under ONNX Runtime on model cards; benchmarks/data/qualcomm/detectors_unseen.csv.
PUBLISHED = {
    ("yolov10n", "snapdragon-8-gen-3"): 3.834,
    ("yolov8n-seg", "snapdragon-8-elite-gen-5"): 2.955,
    ("yolo11n", "snapdragon-x-elite"): 6.785,
    ("yolo11n", "snapdragon-8-elite"): 4.331,
}


@pytest.mark.parametrize(("model", "device"), PUBLISHED)
def test_detectors_of_other_releases_lie_in_the_range(model, device):
    found = answer(model, device, "fp16", runtime="onnxruntime-qnn").expected.total
    ms = PUBLISHED[model, device] / 1e3
    assert found.low < ms < found.high
    assert found.value == pytest.approx(ms, rel=0.35)


def test_arrays_and_numbers_agree():
    runs = made(CHIP)
    assert runs.predicted(CHIP) == pytest.approx(runs.seconds)


def test_a_fit_finds_the_constants_that_made_the_data():
    scales = scales_of(CHIP, 20)
    other = scaled(CHIP, scales, [0.5, -0.4, 0.3, 0.6, -0.5, 0.7])
    found = fit(other, made(CHIP, 14), scales, pull=0.0)
    assert found.macs_per_s["int8"] == pytest.approx(4e12, rel=0.05)
    assert found.ahead_byte_per_s == pytest.approx(10e9, rel=0.05)
    assert found.start_s["fp16"] == pytest.approx(1e-3, rel=0.05)


def test_left_out_models_are_predicted_by_the_others():
    ratios = left_out(CHIP, made(CHIP), scales_of(CHIP, 20))
    assert ratios == pytest.approx([1.0] * 16, rel=0.02)


def test_a_format_may_have_a_start_of_its_own():
    found = scaled(CHIP, (("start",), ("start:int8",)), [0.0, -0.7])
    assert found.start_s == pytest.approx({"fp16": 1e-3, "int8": 5e-4 * 2.0138}, rel=1e-3)


@pytest.mark.parametrize("formats", [(), ("fp16",), ("fp16", "int8")])
@pytest.mark.parametrize("models", [1, 3, 4, 12])
def test_every_constant_has_one_scale(models, formats):
    names = [n for scale in scales_of(CHIP, models, formats) for n in scale]
    assert sorted(names) == sorted(["start", "vector", "activation", "ahead", "fp16", "int8"])


def test_one_model_in_two_formats_tells_the_rates_of_both():
    """A chip whose fp16 is a third as fast beside its int8 as the class's."""
    chip = msgspec.structs.replace(CHIP, macs_per_s={**CHIP.macs_per_s, "fp16": 0.3e12})
    both = made(chip, 1)
    found = fit(CHIP, both, scales_of(CHIP, 1, both.formats), pull=0.01)
    assert found.macs_per_s["fp16"] == pytest.approx(0.3e12, rel=0.2)
    assert found.macs_per_s["int8"] == pytest.approx(4e12, rel=0.2)
    assert ("fp16",) not in scales_of(CHIP, 1, ("fp16",))


#: Sets that are further off than any other may be, with the cause; the range says so.
WORSE = {
    # Networks that Huawei did not tune take 2.5 times as long (ConvNeXt), ALBERT takes half.
    "ascend-310p": 0.34,
}


@pytest.mark.parametrize("c", packaged().tiled, ids=lambda c: f"{c.runtime}-{c.device}")
def test_stored_constants_are_sound(c):
    assert load_device(c.device)
    assert 0 < c.low < 1 < c.high
    assert set(c.start_s) == set(c.macs_per_s)
    if {"fp16", "int8"} <= set(c.macs_per_s):
        # No slower: a Neural Engine before the A17 Pro multiplies both at one rate.
        assert c.macs_per_s["int8"] >= c.macs_per_s["fp16"]
    if c.held_out is None:
        assert c.confidence == "low"
        assert c.note
    else:
        assert c.rows >= 6
        few = c.models < 6
        assert c.held_out.mape < (0.6 if few else WORSE.get(c.device, 0.3))
        assert not few or c.confidence == "low"
    assert msgspec.json.decode(msgspec.json.encode(c), type=TiledConstants) == c


def test_a_chip_with_the_cores_of_another_is_scaled_by_the_rate_of_a_core():
    """RK3576 has two cores of 3 TOPS, RK3588 three of 2; a run takes one."""
    known = {c.device: c for c in packaged().tiled if c.runtime == "rknn"}
    new, measured = known["rk3576"], known["rk3588-npu"]
    assert new.macs_per_s["int8"] == pytest.approx(1.5 * measured.macs_per_s["int8"], rel=1e-3)
    assert new.ahead_byte_per_s == measured.ahead_byte_per_s
    assert (new.rows, new.confidence) == (0, "low")
    assert new.low < measured.low < 1 < measured.high < new.high
    estimator = tiled_estimator(load_device("rk3576"), ("rknn",), packaged())
    assert estimator is not None
    reason = estimator._reason
    assert reason.startswith("nothing was measured on this chip")


@pytest.mark.parametrize(
    ("device", "known", "runtime", "rate", "stream"),
    [
        ("rv1126", "rv1109", "rknn", 2.0 / 1.2, None),
        # AX620Q's weights come at its DRAM's 6.4 GB/s, so that AX630C's come at its own.
        ("ax630c", "ax620q", "axera", 3.2 / 2.4, 10.664e9),
    ],
)
def test_a_faster_clock_of_a_measured_core(device, known, runtime, rate, stream):
    """Both units of the core are faster, its port to the memory is not, and the range is wider."""
    sets = {(c.runtime, c.device): c for c in packaged().tiled}
    new, measured = sets[runtime, device], sets[runtime, known]
    assert new.macs_per_s["int8"] == pytest.approx(measured.macs_per_s["int8"] * rate, rel=1e-3)
    assert new.vector_per_s == pytest.approx(measured.vector_per_s * rate, rel=1e-3)
    assert new.ahead_byte_per_s == (stream or measured.ahead_byte_per_s)
    assert new.low < measured.low
    assert new.high > measured.high
    assert (new.rows, new.held_out, new.confidence) == (0, None, "low")
    assert new.note.startswith("nothing was measured on this chip: the NPU of ")


def test_slices_with_a_step_count_at_any_size_of_an_image():
    """YOLOX's first layer takes every second pixel; its zoo entry leaves the image's side open."""
    for side in (416, 640):
        plain, slow = (
            gambrel.analyze(
                "yolox-s", "snapdragon-8-gen-3", runtime=name, precision="fp16", image=side
            ).total.expected_time_s
            for name in ("qnn", "onnxruntime-qnn")
        )
        assert slow.value > 1.5 * plain.value


def test_windows_cut_out_of_a_plane_move_element_by_element_in_16_bits():
    """Swin-T on a Galaxy S24: 5.75 ms under ONNX Runtime, 6.80 under LiteRT.

    Source: quic/ai-hub-models @052dc1f3.
    """
    for name, measured in (("onnxruntime-qnn", 5.749e-3), ("litert", 6.802e-3)):
        found = gambrel.analyze("swin-t", "snapdragon-8-gen-3", runtime=name, precision="fp16")
        expected = found.total.expected_time_s
        assert measured / 1.3 < expected.value < measured * 1.3
        assert expected.confidence == "low"
        assert "networks with attention differ more" in expected.reason


def test_a_detector_with_one_block_of_attention_is_none_of_attention():
    found = gambrel.analyze("yolo11n", "snapdragon-8-gen-3", runtime="qnn", precision="fp16")
    assert "attention" not in found.total.expected_time_s.reason
