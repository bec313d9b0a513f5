"""The analysis of a perceptron that can be counted by hand.

fp16, batch 2, per op (FLOP; bytes read + written at 2 bytes an element):
    fc1   2*2*8*4 = 128 matrix;  (2*4 + 4*8) + 2*8 = 40 + 16 elements = 80 + 32 bytes
    relu  2*8 = 16 vector;       16 + 16 elements = 32 + 32 bytes
    fc2   2*2*2*8 = 64 matrix;   (16 + 16) + 4 elements = 64 + 8 bytes
Times at 1000 FLOP/s matrix, 100 FLOP/s vector (fp32 lanes), 10 byte/s:
    fc1   0.128 s against 11.2 s;  relu 0.16 s against 6.4 s;  fc2 0.064 s against 7.2 s
"""

import math

import msgspec
import pytest

import gambrel
from gambrel.analysis import Bound, State
from gambrel.analysis.analyze import Settings, analyze, block_of
from gambrel.analysis.measures import Limiter
from gambrel.capture import zoo
from gambrel.device.catalog import load
from gambrel.device.model import MemoryLevel
from gambrel.errors import InputError, UnknownNameError, WorkloadError
from gambrel.ops import Conventions
from gambrel.workload import Op
from tests.analysis.small import device, host_fed, perceptron


@pytest.fixture
def found():
    return analyze(perceptron(), device(), Settings(precision="fp16", sizes={"batch": 2}))


def test_per_op(found):
    fc1, relu, fc2 = found.ops
    assert (fc1.name, relu.name, fc2.name) == ("fc1", "act", "fc2")
    assert (fc1.measures.flops, relu.measures.flops, fc2.measures.flops) == (128, 16, 64)
    assert (fc1.measures.read_bytes, fc1.measures.write_bytes) == (80, 32)
    assert (relu.measures.read_bytes, relu.measures.write_bytes) == (32, 32)
    assert (fc2.measures.read_bytes, fc2.measures.write_bytes) == (64, 8)
    assert fc1.measures.roofline_time_s == pytest.approx(11.2)
    assert fc1.measures.arithmetic_intensity == 128 / 112
    assert fc1.measures.ridge_point == 100
    assert fc1.measures.attainable_flop_per_s == pytest.approx(128 / 112 * 10)
    assert fc1.measures.bound is Bound.MEMORY
    assert fc1.measures.memory_utilization == 1
    assert fc1.measures.compute_utilization == pytest.approx(0.128 / 11.2)
    assert fc1.shapes == "2x4, 4x8 -> 2x8"


def test_totals(found):
    total = found.total
    assert (total.matrix_flops, total.vector_flops) == (192, 16)
    assert total.flops == 192
    assert total.traffic_bytes == 112 + 64 + 72
    assert total.roofline_time_s == pytest.approx(24.8)
    assert total.bound is Bound.MEMORY
    assert found.bound_shares == {"memory": pytest.approx(1)}
    assert total.time_share == 1
    assert found.model.parameters == 4 * 8 + 8 * 2
    assert found.coverage == found.coverage_traffic == 1


def test_engine_times_add_up(found):
    busy = {t.resource: t.time_s for t in found.total.times}
    assert busy["matrix"] == pytest.approx(0.192)
    assert busy["vector"] == pytest.approx(0.16)
    assert busy["DRAM"] == pytest.approx(24.8)


def test_footprint_by_liveness(found):
    # relu holds x (the caller's), h and relu(h): 8 + 16 + 16 elements; w1 and w2 48 elements
    assert found.footprint.weights_bytes == 96
    assert found.footprint.activations_bytes == 80
    assert found.footprint.peak_op == "act aten.relu"
    assert found.footprint.total_bytes == 176
    assert found.footprint.fits is True


def test_what_does_not_fit_is_said():
    small = device(memory=(msgspec.structs.replace(device().memory[0], capacity_bytes=100),))
    found = analyze(perceptron(), small, Settings(precision="fp16"))
    assert found.footprint.fits is False
    assert "it does not fit" in found.warnings[0]


def test_groups_add_up(found):
    kinds = {g.name: g for g in found.by_kind}
    assert kinds["matmul"].count == 2
    assert kinds["matmul"].measures.flops == 192
    assert sum(g.measures.roofline_time_s for g in found.by_module) == pytest.approx(24.8)


def test_precision_of_an_architecture_is_the_devices(found):
    default = analyze(perceptron(), device())
    assert default.model.precision == "fp16"
    assert default.model.precision_reason.endswith("another can be given")
    own = analyze(perceptron(chosen_dtype=True), device())
    assert (own.model.precision, own.model.precision_reason) == ("fp32", "the model's own")


def test_fp32_runs_on_the_vector_engine():
    found = analyze(perceptron(), device(), Settings(precision="fp32", sizes={"batch": 2}))
    assert found.ops[0].measures.work[0].engine == "vector"
    assert found.total.peak_flop_per_s == 100
    assert {t.resource for t in found.total.times} == {"vector", "DRAM"}
    assert found.total.traffic_bytes == 2 * (112 + 64 + 72)


def test_sparse_peaks_only_when_asked():
    settings = Settings(precision="fp16", sparsity=True)
    found = analyze(perceptron(), device(), settings)
    assert found.total.peak_flop_per_s == 2000
    assert any("sparsity" in a for a in found.assumptions)


def test_an_unmodelled_op_is_listed_and_lowers_coverage():
    odd = Op(kind="mystery.op", name="mystery.op", inputs=(3,), outputs=(3,))
    view = Op(kind="view", name="aten.t")
    w = perceptron()
    found = analyze(
        msgspec.structs.replace(w, ops=(*w.ops, odd, view)), device(), Settings(precision="fp16")
    )
    assert found.unmodelled == {"mystery.op": 1}
    assert found.coverage == 4 / 5
    assert found.free_ops == 1
    assert found.ops[-1].state is State.UNMODELLED
    assert found.ops[-1].measures.bound is None
    assert "mystery.op ×1" in found.warnings[0]
    # 8 + 8 elements unknown of 4+32+8 + 8+8 + 8+16+2 known, all of 2 bytes
    assert found.coverage_traffic == pytest.approx(86 / (86 + 16))


def test_a_device_without_dram_is_held_against_its_link():
    everything_resident = analyze(
        perceptron(), host_fed(1000), Settings(precision="fp16", sizes={"batch": 2})
    )
    # only x (8 elements) and y (4) cross the link
    assert everything_resident.total.traffic_bytes == 2 * (8 + 4)
    assert everything_resident.total.bound is Bound.NETWORK
    half = analyze(perceptron(), host_fed(48), Settings(precision="fp16", sizes={"batch": 2}))
    # half of 96 bytes of weights is streamed in
    assert half.sol.traffic_bytes == half.total.traffic_bytes
    assert half.total.traffic_bytes == 24 + 48
    assert half.total.network_utilization == pytest.approx(72 / 5 / half.total.roofline_time_s)


def test_missing_roofs_are_unknown_not_zero():
    bare = device(ceilings=(), memory=())
    found = analyze(perceptron(), bare, Settings(precision="fp16"))
    assert found.total.roofline_time_s is None
    assert found.total.bound is None
    assert found.total.compute_utilization is None
    assert found.total.memory_utilization is None
    assert found.total.ridge_point is None
    assert found.sol_time_s is None
    assert found.sol_bound is None
    assert found.sol.unknown == ("matrix fp16", "vector fp16", "memory")
    assert any("publishes no peak for matrix fp16" in a for a in found.assumptions)


def test_nothing_at_all():
    found = analyze(perceptron(ops=(), outputs=()), device(), Settings(precision="fp16"))
    assert found.ops == ()
    assert found.coverage == 1
    assert found.total.flops == 0
    assert found.total.arithmetic_intensity == 0


def test_work_without_traffic_is_infinite_intensity():
    w = perceptron()
    free_lunch = msgspec.structs.replace(w.ops[0], inputs=(), outputs=())
    found = analyze(msgspec.structs.replace(w, ops=(free_lunch,)), device())
    assert math.isinf(found.total.arithmetic_intensity)
    assert found.total.attainable_flop_per_s == 100  # no operand names a format: fp32 lanes
    assert found.total.bound is Bound.COMPUTE


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"seq": 3}, "perceptron has no size 'seq'; it has batch"),
        ({"batch": 0}, "batch=0: this model takes at least 1"),
    ],
)
def test_sizes_are_checked(sizes, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        analyze(perceptron(), device(), Settings(sizes=sizes))


@pytest.mark.parametrize(
    ("device", "runtime", "asked", "precision"),
    [
        ("raspberry-pi-5", "ncnn", None, "fp16"),
        ("raspberry-pi-5", "openvino", None, "fp16"),
        ("raspberry-pi-5", "ncnn", "fp32", "fp32"),  # forced
        ("raspberry-pi-5", "onnxruntime", None, "fp32"),
        ("raspberry-pi-4", "ncnn", None, "fp32"),  # its cores have no arithmetic in 16 bits
        ("core-i9-13900k", "openvino", None, "fp32"),
    ],
)
def test_runtimes_that_compute_fp32_in_16_bits_on_arm(device, runtime, asked, precision):
    settings = Settings(runtime=runtime, precision=asked)
    found = analyze(zoo.load("resnet18"), load(device), settings).model
    assert found.precision == precision
    if asked:
        assert found.precision_reason == "as asked; ncnn takes fp16 otherwise"


def test_unknown_precision():
    with pytest.raises(UnknownNameError, match="unknown precision 'fp17'"):
        analyze(perceptron(), device(), Settings(precision="fp17"))


def test_causal_convention_is_said_where_it_matters():
    w = perceptron()
    causal = msgspec.structs.replace(
        w.ops[0],
        kind="attention",
        sizes={
            "batch": 1,
            "heads": 1,
            "kv_heads": 1,
            "q_len": 8,
            "kv_len": 8,
            "head_dim": 4,
            "v_head_dim": 4,
        },
        attrs={"causal": True},
    )
    w = msgspec.structs.replace(w, ops=(causal,))
    half = analyze(w, device())
    full = analyze(w, device(), Settings(conventions=Conventions(causal="full")))
    # 2 products of 2 FLOP over 4 channels: 16 FLOP a pair; 36 or 64 pairs
    assert (half.total.matrix_flops, full.total.matrix_flops) == (16 * 36, 16 * 64)
    assert any("S(S+1)/2" in a for a in half.assumptions)


@pytest.mark.parametrize(
    ("module", "block"),
    [
        ("layer1.0.conv1", "layer1.0"),
        ("model.layers.12.mlp.up_proj", "model.layers.12"),
        ("features.3", "features.3"),
        ("fc", "fc"),
        ("", "(top)"),
        ("conv2d_1x1.weight", "conv2d_1x1"),
    ],
)
def test_blocks(module, block):
    assert block_of(module) == block


def test_expected_time_sums_over_ops_groups_and_total():
    analysis = analyze(perceptron(), device(), Settings(precision="fp16"))
    total = analysis.expected_time_s
    parts = [op.measures.expected_time_s for op in analysis.ops]
    for groups in (parts, [g.measures.expected_time_s for g in analysis.by_kind]):
        assert sum(p.value for p in groups) == pytest.approx(total.value)
        assert sum(p.low for p in groups) == pytest.approx(total.low)
        assert sum(p.high for p in groups) == pytest.approx(total.high)
        assert sum(p.launches_s for p in groups) == pytest.approx(total.launches_s)
    assert total.value >= analysis.roofline_time_s
    assert total.confidence == "medium"  # constants of its kin
    # 10 byte/s: neither launches nor host are felt, and the time is spent where the roofline says.
    assert analysis.limited_by is Limiter.MEMORY


def fast_device():
    """As fast as a GPU: the perceptron is nothing to it."""
    return device(
        vendor="NVIDIA",
        ceilings=tuple(
            msgspec.structs.replace(c, flop_per_s=1e15, sparse_flop_per_s=None)
            for c in device().ceilings
        ),
        memory=(MemoryLevel(name="DRAM", capacity_bytes=4000, byte_per_s=1e12),),
    )


def test_launches_can_take_most_of_the_expected_time():
    replayed = analyze(
        perceptron(), fast_device(), Settings(precision="fp16", runtime="pytorch-graph")
    )
    assert replayed.expected_time_s.launches_share > 0.9
    assert replayed.expected_time_s.host_s == 0
    assert replayed.limited_by is Limiter.LAUNCHES
    assert replayed.bound is Bound.MEMORY  # the roofline's verdict is another question
    assert {op.measures.limited_by for op in replayed.ops} == {Limiter.LAUNCHES}


def test_the_host_can_take_most_of_the_expected_time():
    """15 µs for each of 3 launches and 5 µs for the run, against kernels of a few µs."""
    eager = analyze(perceptron(), fast_device(), Settings(precision="fp16", runtime="pytorch"))
    graph = analyze(
        perceptron(), fast_device(), Settings(precision="fp16", runtime="pytorch-graph")
    )
    assert eager.limited_by is Limiter.HOST
    assert eager.roofline_time_s == graph.roofline_time_s
    kernels = [op.measures.expected_time_s.value for op in graph.ops]
    assert max(kernels) < 15e-6
    # The host launches the last kernel after 3 * 15 µs; the device is through one kernel later.
    assert eager.expected_time_s.value == pytest.approx(3 * 15e-6 + kernels[-1] + 5e-6)
    assert eager.expected_time_s.host_s == pytest.approx(
        eager.expected_time_s.value - graph.expected_time_s.value
    )


def test_without_constants_nothing_is_expected():
    """A device of no known kin: no constant is invented."""
    found = analyze(perceptron(), device(architecture=""), Settings(precision="fp16"))
    assert found.expected_time_s is None
    assert found.limited_by is None
    assert found.roofline_time_s is not None
    assert all(op.measures.limited_by is None for op in found.ops)


def test_what_is_asked_for_and_missing_is_refused():
    with pytest.raises(UnknownNameError, match="unknown runtime 'tensorflow-rs'"):
        analyze(perceptron(), device(), Settings(runtime="tensorflow-rs"))
    with pytest.raises(InputError, match="NVIDIA TensorRT does not run on toy; choose from"):
        analyze(perceptron(), device(), Settings(runtime="tensorrt"))
    with pytest.raises(InputError, match="vLLM runs language models only"):
        analyze(zoo.load("resnet18"), device(), Settings(runtime="vllm"))
    assert analyze(perceptron(), device(), Settings(runtime="vllm")).runtime == "vllm"  # one layer
    with pytest.raises(InputError, match="toy has no engine 'dla'; it has matrix, vector"):
        analyze(perceptron(), device(), Settings(engine="dla"))
    with pytest.raises(InputError, match="does not run fp8; it takes fp32, fp16, bf16, int8, tf32"):
        analyze(perceptron(), device(), Settings(runtime="onnxruntime", precision="fp8"))


def test_assumptions_are_of_this_model_alone():
    """Roofs of a device are kept; what another model needed of them is not said."""
    card = load("rtx-a5000")
    asked = analyze(zoo.load("resnet50"), card).assumptions
    other = analyze(zoo.load("t5-small"), card).assumptions
    assert any("integer and boolean" in text for text in other)
    again = analyze(zoo.load("resnet50"), card, Settings(sizes={"batch": 2}))
    assert again.assumptions == asked


def test_without_a_roof_the_first_format_of_the_runtime_is_taken():
    """No Hexagon publishes a roof; LiteRT hands it 16 bits, as it has no unit for fp32."""
    found = gambrel.analyze("swin-t", "snapdragon-8-elite", runtime="litert")
    assert found.model.precision == "fp16"
    assert "publishes no compute roof" in found.model.precision_reason
    assert found.expected_time_s is not None
    cpu = gambrel.analyze("swin-t", "raspberry-pi-5", runtime="litert")
    assert cpu.model.precision in ("fp32", "fp16")


def test_a_model_in_16_bits_stays_so_without_a_roof():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 64).half()
    asked = {"inputs": (torch.zeros(8, 64).half(),), "runtime": "qnn"}
    found = gambrel.analyze(model, "snapdragon-8-gen-3", **asked).model
    assert (found.precision, found.precision_reason) == ("fp16", "the model's own")
