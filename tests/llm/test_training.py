"""Training steps: FLOPs and bytes by hand, what the stages divide, bubbles."""

from __future__ import annotations

import math

import msgspec
import pytest

import gambrel
from gambrel.analysis.evaluate import Evaluator
from gambrel.device.lookup import find
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import DeviceError, InputError
from gambrel.llm.backward import unknown, with_backward
from gambrel.llm.build import build
from gambrel.llm.collectives import nodes_of
from gambrel.llm.known import spec_of
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import prefill
from gambrel.llm.topology import Topology
from gambrel.llm.training import train
from gambrel.llm.training_plan import TrainingPlan
from gambrel.llm.training_time import Parts, exchange_s, pass_s, stack_of
from gambrel.ops import Conventions
from gambrel.workload import Phase

H100 = find("h100").device
A100 = find("a100-sxm4-80gb").device
LLAMA = spec_of("llama-3.1-8b")


def trained(**changes):
    return train(LLAMA, H100, TrainingPlan(**({"sequences": 1, "seq": 8192} | changes)))


def matrix_flops(workload, phase=None):
    found = Evaluator(workload, {}, {}, Conventions()).costs()
    return sum(
        op.repeat * n
        for op, _, cost in found
        if phase is None or op.phase == phase
        for (engine, _), n in cost.work.items()
        if engine.value == "matrix"
    )


def test_backward_has_twice_the_products_and_attention_five_for_two():
    step = prefill(1, 512)
    step = type(step)(groups=step.groups, outputs=512)
    forward = build(LLAMA, step, "bf16")
    both = with_backward(forward)
    # Attention: 32 layers, 32 heads, 512 * 513 / 2 pairs, two products of 128: 2 * 2 * 128 each.
    attention = 32 * 32 * (512 * 513 // 2) * 4 * 128
    products = matrix_flops(forward) - attention
    assert matrix_flops(both, "backward") == 2 * products + attention * 5 // 2


def test_nothing_is_left_without_a_formula():
    for name in ("llama-3.1-8b", "qwen3-30b-a3b"):
        found = train(spec_of(name), H100, TrainingPlan(sequences=1, seq=512))
        assert found.passes.unmodelled == {}
        assert found.end.unmodelled == {}


def test_recomputing_runs_the_layers_once_more():
    kept, again = trained(), trained(recompute="full")
    # Forward 1, backward 2 and a half; the layers' forward again, the head's not.
    assert again.hfu * again.step_s > kept.hfu * kept.step_s
    assert again.mfu * again.step_s == pytest.approx(kept.mfu * kept.step_s)
    assert again.memory.activations_bytes < kept.memory.activations_bytes / 4


def test_model_flops_of_a_token_by_hand():
    # Products: 6 FLOP for each of 8,030,261,248 - 525,336,576 (the look-up) - 266,240 (norms)
    # parameters; attention 3 * 32 layers * 32 heads * 4 * 128 * 8193 / 2 keys.
    products = 6 * (8_030_261_248 - 525_336_576 - 266_240)
    attention = 3 * 32 * 32 * 4 * 128 * 8193 / 2
    assert trained().model_flops == pytest.approx(products + attention)


#: Parameters of the head (and of the look-up), a layer and the last norm of Llama 3.1 8B.
HEAD, LAYER, NORM = 128256 * 4096, 218_112_000, 4096


def test_hfu_counts_what_the_recipe_runs_again_and_nothing_else():
    assert trained().hfu == trained().mfu
    full = trained(recompute="full")
    # The forward pass of 32 layers, without their two norms each and without the head.
    attention = 32 * 32 * 4 * 128 * 8193 / 2
    again = 2 * 32 * (LAYER - 2 * 4096) + attention
    model = 6 * (32 * (LAYER - 2 * 4096) + HEAD) + 3 * attention
    assert full.model_flops == pytest.approx(model)
    assert full.hfu / full.mfu == pytest.approx(1 + again / model)
    some = trained(recompute="norms,activations")  # no product runs again
    assert some.hfu == some.mfu


@pytest.mark.parametrize(("zero", "divided"), [(0, (1, 1)), (1, (1, 8)), (2, (8, 8))])
def test_stages_divide_states_and_gradients(zero, divided):
    m = trained(zero=zero, sharding=Sharding(data=8)).memory
    n = 8_030_261_248
    assert m.moment == "loss"
    assert m.parameters_bytes == 2 * n
    # Sums in fp32; the head's own gradient in 16 bits before it is added.
    assert m.gradients_bytes == 4 * n / divided[0] + 2 * (HEAD + NORM)
    assert m.optimizer_bytes == 12 * n / divided[1]
    # Without logits what backward reads; each logit and its gradient in 16 bits.
    whole = trained(zero=zero, sharding=Sharding(data=8), loss="fp32").memory
    # An fp32 copy, log-probabilities and their gradient instead of the gradient in 16 bits.
    assert whole.total_bytes - m.total_bytes == (14 - 4) * 8192 * 128256


def test_a_matrix_that_look_up_and_head_share_is_on_both_ends_of_a_pipeline():
    small = spec_of("llama-3.2-1b")
    plan = TrainingPlan(sequences=1, seq=2048, sharding=Sharding(pipeline=2))
    first, last = train(small, H100, plan).ranks
    # 8 layers of 1,235,814,400 - 128,256 x 2,048 - 2,048 over 16, and the matrix.
    layer = (1_235_814_400 - 128256 * 2048 - 2048) // 16
    assert first.parameters_bytes == 2 * (8 * layer + 128256 * 2048)
    assert last.parameters_bytes == 2 * (8 * layer + 128256 * 2048 + 2048)


def test_divided_parameters_are_gathered_layer_by_layer():
    m = trained(zero=3, sharding=Sharding(data=8), loss="fused").memory
    n = 8_030_261_248
    assert m.optimizer_bytes == 12 * n / 8
    assert m.parameters_bytes == 2 * (2 * HEAD + NORM + 2 * LAYER)
    if m.moment == "loss":
        assert m.gradients_bytes == 4 * n / 8 + 2 * (HEAD + NORM)
    else:
        assert m.gradients_bytes == 4 * n / 8 + (2 + 4) * LAYER + 2 * (2 * HEAD + NORM)


def test_the_first_and_the_last_stage():
    """Two stages: the first keeps two microbatches, the last has the head and the loss."""
    layout = Sharding(pipeline=2)
    found = trained(sharding=layout, microbatches=4, recompute="full")
    first, last = found.ranks
    assert (first.in_flight, last.in_flight) == (2, 1)
    assert first.parameters_bytes == 2 * (16 * LAYER + HEAD)
    assert last.parameters_bytes == 2 * (16 * LAYER + HEAD + NORM)
    logits = 4 * 8192 * 128256
    stream = 16 * 2 * 8192 * 4096
    assert last.moment == "loss"
    assert last.activations_bytes == stream + logits
    assert found.memory == max(found.ranks, key=lambda m: m.total_bytes)
    # With gathered parameters kept through the step, gradients are too.
    kept = trained(sharding=Sharding(pipeline=2, data=4), zero=3).ranks[0]
    assert kept.parameters_bytes == 2 * (16 * LAYER + HEAD)
    assert kept.gradients_bytes == (4 * 16 + 6) * LAYER + (4 + 2) * HEAD


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"recompute": "full", "microbatches": 3},
        {"sharding": Sharding(pipeline=4, data=2), "microbatches": 16, "zero": 1},
        {"sharding": Sharding(pipeline=4), "microbatches": 8, "virtual": 2},
        {"sharding": Sharding(pipeline=4), "microbatches": 2, "schedule": "zero-bubble"},
        {"sharding": Sharding(data=8), "zero": 3, "recompute": "selective"},
    ],
)
def test_memory_over_a_step_peaks_where_it_says(changes):
    found = trained(**{"seq": 2048} | changes)
    shown = found.timeline
    assert shown.peak_bytes == pytest.approx(found.memory.total_bytes, rel=1e-6)
    assert shown.points[-1].phase == "optimizer"
    assert shown.points[-1].activations_bytes == 0
    assert len(shown.points) < 400
    # The first pass goes up layer by layer, the last one down.
    first = [p.activations_bytes for p in shown.points[:3]]
    assert first == sorted(first)
    assert shown.points[0].op == "forward of microbatch 1"
    ends = shown.points[-2]
    assert ends.op == f"backward of microbatch {changes.get('microbatches', 1)}"
    assert ends.activations_bytes < shown.peak.activations_bytes


def test_each_device_has_its_tokens_before_the_head():
    """A quarter of the sequence on each of four devices: a quarter of the head's work."""

    def head(found):
        ops = [op for op in found.passes.ops if op.module == "lm_head"]
        return sum(work.flops for op in ops for work in op.measures.work)

    whole, parts = trained(), trained(sharding=Sharding(context=4))
    assert head(parts) == head(whole) / 4


def test_selective_recomputation_keeps_attention_and_every_second_product():
    kept = trained(recompute="selective", sharding=Sharding(data=8), zero=3, loss="fused").memory
    # In front of a layer 4,096; queries, values, the gate and the last product; attention.
    widths = 4096 + (4096 + 1024 + 14336 + 4096) + 4096
    layers = 32 * 2 * 8192 * widths
    # One layer that runs again (with look-up and last norm), and the gradients of its widest op.
    layer = 2 * 8192 * (4 * 4096 + (32 + 16) * 128 + 4096 + 3 * 14336 + 2 * 4096)
    passing = 2 * 8192 * 3 * 14336
    if kept.moment == "loss":
        assert kept.activations_bytes == layers + 4 * 8192 * 128256
    else:
        assert kept.activations_bytes == layers + layer + passing
    none, full = trained(recompute="none"), trained(recompute="full")
    some = trained(recompute="selective")
    assert none.step_s < some.step_s < full.step_s
    assert none.hfu * none.step_s < some.hfu * some.step_s < full.hfu * full.step_s


def test_traffic_of_gradients_by_hand():
    # All-reduce over eight behind a reducing switch: N (1 + 1/8) of 2 bytes a parameter; stage 3:
    # 7/8 of it for the gradients and twice for the parameters.
    n = 2 * 8_030_261_248
    whole = trained(sharding=Sharding(data=8)).end.total.link_bytes
    assert whole == pytest.approx(n * 9 / 8)
    divided = trained(zero=3, sharding=Sharding(data=8)).end.total.link_bytes
    assert divided == pytest.approx(3 * n * 7 / 8)


def test_gradients_of_stages_pass_the_network_once():
    # Eight nodes of eight: TP8, four stages, two replicas a stage, each on a node of its own. A
    # reduce-scatter and an all-gather between two nodes send half of the stage's share each.
    layout = Sharding(tensor=8, pipeline=4, data=2)
    plan = TrainingPlan(sequences=1, seq=2048, zero=1, sharding=layout)
    found = train(LLAMA, H100, plan, topology="dgx-h100")
    # 2 bytes a parameter, whole on each device; the busiest has head and look-up, an eighth each.
    # Norms, two a layer and the last, are whole on each.
    stage = 2 * ((8 * (LAYER - 8192) + 2 * HEAD) / 8 + 17 * 4096)
    exchanges = [op for op in found.end.ops if op.kind == "collective"]
    for op in exchanges:
        network = next(t for t in op.measures.times if t.resource == "network")
        assert network.time_s == pytest.approx(stage / 2 / 50e9)  # 400 Gb/s a device


@pytest.mark.parametrize(
    ("layout", "nodes"),
    [
        (Sharding(data=8), 1),
        (Sharding(data=32), 4),
        (Sharding(tensor=8, data=16), 16),
        (Sharding(tensor=2, data=16), 4),
        # Two stages of two devices on a node: two of sixteen replicas beside each other.
        (Sharding(tensor=2, pipeline=2, data=16), 8),
        (Sharding(tensor=8, pipeline=16, data=128), 128),
        (Sharding(tensor=2, context=4, data=4), 4),
        (Sharding(tensor=4, context=4, pipeline=2, data=2), 4),
    ],
)
def test_nodes_that_hold_the_same_parameters(layout, nodes):
    assert nodes_of("gradient", layout, Topology(devices_per_node=8)) == nodes


def test_the_speed_of_light_recomputes_nothing_and_knows_no_bubble():
    kept, again = trained(), trained(recompute="full")
    assert again.sol_step_s == kept.sol_step_s
    assert again.roofline_step_s > kept.roofline_step_s
    # Three times forward (attention backward without its scores again), 989.4 TFLOP/s.
    flops = kept.model_flops * 8192
    assert kept.sol_step_s == pytest.approx(flops / 989.4e12, rel=0.001)
    one, four = (
        trained(sharding=Sharding(pipeline=2)),
        trained(sharding=Sharding(pipeline=2), microbatches=4),
    )
    assert four.sol_step_s == pytest.approx(4 * one.sol_step_s, rel=0.001)
    assert one.bubble > four.bubble


def test_weights_cross_the_memory_once_for_all_microbatches():
    # One token: 16 G bytes of weights in bf16 read once, whatever the number of microbatches, and
    # 24 bytes a parameter of fp32 master weights and moments, read and written.
    one, eight = trained(seq=1), trained(seq=1, microbatches=8)
    assert eight.sol_step_s == pytest.approx(one.sol_step_s, rel=0.01)
    assert one.sol_step_s == pytest.approx(8.03e9 * 26 / 3.35e12, rel=0.02)


def test_bubbles():
    plan = TrainingPlan(sequences=1, seq=2048, microbatches=8, sharding=Sharding(pipeline=4))
    assert plan.bubble == 3 / 11
    alone = TrainingPlan(sequences=1, seq=2048, microbatches=8)
    assert alone.bubble == 0
    short = train(LLAMA, H100, plan)
    long = train(
        LLAMA,
        H100,
        TrainingPlan(sequences=1, seq=2048, microbatches=64, sharding=Sharding(pipeline=4)),
    )
    assert long.mfu > short.mfu


def test_stages_that_do_not_divide_are_said():
    found = trained(sharding=Sharding(pipeline=5))
    assert any("32 layers do not divide into 5 pieces" in text for text in found.assumptions)
    assert [m.layers for m in found.ranks] == [7, 7, 6, 6, 6]


def test_hidden_exchange_is_a_stated_assumption():
    plain = trained(sharding=Sharding(data=8))
    hidden = trained(sharding=Sharding(data=8), overlap=1.0)
    assert plain.step_s - hidden.step_s == pytest.approx(plain.exchange_s)
    assert hidden.exchange_s == 0
    assert any("as in the tuned runs" in text for text in plain.assumptions)
    whole = trained(sharding=Sharding(data=8), overlap=0.0)
    assert any("0% of the exchange" in text for text in whole.assumptions)
    assert whole.exchange_s >= plain.exchange_s


def test_no_device_is_faster_than_its_peak():
    for layout in (Sharding(), Sharding(tensor=8), Sharding(tensor=2, data=4)):
        found = trained(sharding=layout)
        assert 0 < found.mfu <= found.hfu < 1
        assert 0 < found.sol_step_s <= found.roofline_step_s < found.step_s


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sequences": 0}, "sequences=0"),
        ({"zero": 4}, "stages are 0 to 3"),
        ({"recompute": "some"}, "use none, selective, full, auto"),
        ({"overlap": 2}, "a share from 0 to 1"),
        ({"seq": 200_000}, "seq=200,000 is beyond max_position_embeddings=131,072 of"),
        ({"sharding": Sharding(context=5)}, "context=5 does not divide the 8,192 tokens"),
        ({"sharding": Sharding(pipeline=4), "virtual": 9}, "virtual=9: llama-3.1-8b has 32 layers"),
        ({"loss": "none"}, "loss='none': use auto, fused, fp32"),
        ({"sharding": Sharding(tensor=3)}, "tensor=3 does not divide the 32 attention heads"),
    ],
)
def test_what_is_wrong_is_said(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        trained(**changes)


MAMBA_2 = {
    "model_type": "mamba2", "hidden_size": 256, "num_hidden_layers": 2, "num_heads": 8,
    "head_dim": 64, "state_size": 64, "n_groups": 1, "conv_kernel": 4, "vocab_size": 1000,
    "expand": 2, "chunk_size": 64,
}  # fmt: skip


def test_a_state_space_layer_trains():
    spec = spec_of(MAMBA_2)
    step = msgspec.structs.replace(prefill(1, 128), outputs=128)
    forward = build(spec, step, "bf16")
    both = with_backward(forward)
    kinds = {op.kind for op in both.ops if op.phase == Phase.BACKWARD}
    assert {"ssd_scan_backward", "convolution_backward"} <= kinds
    # Two chunks of 64 tokens: 64 * 65 / 2 pairs each. Scores of one group, 2 * 64 a pair; values
    # of 8 heads, 2 * 64 a pair; states and outputs, 2 * 64 * 64 for a token and head, each.
    pairs, states = 2 * 64 * 65 // 2, 2 * 64 * 64 * 128 * 8
    scores, values = 2 * 64 * pairs, 8 * 2 * 64 * pairs
    scans = 2 * (2 * (scores + values + 2 * states) + scores + states)  # two layers
    # Convolution of 4 taps over 512 + 2 * 64 channels: input and weights, 2 FLOP a tap.
    taps = 2 * 2 * 2 * 4 * (512 + 128) * 128
    # in 512 + 640 + 8 wide and out, head of 1,000: twice forward.
    products = 2 * 2 * 128 * (2 * (256 * 1160 + 512 * 256) + 256 * 1000)
    assert matrix_flops(both, "backward") == scans + taps + products
    found = train(spec, H100, TrainingPlan(sequences=1, seq=128))
    assert found.passes.unmodelled == {}
    assert 0 < found.sol_step_s < found.step_s


def test_layers_without_known_gradients_are_refused():
    step = msgspec.structs.replace(prefill(1, 128), outputs=128)
    forward = build(spec_of(MAMBA_2), step, "bf16")
    scan = next(op for op in forward.ops if op.kind == "ssd_scan")
    other = msgspec.structs.replace(scan, kind="wkv7_scan")
    assert unknown(forward) == ()
    assert unknown(msgspec.structs.replace(forward, ops=(*forward.ops, other))) == ("wkv7_scan",)


def test_the_public_function():
    found = gambrel.train_plan(
        "llama-3.1-8b", "h100", seq="8k", tensor=2, data=4, zero=1, recompute="full"
    )
    assert found.tokens_per_s_per_device > 1000


def test_a_step_has_a_range_and_is_never_certain():
    found = trained(sharding=Sharding(data=8))
    assert found.expected.low < found.step_s < found.expected.high
    assert found.expected.confidence == "medium"
    assert "published steps of tuned runs on Hopper" in found.expected.reason
    # Forward and backward without a pipeline, the exchange and the update follow one another.
    one, _ = pass_s(found.parts, stack_of(H100))
    assert found.step_s == pytest.approx(one + found.exchange_s + found.update_s)


def test_where_no_step_was_measured_kernels_add_up():
    found = train(LLAMA, resolve_hardware("mi300x")[0], TrainingPlan(sequences=1, seq=2048))
    assert found.parts is None
    assert "no training step was measured" in found.expected.reason


def test_an_exchange_that_nobody_measured_widens_the_range():
    """Kernels of an MI300X were measured, collectives over its links were not."""
    plan = {"seq": 2048, "sequences": 1}
    found = gambrel.train_plan("llama-3.2-1b", "mi300x", data=8, zero=3, **plan)
    assert found.expected.confidence == "low"
    assert "no collective was measured on this device" in found.expected.reason
    assert found.expected.high - found.expected.low > 4 * found.exchange_s > 0


def test_the_answer_says_whether_kernels_are_fused():
    fused, eager = (
        " ".join(
            gambrel.train_plan(
                "llama-3.2-1b", "a100", seq=2048, sequences=1, runtime=name
            ).assumptions
        )
        for name in (None, "pytorch")
    )
    assert "kernels are fused" in fused
    assert "every op is a kernel of its own" in eager
    assert "kernels are fused" not in eager


def test_without_constants_there_are_roofline_and_speed_of_light():
    """Nothing is refused that is known, and what rests on the expected time is unknown."""
    from gambrel.mcp.records import plain
    from gambrel.report import envelope, render

    plan = {"seq": 4096, "data": 8, "precision": "fp8"}
    step = gambrel.train_plan("llama-2-7b", "gaudi-2", total_tokens="1T", **plan)
    assert step.expected is step.step_s is step.mfu is step.limited_by is step.run is None
    assert 0 < step.sol_step_s < step.roofline_step_s
    assert step.roofline_step_s == step.passes.roofline_time_s + step.end.roofline_time_s
    assert step.bound == "compute"
    reason = "no constants were fitted for this device and runtime in fp8"
    assert step.confidence_reason == reason
    text = " ".join(render(step, "table").split())
    assert f"no expected time: {reason}" in text
    assert "Bound: compute; roofline" in text
    data = envelope(step)
    assert (data["step_s"], data["confidence_reason"]) == (None, reason)
    assert plain(step)["confidence_reason"] == reason
    assert "Roofline" in render(step, "html")


def parts(**changes):
    none = {"gemm_s": {}, "kernels_s": {}, "expert_s": {}, "eager": False}
    zero = ("attention_s", "stream_s", "rows_s", "shared_s", "routed_s", "gradient_s", "update_s")
    return Parts(**{**none, **dict.fromkeys(zero, 0.0), "layers": 0, "mixtures": 0, **changes})


def test_a_pass_by_hand():
    own = msgspec.structs.replace(
        stack_of(H100),
        gemm={"bf16": 0.8, "fp8": 0.5}, attention=0.2, attention_half=500, passes=30,
        eager_passes=300,
        expert_share=0.5, narrow_experts=0.5, expert_passes=10, tensor_shown=0.5,
        expert_shown=0.25, host_layer_s=1e-3, host_experts_s=9e-3,
    )  # fmt: skip
    # 0.8 / 0.8 + 0.1 / 0.5 + 0.04 x (1 + 500 / 1,000) / 0.2 + 30 x 0.01 + 0.5 x 0.1 + 0.25 x 0.4 s
    dense = parts(
        gemm_s={"bf16": 0.8, "fp8": 0.1}, attention_s=0.04, stream_s=0.01, shared_s=0.1,
        routed_s=0.4, layers=32, per_key=1e-3,
    )  # fmt: skip
    assert pass_s(dense, own)[0] == pytest.approx(1 + 0.2 + 0.3 + 0.3 + 0.05 + 0.1)
    # 8-bit experts: 0.1 / (0.5 x 0.5 x 0.5), and 10 x 0.02 of their rows
    mixed = parts(expert_s={"fp8": 0.1}, rows_s=0.02, mixtures=48)
    assert pass_s(mixed, own)[0] == pytest.approx(0.8 + 0.2)
    # 32 layers of a millisecond each: the host is slower than the device
    waiting, shares = pass_s(parts(gemm_s={"bf16": 0.008}, layers=32), own)
    assert waiting == pytest.approx(0.032)
    assert shares["host"] == pytest.approx(0.032 - 0.01)


def test_products_in_16_bits_take_what_their_kernels_take():
    """Where no share is fitted, the kernels' time counts; experts run at the same share of it."""
    own = msgspec.structs.replace(stack_of(H100), gemm={"fp8": 0.5}, expert_share=0.5, passes=0)
    whole = parts(
        gemm_s={"bf16": 0.6, "fp8": 0.1},
        kernels_s={"bf16": 0.8, "fp8": 0.9},
        expert_s={"bf16": 0.3},
    )
    assert pass_s(whole, own)[0] == pytest.approx(0.8 + 0.2 + 0.3 / (0.75 * 0.5))
    unknown = parts(gemm_s={"bf16": 0.6}, kernels_s={"bf16": math.nan})
    assert pass_s(unknown, own)[0] == pytest.approx(0.6 / 0.5)


def test_narrow_models_wait_for_small_products_and_for_their_logits():
    """GPT-2 reaches less of the peak than Llama; logits in fp32 take six times the traffic."""
    share = []
    for name in ("gpt2", "llama-3-8b"):
        found = train(spec_of(name), A100, TrainingPlan(sequences=4, seq=1024)).parts
        share.append(found.gemm_s["bf16"] / found.kernels_s["bf16"])
    assert share[0] < share[1] < 1
    plain, wide = (
        train(spec_of("gpt2"), A100, TrainingPlan(sequences=4, seq=1024, loss=loss))
        for loss in ("fused", "fp32")
    )
    assert wide.parts.loss_s == pytest.approx(6 * plain.parts.loss_s)
    assert wide.step_s > plain.step_s


def test_windows_are_further_below_the_peak():
    """Of GPT-OSS every second layer sees 128 keys."""
    found = train(spec_of("gpt-oss-20b"), H100, TrainingPlan(sequences=1, seq=4096))
    # Equal heads in all: 2 layers over 128 + 4,096 keys.
    assert found.parts.per_key == pytest.approx(2 / (128 + 4096))
    whole = train(LLAMA, H100, TrainingPlan(sequences=1, seq=4096))
    assert whole.parts.per_key == pytest.approx(1 / 4096)


def test_backward_hides_the_exchange_until_it_is_longer():
    own = msgspec.structs.replace(stack_of(H100), network=0.5, gradient_shown=0.4)
    assert exchange_s(parts(gradient_s=1.0), own, 10.0) == pytest.approx(0.4 * 2)
    assert exchange_s(parts(gradient_s=10.0), own, 10.0) == pytest.approx(20 - 9 + 0.4 * 10)


def test_interleaved_and_zero_bubble_schedules_wait_less():
    plain = {"sequences": 1, "seq": 128, "microbatches": 8, "sharding": Sharding(pipeline=4)}
    assert TrainingPlan(**plain).idle == 3
    assert TrainingPlan(**plain, virtual=3).idle == 1
    assert TrainingPlan(**plain, schedule="zero-bubble").bubble == 1 / 9


def test_experts_over_replicas():
    """Each of 8 devices holds 16 of 128 experts and sees its own tokens."""
    found = gambrel.train_plan("qwen3-30b-a3b", "h100", seq=4096, expert=8, data=8, zero=1)
    assert found.memory.parameters_bytes < 2 * 30.5e9 / 4
    ops = [op for op in found.passes.workload.ops if op.kind == "grouped_matmul"]
    forward = [op for op in ops if op.phase == Phase.FORWARD]
    held = {found.passes.workload.tensors[op.inputs[1]].shape[0] for op in forward}
    assert held == {16}
    whole = gambrel.train_plan("qwen3-30b-a3b", "h100", seq=4096, data=8, zero=1)
    assert found.model_flops == pytest.approx(whole.model_flops, rel=0.01)
    with pytest.raises(InputError, match="expert=12"):
        gambrel.train_plan("qwen3-30b-a3b", "h100", seq=4096, expert=12, data=8)


def test_unknown_roofs_give_no_time_instead_of_none():
    blind = msgspec.structs.replace(H100, ceilings=())
    with pytest.raises(DeviceError, match="roofs for this format"):
        train(LLAMA, blind, TrainingPlan(sequences=1, seq=512))


def test_a_whole_run_is_so_many_equal_steps(capsys):
    """8 devices with 2 sequences of 4,096 tokens each: 65,536 tokens a step."""
    from gambrel.cli import run
    from gambrel.report import envelope

    plan = {"seq": 4096, "sequences": 2, "data": 8, "zero": 1, "recompute": "full"}
    step = gambrel.train_plan("llama-3.1-8b", "h100", total_tokens="1T", **plan)
    assert step.run is not None
    assert step.run.devices == 8
    assert step.run.steps == pytest.approx(1e12 / 65_536)
    assert step.run.expected_time_s == pytest.approx(1e12 / 65_536 * step.step_s)
    assert step.run.expected_low_s < step.run.expected_time_s < step.run.expected_high_s
    assert step.run.device_time_s == pytest.approx(8 * step.run.expected_time_s)
    assert gambrel.train_plan("llama-3.1-8b", "h100", **plan).run is None
    assert envelope(step)["run"]["tokens"] == 1e12
    words = "train-plan llama-3.1-8b -d h100 --seq 4k --data 8 --zero 1 --recompute full --tokens"
    assert run([*words.split(), "300e9"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Run: 300 G tokens in" in out
    assert "device-hours on 8 devices" in out
    assert run([*words.split(), "many"]) == 2
    assert "is not a count; write for example 15T" in capsys.readouterr().err
