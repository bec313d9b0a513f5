"""Traffic by level: by hand, by law, and on real models and devices."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.levels.total import binding_level
from gambrel.capture.zoo import load
from gambrel.device.lookup import find
from gambrel.device.model import MemoryLevel
from gambrel.workload import Op, Role, Tensor, Workload
from tests.analysis.small import device, perceptron

DEVICES = ("a100-sxm4-80gb", "h100-sxm5-80gb", "l40s", "epyc-9654", "mi300x")
MODELS = ("resnet50", "bert-base", "gpt2-prefill", "mobilenet-v2", "mixtral-8x7b-decode", "lstm")


def cached(capacity, **more):
    """The toy device with an L2 of 40 byte/s, of which three quarters are usable."""
    return device(
        memory=(
            MemoryLevel(name="DRAM", capacity_bytes=4000, byte_per_s=10.0),
            MemoryLevel(name="L2", capacity_bytes=capacity, byte_per_s=40.0),
        ),
        **more,
    )


def run(hardware, **more):
    return analyze(perceptron(), hardware, Settings(precision="fp16", sizes={"batch": 2}, **more))


def nbytes(measures):
    return {level.name: level.traffic_bytes for level in measures.levels}


def test_a_chain_that_fits():
    # fc1 reads x (16 bytes) and w1 (64), cold; h (32) and relu's result (32) stay; fc2 reads w2
    # (32) and writes the output (8).
    found = run(cached(1000))
    assert [nbytes(row.measures) for row in found.ops] == [{"DRAM": 80}, {"DRAM": 0}, {"DRAM": 40}]
    assert found.cached_traffic_bytes == 120 == found.sol.traffic_bytes
    assert found.total.traffic_bytes == 248  # the compulsory traffic of each op stays what it was
    # What the L2 itself supplies is unknown: the size of what lies inside it is.
    assert [level.name for level in found.total.levels] == ["DRAM"]
    # 8 s and 4 s of DRAM; relu takes its 0.16 s of arithmetic.
    assert found.cached_roofline_time_s == pytest.approx(8 + 0.16 + 4)
    assert found.total.roofline_time_s == pytest.approx(24.8)


def test_the_difference_is_said():
    (said,) = run(cached(1000)).cache_notes
    assert "caches keep" in said
    assert "248 B in all" in said
    assert "it is 120 B" in said
    assert "75" in said
    assert run(device()).cache_notes == ()


def test_a_cache_that_is_too_small_for_the_chain():
    # 40 bytes usable of 54. Matrix products: w1 (64) does not stay; the 2 x 8 sums of 4 bytes do
    # not fit beside their operands, so something is read again; relu streams.
    found = run(cached(54))
    assert found.ops[1].measures.levels[0].traffic_bytes > 0
    assert found.cached_traffic_bytes > 120


def test_warm_caches_keep_weights():
    # A second run finds weights and inputs where the first left them; only the output is written.
    found = run(cached(10_000), warm=True)
    assert found.cached_traffic_bytes == 8
    assert nbytes(found.ops[0].measures) == {"DRAM": 0}
    # A cache that the run itself flushes holds nothing for the next.
    flushed = run(cached(200), warm=True).cached_traffic_bytes
    assert flushed > 8


def test_without_cache_sizes_it_is_the_eager_traffic():
    found = run(device())
    assert [nbytes(row.measures) for row in found.ops] == [
        {"DRAM": row.measures.traffic_bytes} for row in found.ops
    ]
    assert found.cached_roofline_time_s == pytest.approx(found.total.roofline_time_s)


def test_a_device_that_lives_off_its_link_has_no_levels():
    found = gambrel.analyze("resnet18", "coral-edge-tpu")
    assert found.total.levels == ()
    assert found.cached_traffic_bytes is None
    assert found.cached_roofline_time_s is None


def test_unmodelled_ops_have_no_levels():
    odd = perceptron()
    ops = (odd.ops[0], Op(kind="mystery", inputs=(2,), outputs=(3,)), odd.ops[2])
    found = analyze(perceptron(ops=ops), cached(1000), Settings(precision="fp16"))
    assert found.ops[1].measures.levels == ()
    assert found.ops[0].measures.levels


def test_repeats_count():
    ops = tuple(
        Op(
            kind=o.kind,
            inputs=o.inputs,
            outputs=o.outputs,
            sizes=o.sizes,
            attrs=o.attrs,
            repeat=3,
        )
        for o in perceptron().ops
    )
    found = analyze(perceptron(ops=ops), cached(1000), Settings(precision="fp16"))
    # Executions of one entry are on data of their own: nothing is taken to be reused.
    assert found.cached_traffic_bytes == found.total.traffic_bytes


def test_folded_rows_and_sums_carry_levels():
    found = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    for scope in (found.folded(), found.ops):
        for position, level in enumerate(found.total.levels):
            total = sum(row.measures.levels[position].traffic_bytes for row in scope)
            assert total == level.traffic_bytes
    for groups in (found.by_kind, found.by_module):
        total = sum(g.measures.levels[0].traffic_bytes for g in groups)
        assert total == found.cached_traffic_bytes


def attention(batch, heads, kv_heads, q, kv, d):
    """One attention, fp16, on 16-bit tensors."""

    def tensor(storage, count, length):
        return Tensor(shape=(batch, count, length, d), dtype="fp16", storage=storage)

    return Workload(
        name="attention",
        dtype="fp16",
        tensors=(
            tensor(0, heads, q),
            tensor(1, kv_heads, kv),
            tensor(2, kv_heads, kv),
            tensor(3, heads, q),
        ),
        ops=(
            Op(
                kind="attention",
                inputs=(0, 1, 2),
                outputs=(3,),
                sizes={
                    "batch": batch,
                    "heads": heads,
                    "kv_heads": kv_heads,
                    "q_len": q,
                    "kv_len": kv,
                    "head_dim": d,
                },
            ),
        ),
        outputs=(3,),
    )


def test_keys_and_values_pass_once_a_block_of_queries():
    # 2 heads, 64 queries, 64 keys, d = 8, 2 bytes. A row keeps 8 x 2 + 8 x 4 = 48 bytes, a pair
    # passing by takes 32. Of 1,068 bytes 801 are usable: (801 - 32) / 48 = 16 rows; keys and values
    # of a head (64 x 32 = 2,048) do not fit. So they are read 4 times: 3 x 2 x 2,048 bytes again.
    found = analyze(attention(1, 2, 2, 64, 64, 8), cached(1068), Settings(precision="fp16"))
    once = 4 * 2 * 64 * 8 * 2
    assert found.total.traffic_bytes == once
    assert found.cached_traffic_bytes == once + 3 * 2 * 2048
    # A head's keys and values, and one row, fit into 2,096 usable bytes: they stay.
    found = analyze(attention(1, 2, 2, 64, 64, 8), cached(2795), Settings(precision="fp16"))
    assert found.cached_traffic_bytes == once


def test_heads_that_share_keys_share_the_pass():
    # 4 query heads on 1 key/value head: 4 x 64 rows, 16 at a time: 16 passes.
    found = analyze(attention(1, 4, 1, 64, 64, 8), cached(1068), Settings(precision="fp16"))
    assert found.cached_traffic_bytes - found.total.traffic_bytes == 15 * 2048


def recurrent(hidden, seq, layers):
    """LSTM layers, fp16, batch 1; the weights of input and state in one storage."""
    weights = layers * 2 * 4 * hidden * hidden
    return Workload(
        name="recurrent",
        dtype="fp16",
        tensors=(
            Tensor(shape=(1, seq, hidden), dtype="fp16", storage=0),
            Tensor(shape=(weights,), dtype="fp16", storage=1, role=Role.WEIGHT),
            Tensor(shape=(1, seq, hidden), dtype="fp16", storage=2),
        ),
        ops=(
            Op(
                kind="recurrent",
                inputs=(0, 1),
                outputs=(2,),
                sizes={
                    "batch": 1,
                    "seq": seq,
                    "input_size": hidden,
                    "hidden": hidden,
                    "directions": 1,
                    "layers": layers,
                    "projection": 0,
                },
                attrs={"cell": "lstm", "bias": False},
            ),
        ),
        outputs=(2,),
    )


def test_state_weights_are_read_in_every_step_unless_they_fit():
    # 4 x 16 x 16 x 2 = 2,048 bytes a layer: they fit into 2,048 usable bytes, not into one less.
    settings = Settings(precision="fp16")
    fits, fails = (analyze(recurrent(16, 10, 3), cached(c), settings) for c in (2731, 2730))
    assert fits.cached_traffic_bytes == fits.total.traffic_bytes
    assert fails.cached_traffic_bytes == fails.total.traffic_bytes + 3 * 9 * 2048


def test_gradients_of_a_convolution_are_two_products():
    def tensor(storage, *shape):
        return Tensor(shape=shape, dtype="fp16", storage=storage)

    def backward(**attrs):
        op = Op(
            kind="convolution_backward",
            inputs=(0, 1, 2),
            outputs=(3, 4),
            sizes={
                "batch": 2,
                "out_channels": 16,
                "in_channels": 8,
                "groups": 1,
                "kernel": (3, 3),
                "spatial": (8, 8),
            },
            attrs={"grad_input": True, "grad_weight": True, "grad_bias": False, **attrs},
        )
        tensors = (
            tensor(0, 2, 16, 8, 8),
            tensor(1, 2, 8, 8, 8),
            tensor(2, 16, 8, 3, 3),
            tensor(3, 2, 8, 8, 8),
            tensor(4, 16, 8, 3, 3),
        )
        whole = Workload(name="backward", dtype="fp16", tensors=tensors, ops=(op,), outputs=(3, 4))
        found = analyze(whole, cached(1000), Settings(precision="fp16"))
        return found.cached_traffic_bytes - found.total.traffic_bytes

    both, one, other = backward(), backward(grad_weight=False), backward(grad_input=False)
    assert one > 0
    assert other > 0
    assert both == one + other


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile"])
@pytest.mark.parametrize("hardware", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_laws(model, hardware, runtime):
    found = gambrel.analyze(model, hardware, runtime=runtime)
    for row in found.ops:
        sizes = [level.traffic_bytes for level in row.measures.levels]
        assert sizes == sorted(sizes)
        intensities = [level.arithmetic_intensity for level in row.measures.levels]
        assert intensities == sorted(intensities, reverse=True)
        for level in row.measures.levels:
            if level.peak_byte_per_s:
                assert level.time_s == pytest.approx(level.traffic_bytes / level.peak_byte_per_s)
    written = _written_state(found.workload)
    if not written:
        # Every persistent storage crosses once; looked-up rows count by expectation, and a kernel
        # of several ops shares what it reads of its inputs among them.
        assert found.cached_traffic_bytes >= 0.9999 * found.sol.traffic_bytes - len(found.ops)


def _written_state(workload):
    roles = {Role.KV_CACHE, Role.STATE}
    return any(workload.tensors[i].role in roles for op in workload.ops for i in op.outputs)


@pytest.mark.parametrize("hardware", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_a_warm_run_reads_no_more(model, hardware):
    workload, machine = load(model), find(hardware).device
    cold, warm = (analyze(workload, machine, Settings(warm=w)) for w in (False, True))
    assert warm.cached_traffic_bytes <= cold.cached_traffic_bytes
    assert warm.total.traffic_bytes == cold.total.traffic_bytes


def test_a_small_network_stays_in_the_cache():
    # ResNet-50 at batch 1 in fp16: the largest activation has 1.6 MB, the L2 40 MB. What is left is
    # weights, image and result.
    found = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    assert found.cached_traffic_bytes == pytest.approx(found.sol.traffic_bytes, rel=0.001)
    assert found.cached_traffic_bytes < 0.25 * found.traffic_bytes
    assert found.cached_roofline_time_s < 0.6 * found.roofline_time_s
    # At batch 64 the activations (51 to 103 MB) do not fit: most of the traffic is there again.
    large = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=64, precision="fp16")
    assert 0.75 * large.traffic_bytes < large.cached_traffic_bytes < large.traffic_bytes


def test_the_last_cache_of_a_gpu_in_dies_keeps_what_the_l2_does_not():
    found = gambrel.analyze("resnet50", "mi300x", batch_size=1, precision="fp16")
    dram, llc, l2, _ = found.total.levels
    assert dram.traffic_bytes == pytest.approx(found.sol.traffic_bytes, rel=0.001)
    assert llc.traffic_bytes >= found.traffic_bytes
    assert l2.traffic_bytes >= llc.traffic_bytes


def test_decoding_is_bound_by_memory_with_caches_as_without():
    found = gambrel.analyze("llama-3-8b-decode", "h100-sxm5-80gb", batch_size=1)
    assert found.cached_roofline_time_s == pytest.approx(found.roofline_time_s, rel=0.01)
    assert binding_level(found.total.levels) == "DRAM"


def test_the_level_with_the_longest_time_binds():
    found = gambrel.analyze("bert-base", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    assert binding_level(found.total.levels) == "L2"
    assert binding_level(()) is None


@given(st.integers(10, 3000), st.integers(1, 3000), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_a_larger_cache_has_no_more_traffic_behind_it(capacity, more, batch):
    chosen = Settings(precision="fp16", sizes={"batch": batch})
    small, large = (
        analyze(perceptron(), cached(c), chosen).cached_traffic_bytes
        for c in (capacity, capacity + more)
    )
    # A tile that is larger may cut a matrix less evenly: by less than a pass of the operands.
    assert large <= 1.34 * small
    assert large >= 2 * (4 * batch + 4 * 8 + 8 * 2 + 2 * batch)


def test_intensity_of_a_level():
    found = run(cached(1000))
    assert found.total.levels[0].arithmetic_intensity == 192 / 120
    assert found.ops[1].measures.levels[0].arithmetic_intensity == math.inf


def test_levels_survive_saving(tmp_path):
    found = gambrel.analyze("resnet18", "a100-sxm4-80gb")
    found.save(tmp_path / "a.json")
    assert gambrel.load(tmp_path / "a.json") == found
