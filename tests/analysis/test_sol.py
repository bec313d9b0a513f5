"""The speed of light, by hand, and what it proves.

The perceptron in fp16 at batch 2 must move x 8, w1 32, w2 16 and y 4 numbers of two bytes: 120
bytes, 12 s at 10 byte/s. Its matmuls are 192 FLOP: 0.192 s at 1000 FLOP/s.
"""

from dataclasses import replace

import msgspec
import pytest

import gambrel
from gambrel.analysis import Bound
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.compulsory import compulsory
from gambrel.analysis.evaluate import Evaluator
from gambrel.device.model import Ceiling, CeilingKind, MemoryLevel
from gambrel.ops import Conventions
from gambrel.workload import Op, Role, Tensor, Workload
from tests.analysis.small import NOWHERE, device, host_fed, perceptron

FP16 = Settings(precision="fp16", sizes={"batch": 2})


def with_chip(nbytes):
    """The toy as a GPU that publishes all of its on-chip memory."""
    inner = {"L2": nbytes - 20, "L1": 10, "registers": 10}
    levels = (MemoryLevel(name=name, capacity_bytes=n) for name, n in inner.items())
    return device(memory=(*device().memory, *levels))


def test_weights_inputs_and_outputs_cross_once_less_what_stays_on_chip():
    found = analyze(perceptron(), with_chip(50), FP16)
    assert found.sol.traffic_bytes == 120
    assert found.sol_time_s == pytest.approx((120 - 50) / 10)
    assert found.sol_bound is Bound.MEMORY
    assert found.sol_arithmetic_intensity == 192 / 120
    assert found.sol.resources == {"matrix": 0.192, "DRAM": 7.0}
    assert found.sol.proves
    assert found.sol.notes == ("up to 50 B may stay on chip between runs.",)


def test_int16_means_activations_over_weights_of_eight_bits():
    """Input 4, results 2 values of 2 bytes, for each item; 4·8 + 8·2 weights of 1 byte."""
    found = analyze(perceptron(), device(), replace(FP16, precision="int16"))
    batch = found.model.symbols["batch"]
    assert found.sol.traffic_bytes == batch * (4 + 2) * 2 + 4 * 8 + 8 * 2


def test_a_model_that_stays_on_chip_is_limited_by_arithmetic():
    found = analyze(perceptron(), with_chip(200), FP16)
    assert found.sol_time_s == 0.192
    assert found.sol_bound is Bound.COMPUTE
    assert found.bound is Bound.MEMORY  # under eager PyTorch


def test_an_unpublished_chip_is_taken_for_the_largest_of_its_class():
    found = analyze(perceptron(), device(), FP16)
    assert found.sol.resources["DRAM"] == 0
    assert "toy does not publish all of its on-chip memory" in found.sol.notes[0]


def test_results_that_nobody_reads_are_left_out():
    """A second product with w2, by way of a view: compilers drop it, eager PyTorch runs it."""
    whole = perceptron(outputs=(5,))
    extra = (
        *whole.tensors,
        replace_tensor(whole.tensors[5], storage=6),
        replace_tensor(whole.tensors[5], storage=6, shape=(2, "batch")),
    )
    again = msgspec.structs.replace(whole.ops[2], outputs=(6,))
    view = Op(kind="view", name="aten.t", inputs=(6,), outputs=(7,), sizes={})
    more = perceptron(outputs=(5,), tensors=extra, ops=(*whole.ops, again, view))
    plain, longer = (analyze(w, with_chip(50), FP16) for w in (whole, more))
    assert longer.sol == plain.sol
    assert longer.total.matrix_flops == plain.total.matrix_flops + 64
    assert longer.roofline_time_s > plain.roofline_time_s


def replace_tensor(tensor, **changes):
    return msgspec.structs.replace(tensor, role=Role.ACTIVATION, **changes)


def test_an_op_alone_keeps_nothing_on_chip():
    """fc1 is the first to touch x and w1 (80 bytes), fc2 w2 and y (40); relu nothing new."""
    fc1, relu, fc2 = analyze(perceptron(), with_chip(50), FP16).ops
    assert [op.measures.sol_traffic_bytes for op in (fc1, relu, fc2)] == [80, 0, 40]
    assert (fc1.measures.sol_time_s, fc2.measures.sol_time_s) == (8.0, 4.0)
    assert fc1.measures.sol_bound is Bound.MEMORY


def test_it_does_not_depend_on_the_runtime():
    own = {}
    for runtime in ("pytorch", "torch-compile", "onnxruntime", "perfect"):
        chosen = Settings(precision="fp16", sizes={"batch": 2}, runtime=runtime)
        found = analyze(perceptron(), with_chip(50), chosen)
        own[runtime] = found.sol
        assert found.sol_time_s <= found.roofline_time_s
    assert len({repr(sol) for sol in own.values()}) == 1


def test_only_what_was_measured_proves_nothing():
    memory = (MemoryLevel(name="DRAM", byte_per_s=10.0, kind=CeilingKind.MEASURED),)
    found = analyze(perceptron(), device(memory=memory), FP16)
    assert found.sol.unknown[-1] == "memory"
    reached = tuple(
        msgspec.structs.replace(c, kind=CeilingKind.DEMONSTRATED) for c in device().ceilings
    )
    assert not analyze(perceptron(), device(ceilings=reached), FP16).sol.proves


def test_concurrent_engines_add_up():
    """GPU and DLA run at the same time: 192 FLOP at 1,000 + 600 FLOP/s."""
    dla = Ceiling(engine="dla", dtype="fp16", flop_per_s=600.0, source=NOWHERE)
    found = analyze(perceptron(), device(ceilings=(*device().ceilings, dla)), FP16)
    assert found.sol.resources["matrix fp16"] == pytest.approx(192 / 1600)
    assert found.total.peak_flop_per_s == 1000  # the roofline's runtime uses one of them


def test_a_device_that_lives_off_its_link():
    """Half of 96 bytes of weights, x and y (24): 72 bytes at 5 byte/s, in every run."""
    found = analyze(perceptron(), host_fed(48), FP16)
    assert found.sol_time_s == pytest.approx(72 / 5)
    assert found.sol_bound is Bound.NETWORK
    assert found.sol.traffic_bytes == 72


def twins():
    """Two equal activations, one of which feeds the other: only the second result leaves."""
    tensors = tuple(
        Tensor(shape=(8,), dtype="fp16", storage=i, role=role)
        for i, role in enumerate((Role.ACTIVATION, Role.ACTIVATION, Role.ACTIVATION))
    )
    ops = tuple(
        Op(
            kind="elementwise",
            inputs=(i,),
            outputs=(i + 1,),
            sizes={"elements": 8},
            attrs={"function": "relu"},
        )
        for i in range(2)
    )
    return Workload(name="twins", dtype="fp16", tensors=tensors, ops=ops, outputs=(2,))


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "perfect"])
def test_equal_ops_send_their_own_results_over_the_link(runtime):
    found = analyze(twins(), host_fed(48), Settings(runtime=runtime))
    assert found.traffic_bytes == found.sol.traffic_bytes == 16
    assert [op.measures.traffic_bytes for op in found.ops] == [0, 16]


def passes(repeat):
    """The same product in every one of dependent passes of one part of a pipeline."""
    roles = (Role.INPUT, Role.WEIGHT, Role.OUTPUT)
    tensors = tuple(
        Tensor(shape=(10, 10), dtype="fp16", storage=i, role=r) for i, r in enumerate(roles)
    )
    sizes = {"m": 10, "n": 10, "k": 10}
    op = Op(
        kind="matmul", module="unet:fc", inputs=(0, 1), outputs=(2,), sizes=sizes, repeat=repeat
    )
    return Workload(name="steps", dtype="fp16", tensors=tensors, ops=(op,), outputs=(2,))


def test_dependent_passes_add():
    """2,000 FLOP and 600 bytes a pass: 2 s against (600 - 50) / 10 = 55 s, each."""
    one, four = (analyze(passes(n), with_chip(50), Settings()) for n in (1, 4))
    assert one.sol_time_s == pytest.approx(55.0)
    assert four.sol_time_s == pytest.approx(4 * 55.0)


def convolution(kernel, size=8):
    """One convolution of 16 to 16 channels at stride 1, padded to keep its size."""
    shapes = ((1, 16, size, size), (16, 16, kernel, kernel), (1, 16, size, size))
    roles = (Role.INPUT, Role.WEIGHT, Role.OUTPUT)
    tensors = tuple(
        Tensor(shape=shape, dtype="fp16", storage=i, role=role)
        for i, (shape, role) in enumerate(zip(shapes, roles, strict=True))
    )
    sizes = {
        "batch": 1, "in_channels": 16, "out_channels": 16, "groups": 1,
        "kernel": (kernel, kernel), "spatial": (size, size),
    }  # fmt: skip
    op = Op(kind="convolution", inputs=(0, 1), outputs=(2,), sizes=sizes)
    return Workload(name="conv", dtype="fp16", tensors=tensors, ops=(op,), outputs=(2,))


def test_ways_around_the_arithmetic_are_named():
    fast = with_chip(100_000)  # everything stays on chip, so that arithmetic decides
    three = analyze(convolution(3), fast, Settings()).sol
    assert three.bound is Bound.COMPUTE
    winograd, padding = three.caveats
    assert "Winograd's algorithm" in winograd
    assert "zero padding" in padding
    assert analyze(convolution(1), fast, Settings()).sol.caveats == ()
    # Where memory decides, fewer operations change nothing.
    assert analyze(convolution(3), with_chip(30), Settings()).sol.caveats == ()


def test_a_colon_in_the_name_of_a_module_parts_nothing():
    """One model is limited by its sums: parts that overlap are not added."""
    plain = perceptron()
    named = msgspec.structs.replace(
        plain,
        ops=(
            msgspec.structs.replace(plain.ops[0], module="up:first"),
            *plain.ops[1:],
        ),
    )
    (whole,) = compulsory(plain, Evaluator(plain, {"batch": 2}, {}, Conventions())).parts
    (found,) = compulsory(named, Evaluator(named, {"batch": 2}, {}, Conventions())).parts
    assert (found.traffic_bytes, found.passes) == (whole.traffic_bytes, whole.passes)


def test_nothing_known_is_no_speed_of_light_of_zero():
    """All weights may stay on chip and no compute roof is known: then there is no limit."""
    found = gambrel.analyze("resnet50", hardware="snapdragon-8-elite")
    assert found.sol_time_s is None
    assert found.sol_bound is None


def test_notes_are_those_of_the_question_whatever_was_asked_before():
    asked = "matmul:m=64,n=64,k=64,int8", "hailo-8"
    first = gambrel.analyze(*asked, runtime="hailort").sol.notes
    other = gambrel.analyze("matmul:m=64,n=64,k=64,bf16", "hailo-8", runtime="perfect").sol.notes
    assert any("no bf16 roof" in note for note in other)
    assert gambrel.analyze(*asked, runtime="hailort").sol.notes == first


@pytest.mark.parametrize("train", [False, True])
def test_another_algorithm_may_take_less_than_the_products_that_are_counted(train):
    """u39kun/deep-learning-benchmark: VGG-16 on a V100, 26.2 ms and 83.5 ms."""
    asked = {"runtime": "pytorch", "precision": "fp32", "batch_size": 16, "train": train}
    found = gambrel.analyze("vgg16", "v100-sxm2-16gb", **asked)
    assert found.expected_time_s.low < (0.0835 if train else 0.0262) < found.sol_time_s
    assert found.expected_time_s.low >= found.sol.counted_floor_s
    assert "Winograd" in found.expected_time_s.reason
    assert "Winograd" in str(found)
    swept = gambrel.sweep("vgg16", ["v100-sxm2-16gb"], **asked | {"batch_size": [16, 1]})
    assert swept.expected_time_s[0] == found.expected_time_s.value


def test_faces_judge_by_what_that_algorithm_takes():
    """28 ms is less than the speed of light of the counted products, and more than is expected."""
    asked = {"runtime": "pytorch", "precision": "fp32", "batch_size": 16}
    card = "v100-sxm2-16gb"
    (row,) = gambrel.compare("vgg16", [card], **asked).rows
    assert row.figures["latency"].best is None
    for limit, meets in (("28ms", True), ("14ms", False)):
        judged = gambrel.check("vgg16", card, latency=limit, **asked)
        assert judged.verdict.meets is meets
        assert all(c.proof != "sol" for c in judged.constraints)
        chosen = gambrel.select("vgg16", hardware=[card], latency=limit, **asked)
        assert bool(chosen.meets) is meets
