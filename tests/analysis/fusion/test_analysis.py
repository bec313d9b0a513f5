"""An analysis under a stack: totals of the kernels, rows that add up to them, launches."""

from itertools import pairwise

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.fusion import Stack
from gambrel.analysis.fusion.measures import with_launches
from gambrel.analysis.measures import Bound, Estimate
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.errors import InputError
from tests.analysis.small import device, host_fed, perceptron

from .build import Net, traffic

H100 = find("h100-sxm5-80gb").device


def load(name):
    return zoo.load(zoo.find(name)[0].name)


def under(stack, workload, machine=H100, precision=None):
    return analyze(workload, machine, Settings(stack=stack, precision=precision))


@pytest.mark.parametrize("name", ["resnet50", "bert-base", "swin-t"])
@pytest.mark.parametrize("stack", list(Stack))
def test_rows_add_up_to_the_total(name, stack):
    found = under(stack, load(name))
    assert found.stack == stack
    assert found.traffic_bytes == sum(row.measures.traffic_bytes for row in found.ops)
    assert found.launches == sum(row.launches for row in found.ops)
    rows = sum(row.measures.roofline_time_s or 0.0 for row in found.ops)
    assert found.roofline_time_s == pytest.approx(rows)
    assert sum(row.measures.time_share or 0.0 for row in found.ops) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["resnet50", "gpt2", "mobilenet-v3-large"])
def test_traffic_time_and_launches_fall_from_eager_to_ideal(name):
    found = [under(stack, load(name)) for stack in Stack]
    for more, less in pairwise(found):
        assert more.traffic_bytes >= less.traffic_bytes
        assert more.roofline_time_s >= less.roofline_time_s * (1 - 1e-12)
        assert more.launches >= less.launches
    assert {a.total.matrix_flops for a in found} == {found[0].total.matrix_flops}


def test_eager_is_the_analysis_without_fusion():
    workload = load("resnet50")
    found = under("eager", workload)
    assert found == analyze(workload, H100)
    assert found.launches == len(workload.ops)
    assert found.traffic_bytes == traffic(workload, "eager") // 2  # captured in fp32, run in fp16


def test_ideal_is_what_every_analysis_calls_ideal():
    found = under("ideal", load("resnet50"))
    assert found.traffic_bytes == found.ideal_traffic_bytes
    assert found.roofline_time_s == pytest.approx(found.sol_time_s)
    assert found.launches == 1


def test_rows_of_a_kernel_share_its_bound_and_its_limiting_resource():
    workload = perceptron()
    found = analyze(workload, device(), Settings(stack="epilogue", precision="fp16"))
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
    eager = analyze(workload, device(), Settings(stack="eager"))
    fused = analyze(workload, device(), Settings(stack="epilogue"))
    # 3 * 64 * 64 * 4 = 49,152 bytes at 10 byte/s; work 524,288 FLOP at 100 FLOP/s of fp32 vector.
    assert fused.total.traffic_bytes == 49_152
    assert fused.roofline_time_s == pytest.approx(max(4915.2, 5242.88 + 40.96))
    assert eager.roofline_time_s == pytest.approx(5242.88 + 3276.8)


def test_what_crosses_a_host_link_does_not_depend_on_fusion():
    eager, fused = (
        analyze(perceptron(), host_fed(1000), Settings(stack=stack, precision="fp16"))
        for stack in ("eager", "compiled")
    )
    assert fused.traffic_bytes == eager.traffic_bytes


def test_the_stack_is_told_in_the_assumptions():
    found = under("compiled", load("resnet50"))
    sentence = (
        "stack compiled: the ops run as 104 kernels; traffic and bounds are those of the kernels."
    )
    assert sentence in found.assumptions
    assert found.launches == 104
    assert not any("stack" in text for text in under("eager", load("resnet50")).assumptions)


def test_an_unknown_stack_is_refused():
    with pytest.raises(InputError, match="unknown stack 'fast'; choose one of eager, compiled"):
        under("fast", load("resnet50"))


def test_folded_rows_keep_the_launches():
    found = under("compiled", load("bert-base"))
    assert sum(row.launches for row in found.folded()) == found.launches


def test_expected_times_pay_the_launches_of_the_kernels():
    eager, fused = (
        under(stack, load("resnet50")).expected_time_s for stack in ("eager", "compiled")
    )
    assert fused.overhead_s < eager.overhead_s
    assert fused.value < eager.value


def estimate(**changes):
    fields = {"value": 5.0, "low": 4.0, "high": 7.0, "confidence": "high", "reason": "",
              "overhead_s": 1.0}  # fmt: skip
    return Estimate(**{**fields, **changes})


def test_an_op_inside_a_kernel_pays_no_start():
    found = with_launches(estimate(), 0, 0.5)
    assert (found.value, found.low, found.high, found.overhead_s) == (4.0, 3.0, 6.0, 0.0)


def test_an_op_that_starts_two_kernels_pays_both():
    found = with_launches(estimate(), 2, 0.5)
    assert (found.value, found.overhead_s) == (6.0, 2.0)


def test_an_expected_time_is_never_below_the_bound():
    found = with_launches(estimate(), 0, 4.5)
    assert (found.value, found.low, found.high) == (4.5, 4.5, 6.0)
    assert with_launches(None, 0, 1.0) is None
