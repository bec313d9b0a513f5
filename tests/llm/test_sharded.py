"""One device's share: the shares add up, the collectives are those that the layout costs."""

from __future__ import annotations

from collections import Counter

import pytest

from gambrel.analysis.evaluate import Evaluator
from gambrel.llm.build import build
from gambrel.llm.exchange import reached
from gambrel.llm.sharded import as_served, build_rank, rank_of
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import Attention, Layer, LayerGroup, Mixture, Mlp, ModelSpec
from gambrel.llm.step import decode, prefill
from gambrel.ops import Conventions

DENSE = ModelSpec(
    name="dense",
    family="llama",
    hidden=8192,
    vocab=128256,
    layers=(
        LayerGroup(
            layer=Layer(
                mixer=Attention(heads=64, kv_heads=8, head_dim=128), feed_forward=Mlp(width=28672)
            ),
            count=80,
        ),
    ),
)
EXPERTS = Mixture(experts=128, top_k=8, width=1536)
MIXTURE = ModelSpec(
    name="mixture",
    family="qwen3_moe",
    hidden=4096,
    vocab=151936,
    layers=(
        LayerGroup(
            layer=Layer(mixer=Attention(heads=64, kv_heads=4, head_dim=128), feed_forward=EXPERTS),
            count=94,
        ),
    ),
)


def totals(workload):
    """(matrix FLOP, bytes of weights, bytes over links) of one device."""
    evaluator = Evaluator(workload, {}, {}, Conventions())
    flops = link = 0
    for op, _, cost in evaluator.costs():
        flops += op.repeat * sum(n for (e, _), n in cost.work.items() if e.value == "matrix")
        link += op.repeat * cost.link_bytes
    weights = {
        t.storage: evaluator.tensor(i).nbytes * t.copies
        for i, t in enumerate(workload.tensors)
        if t.role == "weight"
    }
    return flops, sum(weights.values()), link


def collectives(workload):
    found = Counter()
    for op in workload.ops:
        if op.kind == "collective":
            found[op.name, op.attrs["axis"]] += op.repeat
    return found


def test_one_device_is_the_whole_model():
    whole = build(as_served(DENSE), decode(16, 2048), "bf16")
    assert totals(build_rank(DENSE, decode(16, 2048), "bf16")) == totals(whole)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_tensor_shares_add_up(tensor):
    whole = totals(build_rank(DENSE, prefill(2, 512), "bf16"))
    own = totals(build_rank(DENSE, prefill(2, 512), "bf16", Sharding(tensor=tensor)))
    assert own[0] * tensor == whole[0]
    norms = 2 * 8192 * (2 * 80 + 1)  # each device has all norms
    assert (own[1] - norms) * tensor == whole[1] - norms


def test_two_all_reduces_a_layer_and_the_ends():
    found = build_rank(DENSE, decode(16, 2048), "bf16", Sharding(tensor=8))
    assert collectives(found) == {
        ("all_reduce", "attention"): 161,  # two a layer, and of the look-up
        ("all_gather", "attention"): 1,
    }
    in_layers = [op for op in found.ops if op.kind == "collective" and op.repeat == 80]
    assert [op.sizes["payload_bytes"] for op in in_layers] == [16 * 8192 * 2] * 2
    # Each device sends 2 * 7/8 of a payload for the 161 all-reduces, and an eighth of the logits
    # to everybody: 7/8 of 16 x 128,256 values.
    assert totals(found)[2] == 161 * 2 * 7 * 16 * 8192 * 2 // 8 + 7 * 16 * 128256 * 2 // 8


def test_stages_share_the_layers_and_pass_on_the_stream():
    found = build_rank(DENSE, decode(4, 2048), "bf16", Sharding(pipeline=4))
    assert {op.repeat for op in found.ops if op.module.startswith("layers")} == {20}
    send = found.ops[-1]
    assert (send.name, send.sizes["payload_bytes"]) == ("send", 4 * 8192 * 2)
    uneven = rank_of(DENSE, Sharding(pipeline=3))
    assert uneven.layer_count == 27


def test_experts_are_divided_and_all_rows_reach_one_of_them():
    whole = totals(build_rank(MIXTURE, decode(64, 2048), "bf16"))
    for layout in (Sharding(tensor=8, expert=8), Sharding(tensor=8), Sharding(tensor=8, expert=2)):
        found = build_rank(MIXTURE, decode(64, 2048), "bf16", layout)
        grouped = [op for op in found.ops if op.kind == "grouped_matmul"]
        rows = grouped[0].sizes["rows"] * layout.expert
        assert rows == 64 * 8
        weights = totals(found)[1]
        assert weights < whole[1] / 8 * 1.1


def test_attention_on_own_sequences_exchanges_tokens():
    layout = Sharding(tensor=8, expert=8, attention_data=8)
    found = build_rank(MIXTURE, decode(8, 2048), "bf16", layout)  # 8 of the group's 64 sequences
    exchanges = [op for op in found.ops if op.kind == "collective"]
    assert [op.name for op in exchanges] == ["dispatch", "combine"]
    # A token's 8 experts lie on 8 (1 - (7/8)^8) = 5.2511 of the 8 devices.
    assert float(reached(8, 8)) == pytest.approx(5.25113, abs=1e-5)
    # 4,096 x 5.25113 values of a token are 672.1 blocks of 32.
    assert exchanges[0].sizes["payload_bytes"] == 8 * 672 * 32 * 2
    grouped = next(op for op in found.ops if op.kind == "grouped_matmul")
    assert grouped.sizes["rows"] == 64 * 8 // 8  # of all 64 sequences, an eighth meets this device
    assert grouped.sizes["tokens"] == 64


def test_context_devices_share_queries_and_cache():
    whole = totals(build_rank(DENSE, prefill(1, 8192), "bf16"))
    own = totals(build_rank(DENSE, prefill(1, 8192), "bf16", Sharding(context=4)))
    assert own[0] * 4 == pytest.approx(whole[0], rel=2e-3)
    found = build_rank(DENSE, decode(16, 8193), "bf16", Sharding(context=4))
    attention = next(op for op in found.ops if op.kind == "attention")
    assert attention.sizes["kv_len"] == 2049
    assert [op.attrs["axis"] for op in found.ops if op.kind == "collective"] == ["context"]


def test_symbols_stay():
    from gambrel.workload import Symbol

    step = decode("batch", "context")
    step = type(step)(
        groups=step.groups,
        symbols=(Symbol(name="batch", default=16), Symbol(name="context", default=2048)),
    )
    found = build_rank(DENSE, step, "bf16", Sharding(tensor=4))
    evaluator = Evaluator(found, {"batch": 16, "context": 2048}, {}, Conventions())
    at = sum(
        op.repeat * cost.link_bytes for op, _, cost in evaluator.costs() if op.kind == "collective"
    )
    fixed = build_rank(DENSE, decode(16, 2048), "bf16", Sharding(tensor=4))
    assert at == totals(fixed)[2]


def kernels_of(precision, runtime, spec=DENSE):
    found = build_rank(spec, decode(16, 2048), precision, runtime=runtime)
    return {
        op.kind: {k for k in op.attrs if k.endswith("_scales")}
        for op in found.ops
        if op.kind in ("matmul", "grouped_matmul")
        and op.module != "lm_head"
        and not op.module.endswith("router")
    }


def test_scales_decide_which_kernels_run():
    """What engines do apart from each other is chosen where their constants are."""
    assert kernels_of("bf16", "tensorrt-llm") == {"matmul": set()}
    assert kernels_of("fp8", "vllm") == {"matmul": set()}  # scales found on the way
    assert kernels_of("nvfp4", "sglang") == {"matmul": {"static_scales"}}
    assert kernels_of("fp8_block", "tensorrt-llm") == {"matmul": {"block_scales"}}
    assert kernels_of("fp8", "tensorrt-llm", MIXTURE)["grouped_matmul"] == set()
