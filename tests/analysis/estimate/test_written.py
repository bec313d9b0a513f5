"""Ops of compiled models and fresh pages, from kernels measured on the machine itself."""

import pytest
from msgspec.structs import replace

from gambrel.analysis.estimate import Estimator, classes, packaged, probed, written
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.scopes import bound_op
from gambrel.device.lookup import from_peaks
from gambrel.ops import Cost, cost
from tests.analysis.estimate.views import convolution, elementwise, matmul, tensor

BANDWIDTH = 1e11
ROOFS = roofs_of(from_peaks(1e13, BANDWIDTH, name="box"))
ELEMENTS = 1 << 20
MIB = 1 << 20


def stream(key, start_s, per_byte_s):
    """A class that takes a start and so much for each byte that it moves."""
    rows = [
        ((float(n),), 2.0**n / BANDWIDTH, start_s + per_byte_s * 2.0**n) for n in range(14, 26, 2)
    ]
    return probed.fit("box", key, rows)


def known(*listed):
    return {p.key: p for p in listed}


ADD = stream("elementwise.add@compiled:fp16", 2e-6, 2e-11)
GELU = stream("elementwise.gelu@compiled:fp16", 2e-6, 1e-10)
PLAIN = stream("elementwise.gelu:fp16", 2e-6, 5e-11)
GELU_OP = replace(elementwise(ELEMENTS), attrs={"function": "gelu"})


def seconds(found, view, read=None, write=None):
    own = cost(view)
    left = Cost(
        work=own.work,
        read_bytes=own.read_bytes if read is None else read,
        write_bytes=own.write_bytes if write is None else write,
    )
    bound = bound_op(left, ROOFS).roofline_time_s or 0.0
    return written.measured(found, view, left, bound, ROOFS)


def test_a_loop_of_one_op_takes_what_was_measured():
    # 2 Mi elements of two bytes, read and written: 4 MiB at 0.1 ns a byte are 419 us.
    found = seconds(known(ADD, GELU, PLAIN), GELU_OP)
    assert found.seconds == pytest.approx(2e-6 + 4 * MIB * 1e-10, rel=0.1)
    assert found.exact
    assert found.probed is GELU


def test_an_op_within_a_loop_takes_what_it_computes_and_its_share_of_the_traffic():
    found = known(ADD, GELU)
    alone = seconds(found, GELU_OP).seconds
    half = seconds(found, GELU_OP, read=0).seconds
    none = seconds(found, GELU_OP, read=0, write=0).seconds
    # An addition moves 2 MiB in 42 us: that much is saved by not reading, and again by not writing.
    assert alone - half == pytest.approx(2 * MIB * 2e-11, rel=0.1)
    assert half - none == pytest.approx(2 * MIB * 2e-11, rel=0.1)
    # Computing takes 0.08 ns a byte beyond moving it.
    assert none == pytest.approx(2e-6 + 4 * MIB * 8e-11, rel=0.1)


def test_an_op_that_computes_next_to_nothing_is_free_within_a_loop():
    relu = elementwise(ELEMENTS)
    found = seconds(known(ADD, GELU), relu, read=0, write=0)
    assert found.seconds == pytest.approx(ADD.start_s)
    assert not found.exact


def test_without_loops_the_library_stands_in():
    found = seconds(known(PLAIN), GELU_OP)
    assert found.probed is PLAIN
    assert found.seconds == pytest.approx(2e-6 + 4 * MIB * 5e-11, rel=0.1)


def rows_of(view, taken_s):
    own = classes.features_of(view, cost(view))
    return [(tuple(f + d for f in own), 1e-9, taken_s) for d in (-1.0, 0.0, 1.0, 2.0)]


def test_a_compiled_convolution_runs_with_channels_last_and_copies_its_weights():
    view = convolution(1, 256, 16)
    last = probed.fit("box", "convolution.kxk@last:fp16", rows_of(view, 1e-3))
    plain = probed.fit("box", "convolution.kxk:fp16", rows_of(view, 9e-3))
    copied = stream("copy.relaid@compiled:fp16", 2e-6, 1e-9)
    without = seconds(known(last, plain), view)
    assert without.probed is last
    assert without.seconds == pytest.approx(1e-3, rel=0.05)
    # 256 x 256 x 9 weights of two bytes, read and written: 2.36 MB at a nanosecond a byte.
    relaid = seconds(known(last, plain, copied), view).seconds - without.seconds
    assert relaid == pytest.approx(2 * 256 * 256 * 9 * 2 * 1e-9, rel=0.1)
    eager = probed.measured(known(last, plain), view, cost(view), 0.0)
    assert eager.probed is plain


def test_what_is_copied_to_channels_last():
    dense = convolution(1, 64, 8)
    assert written.relaid_bytes(dense) == 64 * 64 * 9 * 2
    assert written.relaid_bytes(convolution(1, 64, 8, groups=64)) == 0  # one channel: same layout
    x, weight = dense.inputs
    point = replace(dense, inputs=(x, tensor(64, 64, 1, 1, storage=2, role="weight")))
    assert written.relaid_bytes(point) == 0
    first = replace(dense, inputs=(replace(x, role="input"), weight))
    assert written.relaid_bytes(first) == 64 * 64 * 9 * 2 + 64 * 64 * 2


def test_bytes_on_fresh_pages():
    big = elementwise(16 * MIB)  # 32 MiB of results
    assert classes.fresh_bytes(big) == 32 * MIB
    assert classes.fresh_bytes(elementwise(16 * MIB - 1)) == 0
    assert classes.fresh_bytes(replace(big, outputs=big.inputs)) == 0  # in place
    # 8 x 64 x 256 x 256 of two bytes are 64 MiB: a copy of the input, the result and its copy.
    conv = convolution(8, 64, 256)
    assert classes.fresh_bytes(conv) == 3 * 64 * MIB
    assert classes.fresh_bytes(conv, classes.LAST) == 64 * MIB


def test_the_first_touch_is_added_and_said():
    touch = probed.fit(
        "box", classes.FRESH_KEY, [((25.0 + n,), 1e-9, 2.0 ** (25 + n) / 4e9) for n in range(4)]
    )
    big = matmul(16 * 1024, 1024, 16)  # 32 MiB of results
    product = probed.fit("box", "matmul:fp16", rows_of(big, 5e-3))
    without = probed.measured(known(product), big, cost(big), 0.0)
    found = probed.measured(known(product, touch), big, cost(big), 0.0)
    # 32 MiB at 4 GB/s.
    assert found.seconds - without.seconds == pytest.approx(32 * MIB / 4e9)
    assert "fresh pages" in found.reason
    assert "fresh pages" not in without.reason


def test_the_estimator_takes_loops_for_compiled_models_only():
    import msgspec

    device = from_peaks(1e13, BANDWIDTH, name="box")
    calibration = msgspec.structs.replace(packaged(), probed=(ADD, GELU, PLAIN))
    own = cost(GELU_OP)
    bound = bound_op(own, ROOFS).roofline_time_s
    eager = Estimator(roofs_of(device), calibration).estimate(GELU_OP, own, bound)
    compiled = Estimator(roofs_of(device), calibration, compiled=True).estimate(GELU_OP, own, bound)
    assert eager.value == pytest.approx(2e-6 + 4 * MIB * 5e-11, rel=0.1)
    assert compiled.value == pytest.approx(2e-6 + 4 * MIB * 1e-10, rel=0.1)
    assert compiled.reason == "kernels of elementwise.gelu@compiled measured on this machine"


def test_the_variant_of_a_class_comes_first_and_the_class_after_it():
    keys = classes.candidates(convolution(1, 64, 8), Cost(), classes.LAST)
    assert keys[0] == "convolution.kxk@last:fp16"
    assert keys.index("convolution.kxk@last:fp32") < keys.index("convolution.kxk:fp16")
