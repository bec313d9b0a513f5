import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel.analysis.estimate import Estimator, total
from gambrel.analysis.estimate.features import RULES
from gambrel.analysis.estimate.kinship import Chosen
from gambrel.analysis.measures import Estimate
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.scopes import bound_op
from gambrel.device import catalog
from gambrel.device.fastest import above_rated
from gambrel.errors import UnknownNameError
from gambrel.ops import cost, is_free, kinds
from gambrel.ops.attention import visible_pairs
from tests.analysis.estimate import views
from tests.analysis.small import device as toy

DEVICES = sorted(set(catalog.index().names.values()))
sizes = st.integers(min_value=1, max_value=20_000)
few = st.integers(min_value=1, max_value=64)
ops = st.one_of(
    st.builds(views.matmul, sizes, sizes, sizes, st.sampled_from(["fp16", "fp32", "int8", "fp8"])),
    st.builds(views.elementwise, st.integers(min_value=1, max_value=10**9)),
    st.builds(views.convolution, few, few, few),
    st.builds(lambda b, c, s: views.convolution(b, c, s, groups=c), few, few, few),
    st.builds(
        lambda b, kv, g, q, past: views.attention(b, kv * g, kv, q, q + past),
        few,
        few,
        few,
        sizes,
        sizes,
    ),
    st.builds(views.grouped, st.integers(min_value=1, max_value=8192)),
    st.builds(
        views.collective,
        st.sampled_from(["all_reduce", "all_gather", "all_to_all", "broadcast"]),
        st.integers(min_value=2, max_value=10**9),
        st.integers(min_value=1, max_value=16),
    ),
)


def expect(view, device, count=1, framework="any"):
    roofs = roofs_of(device)
    priced = cost(view)
    bound = bound_op(priced, roofs, count).roofline_time_s
    return bound, Estimator(roofs, framework=framework).estimate(view, priced, bound, count)


def on(name, view, **more):
    return expect(view, catalog.load(name), **more)[1]


@given(
    view=ops,
    name=st.sampled_from(DEVICES),
    count=st.integers(min_value=1, max_value=5),
    framework=st.sampled_from(["any", "vllm", "sglang", "trtllm"]),
)
def test_never_below_the_bound_and_inside_its_range(view, name, count, framework):
    bound, found = expect(view, catalog.load(name), count, framework)
    if found is None:
        return
    device = catalog.load(name)
    assert bound <= found.value * (1 + 1e-9)
    assert bound <= found.low * above_rated(device) * (1 + 1e-9)
    traffic = (priced := cost(view)).read_bytes + priced.write_bytes
    assert count * traffic / roofs_of(device).memory_byte_per_s <= found.low * (1 + 1e-9)
    assert found.low <= found.value <= found.high
    assert 0 <= found.launches_s <= found.value
    assert found.confidence in {"high", "medium", "low"}
    assert found.reason


@given(view=ops, name=st.sampled_from(["h100-sxm5-80gb", "b200-hgx-180gb", "mi300x"]))
def test_repeats_add(view, name):
    once, thrice = on(name, view), on(name, view, count=3)
    if once is None:  # attention and experts were measured on no GPU of AMD
        assert (name, thrice) == ("mi300x", None)
        return
    assert thrice.value == pytest.approx(3 * once.value)
    assert thrice.launches_s == pytest.approx(3 * once.launches_s)


def test_arrays_equal_scalars():
    device = catalog.load("h100-sxm5-80gb")
    roofs = roofs_of(device)
    batches = [1, 7, 64, 1000]

    def make(b):
        return (
            views.matmul(b, 4096, 4096),
            views.matmul(b, 4096, 4096, "fp8"),
            views.attention(b, 32, 8, 1, 4096),
            views.attention(b, 32, 8, 512, 512),
            views.convolution(b, 64, 56),
            views.grouped(b),
            views.elementwise(b * 1000),
        )

    for i, view in enumerate(make(np.array(batches, dtype=float))):
        estimator = Estimator(roofs)
        many = estimator.seconds(view, cost(view), np.zeros(len(batches))).seconds
        for j, batch in enumerate(batches):
            single = make(batch)[i]
            one = estimator.seconds(single, cost(single), 0.0).seconds
            assert many[j] == pytest.approx(one, rel=1e-9), view.kind


def test_confidence_says_how_far_constants_were_carried():
    view = views.matmul(4096, 4096, 4096)
    assert on("h100-sxm5-80gb", view).confidence == "high"
    assert "measured on this device" in on("h100-sxm5-80gb", view).reason
    assert on("b200-hgx-180gb", view).confidence == "high"
    for name in ("h200-sxm-141gb", "gb200-186gb", "a100-pcie-40gb", "rtx-4090"):
        assert on(name, view).confidence == "medium", name
    for name in ("mi300x", "v100-sxm2-32gb"):
        assert on(name, view).confidence == "low", name
    for name in ("tpu-v5e", "xeon-8480+", "m3-max"):  # nothing of their class was measured
        assert on(name, view) is None, name
    assert "constants of h100-sxm5-80gb, the same generation" in on("h200-sxm-141gb", view).reason


def test_measured_times_that_differ_are_no_certainty():
    chosen = Chosen(
        constants={},
        low=(0.7, 0.7, 0.8, 0.8),
        high=(1.3, 1.3, 1.1, 1.1),
        confidence="high",
        reason="3 kernels",
    )
    # 1.3 / 0.7 = 1.86: enough below 20 µs (at most 2), too much above (at most 1.5).
    assert chosen.judge(0) == ("high", "3 kernels")
    assert chosen.judge(1) == ("medium", "3 kernels; measured times differ by a factor of 1.9")
    assert chosen.judge(2) == ("high", "3 kernels")
    far = msgspec.structs.replace(chosen, confidence="low")
    assert far.judge(1) == ("low", "3 kernels")


def test_a_named_framework_is_more_certain_than_any():
    prompt = views.attention(8, 32, 8, 4096, 4096)
    found, named = on("h100-sxm5-80gb", prompt), on("h100-sxm5-80gb", prompt, framework="vllm")
    assert "none of them under this runtime, so this is their average" in found.reason
    assert named.value == pytest.approx(found.value, rel=0.1)
    assert named.high / named.low < found.high / found.low
    assert (named.confidence, found.confidence) == ("high", "medium")


def test_attention_without_a_cache_writes_none():
    cached = on("h100-sxm5-80gb", views.attention(32, 16, 16, 512, 512), framework="vllm")
    alone = views.attention(32, 16, 16, 512, 512, role="activation")
    found = on("h100-sxm5-80gb", alone, framework="vllm")
    # Keys and values of 134 MB, written to a cache by a kernel of its own.
    assert cached.value - found.value > 0.134e9 / 3.35e12
    assert found.confidence == "medium"  # no kernel without a cache was fitted


def test_caches_of_8_bits_have_kernels_of_their_own():
    wide = on("h100-sxm5-80gb", views.attention(64, 32, 8, 1, 4096), framework="vllm")
    narrow = views.attention(64, 32, 8, 1, 4096, cache="fp8")
    found = on("h100-sxm5-80gb", narrow, framework="vllm")
    assert found.reason != wide.reason
    # Half of the bytes: less time, yet more than half of it.
    assert 0.5 * wide.value < found.value < wide.value
    # Keys and values of another 8-bit format take the same kernels.
    other = views.attention(64, 32, 8, 1, 4096, cache="int8")
    assert on("h100-sxm5-80gb", other, framework="vllm").value == found.value


def test_nearer_kin_comes_first_in_its_own_format():
    four_bits = views.matmul(4096, 4096, 4096, dtype="fp16", weight="int4")
    found = on("h100-sxm5-80gb", four_bits)
    assert "constants of h200-sxm-141gb, of the same generation" in found.reason
    own = on("h200-sxm-141gb", four_bits).reason
    assert own.startswith("a few constants fitted to runs of TensorRT-LLM")


def test_ranges_widen_with_distance():
    view = views.matmul(4096, 4096, 4096)

    def width(name):
        found = on(name, view)
        return found.high / found.value

    assert width("h100-sxm5-80gb") < width("h200-sxm-141gb") < width("mi300x")
    assert width("b200-hgx-180gb") < width("mi300x")


def test_classes_without_measurements_are_never_certain():
    for view in (views.elementwise(10**8), views.convolution(8, 64, 56)):
        assert on("h100-sxm5-80gb", view).confidence == "medium"
    assert "no kernels of this kind" in on("h100-sxm5-80gb", views.elementwise(10**8)).reason


def test_every_counted_kind_has_a_rule_or_is_uncertain():
    counted = {kind for kind in kinds() if not is_free(kind)}
    assert set(RULES) <= counted
    assert {"matmul", "convolution", "attention", "softmax", "collective"} <= set(RULES)


def test_nothing_to_borrow_is_unknown():
    view = views.matmul(64, 64, 64)
    assert on("coral-edge-tpu", view) is None  # lives off its host link
    assert expect(view, toy(memory=()))[1] is None


def test_small_kernels_take_their_launch():
    found = on("h100-sxm5-80gb", views.elementwise(1000))
    # About 4,700 cycles at 1.83 GHz.
    assert found.value == pytest.approx(2.6e-6, rel=0.1)
    assert found.launches_share > 0.95


def test_attention_grows_efficient_with_length():
    def share(length):
        view = views.attention(1, 32, 8, length, length)
        found = on("h100-sxm5-80gb", view)
        return 4 * 128 * 32 * visible_pairs(view) / 989.4e12 / found.value

    assert share(512) < share(2048) < share(8192) < 0.8


def test_decode_bandwidth_grows_with_the_cache():
    def share(batch):
        found = on("h100-sxm5-80gb", views.attention(batch, 32, 8, 1, 4096))
        return batch * 8 * 4096 * 128 * 2 * 2 / 3.35e12 / found.value

    assert share(1) < share(16) < share(256)
    assert 0.8 < share(256) < 1


def test_narrow_weights_have_constants_of_their_own():
    narrow = on("a100-sxm4-80gb", views.matmul(16, 4096, 4096, weight="int4"))
    wide = on("a100-sxm4-80gb", views.matmul(16, 4096, 4096))
    assert "on this device" in narrow.reason
    assert narrow.launches_s > 2 * wide.launches_s


@pytest.mark.parametrize("hardware", ["l4", "a100-sxm4-80gb", "mi300x"])
def test_activations_stored_in_int8_are_not_quantised_again(hardware):
    wide = gambrel.analyze("bert-base", hardware, batch_size=8, precision="fp16")
    narrow = gambrel.analyze("bert-base", hardware, batch_size=8, precision="int8")
    products = [
        sum(float(op.measures.expected_time_s) for op in a.ops if op.kind == "matmul")
        for a in (wide, narrow)
    ]
    assert products[1] < products[0]  # twice the peak, half the bytes, no pass in between


def test_unknown_framework_is_refused():
    with pytest.raises(
        UnknownNameError, match="unknown framework 'vlm'; closest: any, torch, vllm"
    ):
        Estimator(roofs_of(catalog.load("l4")), framework="vlm")


def test_unknown_peak_is_unknown_time():
    # The toy has no fp64 engine at all.
    assert expect(views.matmul(4, 4, 4, dtype="fp64"), toy())[1] is None


def part(value, confidence="high", reason="measured", launches_s=0.0):
    return Estimate(
        value=value,
        low=value / 2,
        high=value * 2,
        confidence=confidence,
        reason=reason,
        launches_s=launches_s,
    )


def test_totals_add_values_and_ends():
    found = total([(part(1.0, launches_s=0.5), 0.2), (part(3.0), 1.0)])
    assert (found.value, found.low, found.high, found.launches_s) == (4.0, 2.0, 8.0, 0.5)
    assert found.launches_share == 0.125


def test_total_is_as_certain_as_four_fifths_of_its_time():
    low = part(1.0, "low", "guessed")
    assert total([(part(4.0), None), (low, None)]).confidence == "high"
    assert total([(part(3.9), None), (low, None)]).confidence == "low"
    assert total([(part(3.9), None), (low, None)]).reason == "guessed"


def test_ops_without_constants_count_with_their_bound():
    found = total([(part(4.0), 1.0), (None, 1.0), (None, None)])
    assert (found.value, found.low) == (5.0, 3.0)
    assert found.reason.endswith("; 1 ops without constants count with their roofline time")
    assert total([(None, 1.0)]) is None
    assert total([]) is None


def test_convolutions_quantised_beforehand_pay_no_pass_over_their_activations():
    times = {
        precision: gambrel.analyze(
            "resnet50", "a100", precision=precision, runtime="tensorrt"
        ).by_kind
        for precision in ("fp16", "int8")
    }
    expected = {
        precision: next(g for g in kinds if g.name == "convolution").measures.expected_time_s
        for precision, kinds in times.items()
    }
    assert expected["int8"] < expected["fp16"]


def test_depthwise_convolutions_move_their_image_and_fill_no_tiles():
    view = views.convolution(64, 144, 56, groups=144)
    moved = 2 * 64 * 144 * 56 * 56 * 2 / 2.039e12  # read and written: 57 µs of memory
    assert moved < on("a100-sxm4-80gb", view).value < 2 * moved
    whole = on("a100-sxm4-80gb", views.convolution(64, 144, 56))
    assert whole.value > 2 * moved  # 144 times the work, on the matrix engine


def test_products_on_vector_units_are_split_like_others():
    # One row of 1,280 times 1,000 columns in fp32: 5.12 MB, 2.5 µs. In tiles that are not split
    # 16 units would work for 2·64·64·1280 / (19.5e12 / 108) = 58 µs.
    found = on("a100-sxm4-80gb", views.matmul(1, 1000, 1280, "fp32"))
    assert 2.5e-6 < found.value < 29e-6
    assert found.value > on("a100-sxm4-80gb", views.matmul(1, 1000, 1280)).value


@pytest.mark.parametrize(
    ("framework", "kernel"),
    [("trtllm", "static_scales"), ("vllm", "fp8"), ("sglang", "fp8"), ("any", "fp8")],
)
def test_products_in_fp8_run_the_kernels_of_their_engine(framework, kernel):
    """Checkpoints that TensorRT-LLM runs carry the scales of activations."""
    roofs = roofs_of(catalog.load("h100-sxm5-80gb"))
    view = views.matmul(64, 4096, 4096, "fp16", weight="fp8")
    view = msgspec.structs.replace(view, attrs={"compute_dtype": "fp8"})
    asked = Estimator(roofs, framework=framework).formula_input(view, cost(view))
    assert asked.task.scheme == kernel


@pytest.mark.parametrize(("framework", "kernel"), [("vllm", "fp8_block"), ("sglang", "fp8")])
def test_experts_in_fp8_under_vllm_have_scales_a_block(framework, kernel):
    roofs = roofs_of(catalog.load("h100-sxm5-80gb"))
    view = views.grouped(64)
    view = msgspec.structs.replace(view, attrs={**view.attrs, "compute_dtype": "fp8"})
    asked = Estimator(roofs, framework=framework).formula_input(view, cost(view))
    assert asked.task.scheme == kernel
