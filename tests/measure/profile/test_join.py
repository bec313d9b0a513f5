import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.measure.profile.join import ProfiledCall, join, short_name, wholes


def call(name, time_s, *children):
    return ProfiledCall(name=name, time_s=time_s, children=children)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::addmm", "addmm"),
        ("aten.addmm", "addmm"),
        ("aten.add.Tensor", "add"),
        ("aten::relu_", "relu"),
        ("aten._softmax", "_softmax"),
        ("transformers.mamba_selective_scan", "mamba_selective_scan"),
        ("torchvision::nms", "nms"),
        ("gambrel.step", "step"),
    ],
)
def test_names_of_both_sides_meet(name, short):
    assert short_name(name) == short


def test_a_wrapper_around_one_op_is_its_time_and_views_are_other():
    step = [
        call("linear", 10.0, call("t", 1.0), call("addmm", 7.0, call("copy", 2.0))),
        call("view", 0.5),
        call("relu", 3.0, call("clamp_min", 2.5)),
    ]
    found = join(step, ["addmm", "relu"])
    assert found.times_s == (10.0, 3.0)
    assert found.unmatched == ()
    assert found.other_s == 0.5


def test_a_wrapper_around_several_ops_gives_each_its_own():
    step = [call("linear", 10.0, call("mm", 6.0), call("add", 3.0))]
    found = join(step, ["mm", "add"])
    assert found.times_s == (6.0, 3.0)
    assert found.other_s == 1.0


def test_a_module_used_three_times_counts_three_times():
    step = [call("mm", 1.0), call("mm", 2.0), call("mm", 4.0)]
    assert join(step, ["mm", "mm", "mm"]).times_s == (1.0, 2.0, 4.0)


def test_an_op_that_did_not_run_is_unknown_and_does_not_shift_the_others():
    step = [call("mm", 1.0), call("softmax", 2.0), call("bmm", 3.0)]
    found = join(step, ["mm", "add", "softmax", "bmm"])
    assert found.times_s == (1.0, None, 2.0, 3.0)


def test_a_call_that_is_no_captured_op_is_reported_with_its_time():
    step = [call("mm", 1.0), call("add", 5.0), call("mm", 2.0)]
    found = join([*step, call("add", 0.25)], ["mm", "mm", "add"])
    assert found.times_s == (1.0, 2.0, 0.25)
    assert found.unmatched == (("add", 5.0),)


def test_nothing_ran():
    assert join([], ["mm"]).times_s == (None,)
    assert join([], []).times_s == ()


names = st.lists(st.sampled_from(["mm", "add", "softmax", "copy"]), max_size=30)


@given(names, st.lists(st.sampled_from(["view", "t"]), max_size=5))
def test_equal_sequences_join_one_to_one_whatever_views_lie_between(ops, views):
    step = [call(v, 0.125) for v in views] + [call(n, float(i)) for i, n in enumerate(ops)]
    found = join(step, ops)
    assert found.times_s == tuple(float(i) for i in range(len(ops)))
    assert found.unmatched == ()
    assert found.other_s == pytest.approx(0.125 * len(views))


@given(names, names)
def test_no_time_is_lost_or_counted_twice(ran, ops):
    step = [call(n, 1.0) for n in ran]
    found = join(step, ops)
    known = sum(t for t in found.times_s if t is not None)
    assert known + sum(t for _, t in found.unmatched) + found.other_s == pytest.approx(len(ran))


def test_ops_without_a_call_and_a_call_without_an_op_are_the_same_work():
    norm = call("rms_norm", 3.0, call("_fused_rms_norm", 3.0))
    ops = ["mm", "pow", "mean", "add", "rsqrt", "mul", "mul", "bmm"]
    for device in (False, True):
        step = [call("mm", 1.0), norm, call("bmm", 2.0)]
        assert wholes(step, ops, device=device) == (((1, 2, 3, 4, 5, 6), "rms_norm"),)
    # Where all ran, nothing is put together, and a kernel beside them is no op.
    step = [call(name, 1.0) for name in ops] + [call("strange", 1.0)]
    assert wholes(step, ops, device=True) == ()
    assert join(step, ops, device=True).unmatched == (("strange", 1.0),)
    # On a CPU a call of any name may be a view; only names that are known count.
    step = [call("mm", 1.0), call("native_dropout", 3.0), call("bmm", 2.0)]
    ops = ["mm", "bernoulli", "div", "mul", "bmm"]
    assert wholes(step, ops) == ()
    assert wholes(step, ops, device=True) == (((1, 2, 3), "native_dropout"),)


def test_each_gap_has_its_own_call():
    ops = ["mm", "pow", "mul", "mm", "pow", "mul", "mm"]
    step = [call("mm", 1.0), call("norm", 2.0), call("mm", 1.0), call("norm", 3.0), call("mm", 1.0)]
    assert wholes(step, ops, device=True) == (((1, 2), "norm"), ((4, 5), "norm"))
    assert join(step, ["mm", "norm", "mm", "norm", "mm"], device=True).times_s == (1, 2, 1, 3, 1)
    # The second norm ran as captured.
    step = [call("mm", 1.0), call("norm", 2.0), *(call(n, 1.0) for n in ops[3:])]
    assert wholes(step, ops, device=True) == (((1, 2), "norm"),)


def test_what_autograd_puts_around_a_call_is_not_its_name():
    inner = call("native_dropout_backward", 4.0)
    outer = call(
        "evaluate_function: NativeDropoutBackward0", 4.0, call("NativeDropoutBackward0", 4.0, inner)
    )
    assert join([outer], ["mm"], device=True).unmatched == (("native_dropout_backward", 4.0),)


@given(st.lists(st.tuples(st.sampled_from("abcdex"), st.integers(1, 9)), max_size=12))
def test_on_a_device_every_kernel_is_in_one_place(parts):
    """Whatever ran is an op's or unmatched: nothing is lost, nothing counts twice."""
    step = [call("outer", float(t), call(name, float(t))) for name, t in parts]
    found = join(step, ["a", "b", "c", "a"], device=True)
    known = sum(t for t in found.times_s if t is not None)
    assert known + sum(t for _, t in found.unmatched) == pytest.approx(sum(t for _, t in parts))
    assert found.other_s == pytest.approx(0.0)
