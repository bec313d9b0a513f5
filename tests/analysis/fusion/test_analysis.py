"""An analysis under a runtime: totals of its kernels, rows that add up to them, launches."""

from itertools import pairwise

import msgspec
import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.measures import Bound
from gambrel.capture import zoo
from gambrel.device.lookup import find
from tests.analysis.small import device, host_fed, perceptron

from .build import Net, traffic

H100 = find("h100-sxm5-80gb").device
#: The same card by another maker, on which ONNX Runtime has no execution provider of its own.
OTHER = msgspec.structs.replace(H100, id="other", vendor="another maker")
#: From the most traffic to the least.
RUNTIMES = ("pytorch", "torch-compile", "onnxruntime", "tensorrt", "perfect")


def load(name):
    return zoo.load(zoo.find(name)[0].name)


def under(runtime, workload):
    card = OTHER if runtime == "onnxruntime" else H100
    return analyze(workload, card, Settings(runtime=runtime))


@pytest.mark.parametrize("name", ["resnet50", "bert-base", "swin-t"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rows_add_up_to_the_total(name, runtime):
    found = under(runtime, load(name))
    assert found.runtime == runtime
    assert found.traffic_bytes == sum(row.measures.traffic_bytes for row in found.ops)
    assert found.launches == sum(row.launches for row in found.ops)
    rows = sum(row.measures.roofline_time_s or 0.0 for row in found.ops)
    assert found.roofline_time_s == pytest.approx(rows)
    assert sum(row.measures.time_share or 0.0 for row in found.ops) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["resnet50", "gpt2", "mobilenet-v3-large"])
def test_traffic_time_and_launches_fall_the_more_a_runtime_fuses(name):
    runtimes = [r for r in RUNTIMES if r != "tensorrt" or name != "gpt2"]  # no language models
    found = [under(runtime, load(name)) for runtime in runtimes]
    for more, less in pairwise(found):
        assert more.traffic_bytes >= less.traffic_bytes
        assert more.roofline_time_s >= less.roofline_time_s * (1 - 1e-12)
        assert more.launches >= less.launches
    assert {a.total.matrix_flops for a in found} == {found[0].total.matrix_flops}


def test_pytorch_is_the_default_and_launches_every_op():
    workload = load("resnet50")
    found = under("pytorch", workload)
    default = analyze(workload, H100)
    assert (default.runtime, default.total, default.ops) == ("pytorch", found.total, found.ops)
    assert found.launches == len(workload.ops)
    assert found.traffic_bytes == traffic(workload, "op") // 2  # captured in fp32, run in fp16


def test_perfect_kernels_move_what_must_be_moved():
    found = under("perfect", load("resnet50"))
    assert found.traffic_bytes == found.sol.traffic_bytes
    # The speed of light folds batch norm away and keeps 50 MB of L2 from run to run.
    assert found.sol_time_s <= found.roofline_time_s
    assert found.launches == 1


def test_rows_of_a_kernel_share_its_bound_and_its_limiting_resource():
    workload = perceptron()
    found = analyze(workload, device(), Settings(runtime="onnxruntime", precision="fp16"))
    first, relu, _ = found.ops
    assert (first.launches, relu.launches) == (1, 0)
    # x 4, w1 32 numbers read by the matmul, 8 results written by the relu: 16 bytes, two each.
    assert (first.measures.read_bytes, first.measures.write_bytes) == (72, 0)
    assert (relu.measures.read_bytes, relu.measures.write_bytes) == (0, 16)
    # Memory at 10 byte/s: 88 bytes take 8.8 s, and of them 7.2 and 1.6 belong to the two ops.
    assert (first.measures.bound, relu.measures.bound) == (Bound.MEMORY, Bound.MEMORY)
    assert first.measures.roofline_time_s == pytest.approx(7.2)
    assert relu.measures.roofline_time_s == pytest.approx(1.6)


def test_resources_of_a_kernel_overlap():
    """Eager: compute-bound and memory-bound ops one after another; fused: the larger of both."""
    net = Net()
    x = net.input(64, 64)
    y = net.pointwise("relu", net.matmul(x, net.weight(64, 64)))
    workload = net.workload(y)
    eager = analyze(workload, device(), Settings(runtime="pytorch"))
    fused = analyze(workload, device(), Settings(runtime="onnxruntime"))
    # 3 * 64 * 64 * 4 = 49,152 bytes at 10 byte/s; work 524,288 FLOP at 100 FLOP/s of fp32 vector.
    assert fused.total.traffic_bytes == 49_152
    assert fused.roofline_time_s == pytest.approx(max(4915.2, 5242.88 + 40.96))
    assert eager.roofline_time_s == pytest.approx(5242.88 + 3276.8)


def test_what_crosses_a_host_link_does_not_depend_on_fusion():
    eager, fused = (
        analyze(perceptron(), host_fed(1000), Settings(runtime=runtime, precision="fp16"))
        for runtime in ("pytorch", "torch-compile")
    )
    assert fused.traffic_bytes == eager.traffic_bytes


def test_the_kernels_of_a_runtime_are_in_the_assumptions():
    found = under("torch-compile", load("resnet50"))
    sentence = (
        "under torch.compile (Inductor) the ops run as 104 kernels; traffic and times are theirs."
    )
    assert sentence in found.assumptions
    assert found.launches == 104
    assert not any("kernels" in text for text in under("pytorch", load("resnet50")).assumptions)


def test_folded_rows_keep_the_launches():
    found = under("torch-compile", load("bert-base"))
    assert sum(row.launches for row in found.folded()) == found.launches


def test_expected_times_pay_the_launches_of_the_kernels():
    eager, fused = (
        under(r, load("resnet50")).expected_time_s for r in ("pytorch", "torch-compile")
    )
    assert fused.launches_s < eager.launches_s
    assert fused.host_s < eager.host_s
    assert fused.value < eager.value


def test_an_op_inside_a_kernel_pays_no_launch():
    """Inside a convolution's kernel a batch norm and a ReLU only add their traffic."""
    found = under("torch-compile", load("resnet50"))
    inside = [row for row in found.ops if not row.launches and row.measures.expected_time_s]
    assert inside
    for row in inside:
        estimate = row.measures.expected_time_s
        assert estimate.launches_s == 0
        assert estimate.value >= row.measures.roofline_time_s
        assert estimate.low >= row.measures.roofline_time_s
    first = [row for row in found.ops if row.launches]
    assert all(row.measures.expected_time_s.launches_s > 0 for row in first)
