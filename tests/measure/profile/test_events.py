"""Records of torch's profiler, read by torch's own code: threads, streams, graphs, marks."""

import pytest

pytest.importorskip("torch")

from gambrel.measure.profile.events import steps_of
from gambrel.measure.profile.join import join
from gambrel.measure.profile.kernels import kernels_of
from tests.measure.profile.kineto import Trace

US = 1_000


@pytest.fixture
def trace():
    return Trace()


def op(trace, name, start, *kernels, thread=1, length=10 * US):
    """A call that starts kernels; each is a name, begin, end and a stream."""
    number = trace.call(name, start, start + length, thread=thread)
    trace.launch(number, start + US)
    for kernel, begin, end, *stream in kernels:
        trace.kernel(kernel, begin, end, number, stream=stream[0] if stream else 7)
    return number


def joined(step, *names):
    return join(step.calls, names, device=True)


def test_an_op_takes_the_time_of_its_kernels_however_deep_they_started(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    trace.call("aten::linear", 5 * US, 60 * US)
    trace.call("aten::t", 6 * US, 7 * US)
    op(
        trace,
        "aten::addmm",
        10 * US,
        ("sm90_gemm", 100 * US, 140 * US),
        ("splitK", 141 * US, 143 * US),
    )
    op(trace, "aten::relu_", 70 * US, ("elementwise", 150 * US, 158 * US))
    (step,) = steps_of(trace.read(), gpu=True)
    found = joined(step, "addmm", "relu")
    assert found.times_s == pytest.approx((42e-6, 8e-6))
    assert found.unmatched == ()
    assert step.device.kernels == 3
    assert step.device.sum_s == pytest.approx(50e-6)
    assert step.device.busy_s == pytest.approx(50e-6)
    assert step.device.span_s == pytest.approx(58e-6)


def test_calls_of_one_name_inside_each_other_are_one(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    trace.call("aten::copy_", 5 * US, 60 * US)
    op(trace, "aten::copy_", 10 * US, ("Memcpy HtoD (Pinned -> Device)", 100 * US, 140 * US))
    (step,) = steps_of(trace.read(), gpu=True)
    assert joined(step, "copy").times_s == pytest.approx((40e-6,))


def test_kernels_side_by_side_count_for_each_op_and_once_for_the_device(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    op(trace, "aten::mm", 10 * US, ("gemm", 100 * US, 200 * US, 7))
    op(trace, "aten::bmm", 30 * US, ("gemm", 150 * US, 250 * US, 20))
    op(trace, "aten::relu", 50 * US, ("small", 160 * US, 170 * US, 21))
    (step,) = steps_of(trace.read(), gpu=True)
    assert joined(step, "mm", "bmm", "relu").times_s == pytest.approx((100e-6, 100e-6, 10e-6))
    assert step.device.sum_s == pytest.approx(210e-6)
    assert step.device.busy_s == pytest.approx(150e-6)


def test_copies_and_fills_count_and_waits_do_not(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    op(trace, "aten::to", 10 * US, ("Memcpy HtoD (Pageable -> Device)", 100 * US, 130 * US))
    op(trace, "aten::zero_", 30 * US, ("Memset (Device)", 140 * US, 141 * US))
    trace.kernel("Context Sync", 20 * US, 900 * US, 0)
    (step,) = steps_of(trace.read(), gpu=True)
    found = joined(step, "zero")
    assert found.times_s == pytest.approx((1e-6,))
    assert found.unmatched == (("to", pytest.approx(30e-6)),)
    assert step.device.sum_s == pytest.approx(31e-6)


@pytest.mark.parametrize("linked", [True, False])
def test_what_a_program_marks_is_no_kernel(trace, linked):
    """The profiler shows a mark on the device; counted with its kernels it would double them."""
    on_device = (100 * US, 190 * US, linked)
    trace.mark("gambrel.step", 0, 1000 * US, on_device=on_device)
    trace.mark("gambrel.optimizer", 5 * US, 80 * US, on_device=(100 * US, 160 * US, linked))
    trace.mark("Optimizer.step#AdamW.step", 6 * US, 79 * US, on_device=(100 * US, 160 * US, linked))
    op(trace, "aten::_fused_adamw_", 10 * US, ("multi_tensor", 100 * US, 160 * US))
    op(trace, "aten::add", 85 * US, ("elementwise", 170 * US, 190 * US))
    (step,) = steps_of(trace.read(), gpu=True)
    found = joined(step, "optimizer", "add")
    assert found.times_s == pytest.approx((60e-6, 20e-6))
    assert found.unmatched == ()
    assert step.device.sum_s == pytest.approx(80e-6)


def test_a_triton_kernel_has_the_name_of_its_call_and_is_one(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    op(trace, "triton_poi_fused_relu_0", 10 * US, ("triton_poi_fused_relu_0", 100 * US, 107 * US))
    (step,) = steps_of(trace.read(), gpu=True)
    assert [c.time_s for c in step.calls] == [pytest.approx(7e-6)]
    assert step.device.kernels == 1


def test_kernels_that_no_call_started_are_listed_by_name(trace):
    """A user's own kernels, and those of a library that does not tell the framework."""
    trace.mark("gambrel.step", 0, 1000 * US)
    op(trace, "aten::mm", 10 * US, ("gemm", 100 * US, 140 * US))
    trace.kernel("my_kernel", 150 * US, 175 * US, 0)
    (step,) = steps_of(trace.read(), gpu=True)
    found = joined(step, "mm")
    assert found.times_s == pytest.approx((40e-6,))
    assert found.unmatched == (("my_kernel", pytest.approx(25e-6)),)
    assert found.other_s == pytest.approx(0.0)


def test_a_graph_of_kernels_is_one_call_and_its_parts_add_up(trace):
    trace.mark("gambrel.step", 0, 1000 * US)
    number = trace.call("CUDAGraphNode.replay", 10 * US, 30 * US)
    trace.launch(number, 12 * US, name="cudaGraphLaunch")
    for i in range(40):
        trace.kernel(f"triton_poi_fused_add_{i}", (100 + 5 * i) * US, (104 + 5 * i) * US, number)
    (step,) = steps_of(trace.read(), gpu=True)
    found = joined(step, "mm")
    assert found.times_s == (None,)
    assert sum(t for _, t in found.unmatched) == pytest.approx(160e-6)
    assert step.device.kernels == 40
    # Kernels of a compiler are found inside by their own names.
    named = list(kernels_of(step.calls, frozenset()))
    assert [k.name for k in named] == [f"triton_poi_fused_add_{i}" for i in range(40)]
    assert sum(k.time_s for k in named) == pytest.approx(160e-6)


def test_steps_keep_their_kernels_although_two_have_the_same_length(trace):
    for i in range(3):
        begin = i * 1000 * US
        trace.mark("gambrel.step", begin, begin + 900 * US)
        op(trace, "aten::mm", begin + 10 * US, ("gemm", begin + 100 * US, begin + 140 * US))
        trace.kernel("gemm", begin + 200 * US, begin + 240 * US, 0)
    steps = steps_of(trace.read(), gpu=True)
    assert [joined(s, "mm").times_s for s in steps] == [(pytest.approx(40e-6),)] * 3
    assert [s.device.sum_s for s in steps] == [pytest.approx(80e-6)] * 3


def test_backward_in_a_thread_of_its_own_belongs_to_the_step_in_which_it_begins(trace):
    engine = "autograd::engine::evaluate_function: ConvolutionBackward0"
    for i, us in enumerate((7, 11)):
        begin = i * 1000 * US
        trace.mark("gambrel.step", begin, begin + 900 * US)
        op(trace, "aten::convolution", begin + US, ("conv", begin + 100 * US, begin + 103 * US))
        trace.call(engine, begin + 50 * US, begin + 90 * US, thread=2)
        trace.call("ConvolutionBackward0", begin + 51 * US, begin + 89 * US, thread=2)
        at = begin + 200 * US
        op(
            trace,
            "aten::convolution_backward",
            begin + 52 * US,
            ("dgrad", at, at + us * US),
            thread=2,
        )
    op(trace, "aten::mm", 950 * US, ("gemm", 955 * US, 960 * US), thread=2)
    steps = steps_of(trace.read(), gpu=True)
    names = ("convolution", "convolution_backward")
    assert [joined(s, *names).times_s for s in steps] == [
        pytest.approx((3e-6, 7e-6)),
        pytest.approx((3e-6, 11e-6)),
    ]
    assert [joined(s, *names).unmatched for s in steps] == [(), ()]


def test_libraries_names_of_an_op_meet_those_of_the_capture(trace):
    trace.mark("gambrel.step", 0, 3000 * US)
    trace.call("aten::batch_norm", 5 * US, 60 * US)
    trace.call("aten::_batch_norm_impl_index", 6 * US, 59 * US)
    op(trace, "aten::cudnn_batch_norm", 10 * US, ("bn_fw", 100 * US, 105 * US))
    op(trace, "aten::cudnn_batch_norm_backward", 70 * US, ("bn_bw", 110 * US, 117 * US))
    flash = "aten::_scaled_dot_product_flash_attention_backward"
    op(trace, flash, 90 * US, ("flash_bwd", 120 * US, 150 * US))
    op(trace, "aten::_cudnn_rnn_backward", 110 * US, ("rnn_bwd", 160 * US, 170 * US))
    (step,) = steps_of(trace.read(), gpu=True)
    names = (
        "native_batch_norm",
        "native_batch_norm_backward",
        "scaled_dot_product_attention_backward",
        "lstm_backward",
    )
    assert joined(step, *names).times_s == pytest.approx((5e-6, 7e-6, 30e-6, 10e-6))


def test_on_a_cpu_an_op_takes_its_own_time(trace):
    trace.mark("gambrel.step", 0, 100 * US)
    trace.call("aten::relu", 10 * US, 35 * US)
    (step,) = steps_of(trace.read(), gpu=False)
    assert join(step.calls, ("relu",)).times_s == pytest.approx((25e-6,))
    assert step.device is None


def test_a_record_without_kernels_says_so(trace):
    trace.mark("gambrel.step", 0, 100 * US)
    trace.call("aten::relu", 10 * US, 35 * US)
    (step,) = steps_of(trace.read(), gpu=True)
    assert step.device.kernels == 0
    assert step.device.span_s == 0.0
