"""Recorded structures of torch's profiler: threads, kernels joined to calls, steps."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from gambrel.measure.profile.join import join
from gambrel.measure.profile.run import calls_of


def event(name, start, end, *children, thread=1, kernels_us=0.0, parent=True, kind="CPU"):
    """As torch's profiler records a call; ``kernels_us`` is what the device did for it."""
    return SimpleNamespace(
        name=name,
        thread=thread,
        device_type=f"DeviceType.{kind}",
        cpu_children=list(children),
        cpu_parent=object() if parent else None,
        device_time_total=kernels_us + sum(c.device_time_total for c in children),
        time_range=SimpleNamespace(start=start, end=end, elapsed_us=lambda: end - start),
    )


def flat(*roots):
    found = []
    for root in roots:
        found += [root, *flat(*root.cpu_children)]
    return found


def step(begin, *children):
    return event("gambrel.step", begin, begin + 100, *children, parent=False)


def test_on_a_gpu_an_op_takes_the_time_of_its_kernels():
    mm = event("aten::mm", 10, 12, kernels_us=40.0)
    linear = event("aten::linear", 5, 15, event("aten::t", 6, 7), mm)
    relu = event("aten::relu", 20, 22, kernels_us=8.0)
    kernel = event("ampere_sgemm_128x64", 30, 70, kind="CUDA", parent=False)
    (calls,) = calls_of([*flat(step(0, linear, relu)), kernel], gpu=True)
    joined = join(calls, ("mm", "relu"))
    assert joined.times_s == pytest.approx((40e-6, 8e-6))
    assert joined.unmatched == ()


def test_backward_in_a_thread_of_its_own_belongs_to_the_step_in_which_it_begins():
    first = step(0, event("aten::mm", 1, 2, kernels_us=3.0))
    second = step(200, event("aten::mm", 201, 202, kernels_us=5.0))
    backward = [
        event(
            "autograd::engine::evaluate_function: MmBackward0",
            begin,
            begin + 9,
            event("aten::mm", begin + 1, begin + 2, thread=2, kernels_us=us),
            thread=2,
            parent=False,
        )
        for begin, us in ((50, 7.0), (250, 11.0))
    ]
    before = event("aten::mm", 150, 151, thread=2, parent=False, kernels_us=99.0)
    steps = calls_of(flat(first, second, *backward, before), gpu=True)
    names = ("mm", "mm")
    assert [join(calls, names).times_s for calls in steps] == [
        pytest.approx((3e-6, 7e-6)),
        pytest.approx((5e-6, 11e-6)),
    ]


def test_on_a_cpu_an_op_takes_its_own_time():
    (calls,) = calls_of(flat(step(0, event("aten::relu", 10, 35))), gpu=False)
    assert join(calls, ("relu",)).times_s == pytest.approx((25e-6,))
