"""Published training steps within 15 %, the stack named as the papers describe it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from gambrel.device.resolve import resolve_hardware
from gambrel.errors import InputError
from gambrel.llm.attention_kernels import with_scores
from gambrel.llm.known import spec_of
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import topology_for
from gambrel.llm.training import train
from gambrel.llm.training_activations import intermediates_of
from gambrel.llm.training_base import forward_of
from gambrel.llm.training_plan import TrainingPlan

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import published_training

A100 = resolve_hardware("a100-sxm4-80gb")[0]
RUNS = {f"{run.table}: {run.name}": run for run in published_training.runs()}


@pytest.mark.parametrize(
    "name",
    [
        "Megatron-LM 2021: 1.7B, 32 GPUs",
        "Megatron-LM 2022: 22B, 8 GPUs, full recomputation",
        "Megatron-LM 2022: 175B, 64 GPUs, selective recomputation",
        "Llama 3 405B: 8,192 GPUs, sequences of 8,192",
        "DeepSeek-V3: 2,048 H800",
    ],
)
def test_a_published_step_within_15_percent(name):
    run = RUNS[name]
    step = run.predicted()
    seconds = run.measured_s(step)
    assert step.step_s == pytest.approx(seconds, rel=0.15)
    assert 0.95 * step.expected.low < seconds < step.expected.high
    assert step.sol_step_s < seconds


def test_mfu_counts_every_device_of_a_pipeline():
    run = RUNS["Llama 3 405B: 8,192 GPUs, sequences of 8,192"]
    step = run.predicted()
    # 6 FLOP for each parameter in products; 6 * 126 layers * 16,384 * 8,193 of attention.
    parameters = 405.85e9 - 128256 * 16384
    by_hand = 6 * parameters + 6 * 126 * 16384 * 8193
    assert step.model_flops == pytest.approx(by_hand, rel=1e-3)
    rate = step.model_flops * run.plan.tokens / run.plan.sharding.devices / step.step_s
    assert step.mfu == pytest.approx(rate / 989.4e12, rel=1e-3)


def test_unfused_attention_by_hand():
    spec = published_training.gpt(6144, 48, 64)
    plan = TrainingPlan(sequences=4, seq=2048, sharding=Sharding(tensor=8), tuning="unfused")
    fused = forward_of(spec, plan, Precisions.parse("bf16"), topology_for(A100, "dgx-a100"))
    apart = with_scores(fused)
    # Korthikanti et al., Table 2: 5 a s^2 b / t bytes a layer; 8 of 64 heads, 4 sequences.
    scores = 8 * 4 * 2048**2
    more = intermediates_of(apart).all_bytes - intermediates_of(fused).all_bytes
    assert more == 48 * 5 * scores
    assert intermediates_of(apart).freed["attention"][1] >= 5 * scores
    # All positions, two products, forward and twice in backward: 3 * 2 * 2 * 96 wide heads.
    step = train(spec, A100, plan, topology="dgx-a100")
    other = train(spec, A100, msgspec.structs.replace(plan, tuning="kernels"), topology="dgx-a100")
    assert step.mfu / other.mfu == pytest.approx(other.step_s / step.step_s)
    assert step.sol_step_s == pytest.approx(other.sol_step_s)
    assert step.step_s > 1.1 * other.step_s
    assert step.memory.activations_bytes > other.memory.activations_bytes


def test_weight_gradients_of_experts_take_as_long_as_their_forward_product():
    plan = TrainingPlan(
        sequences=1,
        seq=4096,
        sharding=Sharding(tensor=8, attention_data=8, expert=8),
        tuning="kernels",
    )
    h100 = resolve_hardware("h100-sxm5-80gb")[0]
    step = train(spec_of("qwen3-30b-a3b"), h100, plan, topology="dgx-h100")
    seconds = {
        (op.module, op.op): op.measures.expected_time_s.value
        for op in step.passes.ops
        if op.kind == "grouped_matmul"
    }
    products = [v for (_, name), v in seconds.items() if name == "weight gradient"]
    others = [v for (_, name), v in seconds.items() if name != "weight gradient"]
    assert len(products) == 2
    assert 0.5 < max(products) / max(others) < 2
    assert 0.5 < min(products) / min(others) < 2


def test_recomputation_is_not_decided_for_other_stacks():
    with pytest.raises(InputError, match="decided with the times of tuned runs"):
        TrainingPlan(sequences=1, seq=512, tuning="kernels", recompute="auto")
    with pytest.raises(InputError, match="tuning='fast': use tuned, kernels, unfused"):
        TrainingPlan(sequences=1, seq=512, tuning="fast")


def test_more_pieces_than_layers_are_refused():
    plan = TrainingPlan(sequences=1, seq=512, sharding=Sharding(pipeline=4), virtual=13)
    with pytest.raises(InputError, match=r"virtual=13: gpt-6144-48 has 48 layers .* at most 12"):
        plan.check(published_training.gpt(6144, 48, 64))


def test_activations_of_a_layer_by_hand():
    spec = spec_of("llama-3.1-405b")
    plan = TrainingPlan(sequences=1, seq=8192, sharding=Sharding(tensor=8, pipeline=16))
    node = topology_for(resolve_hardware("h100-sxm5-80gb")[0], "dgx-h100")
    forward = forward_of(spec, plan, Precisions.parse("bf16"), node)
    found = intermediates_of(forward, 8)
    # Of each position, bf16: two norms and the two sums in front of them, a device an eighth of
    # the positions; queries, keys and values of 18 heads, 16 heads of results, gate and up, their
    # product. What is added to the stream is not needed again.
    layer = 2 * 8192 * (4 * 16384 / 8 + (18 + 16) * 128 + 3 * 53248 / 8)
    ends = 2 * 2 * 8192 * 16384 / 8  # embedding and last norm
    assert found.layer_bytes == layer + ends
    assert found.all_bytes == 8 * layer + ends


def test_the_published_layout_of_405b_fits_without_recomputation():
    """Llama 3, section 3.3.2: at 8k no activations are computed again, on 80 GB."""
    spec, device = spec_of("llama-3.1-405b"), resolve_hardware("h100-sxm5-80gb")[0]
    plan = TrainingPlan(
        sequences=1,
        seq=8192,
        sharding=Sharding(tensor=8, pipeline=16, data=128),
        microbatches=16,
        zero=2,
    )
    assert train(spec, device, plan, topology="dgx-h100").memory.fits
