"""Steps of small models, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gambrel.analysis.evaluate import Evaluator
from gambrel.errors import InputError
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.kv import kv_cache
from gambrel.llm.spec import Attention, Layer, LayerGroup, Mixture, Mlp, ModelSpec
from gambrel.llm.step import ForwardPass, SequenceGroup, chunks, decode, mixed, prefill, verify
from gambrel.ops import Conventions, Cost, OpView
from gambrel.ops.matmul import touched_share
from gambrel.workload import Op, Role, Symbol, Workload

from .models import DEEPSEEK_V3, GPT_OSS_20B, LLAMA3_8B, LLAMA4_SCOUT, MIXTRAL, QWEN3_NEXT


def costs(workload: Workload, **sizes: int) -> list[tuple[Op, OpView, Cost]]:
    values = workload.resolve_symbols(sizes)
    found = Evaluator(workload, values, {}, Conventions()).costs()
    return [(op, view, cost) for op, view, cost in found if cost is not None]


def matrix(workload: Workload, kind: str | None = None, **sizes: int) -> int:
    return sum(
        op.repeat * work
        for op, _, cost in costs(workload, **sizes)
        for (engine, _), work in cost.work.items()
        if engine.value == "matrix" and kind in (None, op.kind)
    )


def traffic(workload: Workload, kind: str, **sizes: int) -> int:
    return sum(
        op.repeat * (cost.read_bytes + cost.write_bytes)
        for op, _, cost in costs(workload, **sizes)
        if op.kind == kind
    )


def small(**changes: Any) -> ModelSpec:
    mixer = Attention(heads=4, kv_heads=2, head_dim=8, **changes.pop("mixer", {}))
    layer = Layer(mixer=mixer, feed_forward=changes.pop("feed_forward", Mlp(width=48)))
    fields: dict[str, Any] = {
        "name": "small",
        "family": "llama",
        "hidden": 32,
        "vocab": 100,
        "layers": (LayerGroup(layer=layer, count=3),),
    }
    return ModelSpec(**{**fields, **changes})


def test_every_op_of_a_layer() -> None:
    kinds = [(op.kind, op.module) for op in build(small(), decode(2, 10)).ops]
    layer = [
        ("normalization", "layers.*.input_norm"),
        ("matmul", "layers.*.attention.q_proj"),
        ("matmul", "layers.*.attention.k_proj"),
        ("matmul", "layers.*.attention.v_proj"),
        ("attention", "layers.*.attention"),
        ("matmul", "layers.*.attention.o_proj"),
        ("normalization", "layers.*.feed_forward_norm"),
        ("matmul", "layers.*.feed_forward.gate_proj"),
        ("matmul", "layers.*.feed_forward.up_proj"),
        ("elementwise", "layers.*.feed_forward"),
        ("matmul", "layers.*.feed_forward.down_proj"),
        ("elementwise", "layers.*"),
    ]
    assert kinds == [("embedding", "embedding"), *layer, ("normalization", "norm"),
                     ("matmul", "lm_head")]  # fmt: skip


def test_decode_reads_the_cache_once_a_key_head() -> None:
    # Keys and values of 10 tokens, 2 heads of 8, 2 bytes: 2·10·2·8·2 = 640; query and output of 4
    # heads: 2·4·8·2 = 128. Two sequences, three layers.
    assert traffic(build(small(), decode(2, 10)), "attention") == 3 * 2 * (640 + 128)
    # Scores and values: 4·4·8·10 = 1,280.
    assert matrix(build(small(), decode(2, 10)), "attention") == 3 * 2 * 1280


def test_a_window_bounds_work_traffic_and_cache() -> None:
    spec = small(mixer={"window": 4})
    workload = build(spec, decode(1, 10))
    assert matrix(workload, "attention") == 3 * 4 * 4 * 8 * 4
    cached = [
        t for t in workload.tensors if t.role is Role.KV_CACHE and t.name.endswith("key_cache")
    ]
    assert max(int(t.shape[0]) for t in cached) == 4
    # Prefill of 10: 1+2+3+4+4·6 = 34 pairs.
    assert matrix(build(spec, prefill(1, 10)), "attention") == 3 * 4 * 4 * 8 * 34


def test_chunked_attention_sees_its_own_chunk() -> None:
    spec = small(mixer={"chunk": 4})
    # 10 tokens: chunks of 4, 4, 2: 10 + 10 + 3 pairs.
    assert matrix(build(spec, prefill(1, 10)), "attention") == 3 * 4 * 4 * 8 * 23
    # The tenth token is the second of its chunk.
    assert matrix(build(spec, decode(1, 10)), "attention") == 3 * 4 * 4 * 8 * 2


def test_the_head_runs_on_the_last_token_unless_tokens_are_checked() -> None:
    head = 2 * 32 * 100
    assert matrix(build(small(), prefill(1, 10))) - matrix(
        build(small(), replace(prefill(1, 10), outputs=0))
    ) == head  # fmt: skip
    checked = build(small(), verify(2, 10, drafted=3))
    (last,) = [op for op in checked.ops if op.module == "lm_head"]
    assert last.sizes["m"] == 2 * 4
    # Each of 4 tokens sees 10, 11, 12, 13 positions.
    assert matrix(checked, "attention") == 3 * 2 * 4 * 4 * 8 * (10 + 11 + 12 + 13)


@settings(deadline=None)  # another process may have the processor
@given(st.integers(1, 60), st.integers(1, 20))
def test_chunks_of_a_prompt_do_its_work(seq: int, chunk: int) -> None:
    whole = build(small(), replace(prefill(1, seq), outputs=0))
    parts = [build(small(), replace(step, outputs=0)) for step in chunks(seq, chunk)]
    assert sum(map(matrix, parts)) == matrix(whole)


@settings(deadline=None)  # another process may have the processor
@given(st.integers(1, 9), st.integers(2, 40), st.integers(1, 9), st.integers(0, 9))
def test_a_mixed_step_is_both_its_parts(many: int, context: int, new: int, cached: int) -> None:
    both = build(small(), mixed(many, context, new, cached))
    apart = (build(small(), decode(many, context)), build(small(), prefill(1, new, cached)))
    assert matrix(both) == sum(map(matrix, apart))
    assert sum(op.repeat for op in both.ops if op.kind == "matmul") == sum(
        op.repeat for op in apart[0].ops if op.kind == "matmul"
    )


def test_open_sizes_give_the_figures_of_fixed_ones() -> None:
    names = ("batch", "context")
    symbols = tuple(Symbol(name=n, default=2) for n in names)
    for config in (LLAMA3_8B, MIXTRAL, DEEPSEEK_V3):
        spec = read_config(config)
        opened = build(spec, replace(decode("batch", "context"), symbols=symbols))
        fixed = build(spec, decode(5, 300))
        assert matrix(opened, batch=5, context=300) == matrix(fixed)
        for kind in ("matmul", "attention", "grouped_matmul"):
            assert traffic(opened, kind, batch=5, context=300) == traffic(fixed, kind)


def test_experts_touched_by_a_batch() -> None:
    # 8 experts, 2 a token: one token 2 of 8; 16 tokens 8·(1 - 0.75^16) = 7.92.
    assert touched_share(8, 2, 1) * 8 == 2
    assert touched_share(8, 2, 16) * 8 == pytest.approx(7.92, abs=0.005)
    spec = small(feed_forward=Mixture(experts=8, top_k=2, width=16))
    one = traffic(build(spec, decode(1, 8)), "grouped_matmul")
    # 2 of 8 experts of 32·(2·16) and of 16·32 values of 2 bytes; 2 rows of 32 in and out, of 32
    # and 16 between; two times 8 offsets of 4 bytes.
    weights = 2 * (32 * 32 + 16 * 32) * 2
    rows = 2 * (32 + 32 + 16 + 32) * 2
    assert one == 3 * (weights + rows + 2 * 32)


def test_skewed_routing_touches_fewer_experts() -> None:
    shares = [touched_share(64, 4, 32, skew) for skew in (0.0, 0.5, 1.0, 2.0)]
    assert shares == sorted(shares, reverse=True)
    assert all(share > 4 / 64 for share in shares)
    assert touched_share(64, 4, 1, 1.0) * 64 == pytest.approx(4)
    # Two of two experts: every token passes both, whatever the skew.
    assert touched_share(2, 2, 1, 3.0) == pytest.approx(1)


def test_latent_attention_expanded_and_absorbed() -> None:
    spec = read_config(DEEPSEEK_V3)
    absorbed, expanded = (build(spec, decode(1, 1000), absorbed=way) for way in (True, False))
    # 128 heads over the latent of 512 + 64, values of 512; or heads of 192 and 128.
    assert matrix(absorbed, "attention") == 61 * 2 * 128 * 1000 * (576 + 512)
    assert matrix(expanded, "attention") == 61 * 2 * 128 * 1000 * (192 + 128)
    # Expanding 1,000 latents of 512 to 128 heads of 256 again at each step.
    extra = matrix(expanded, "matmul") - matrix(absorbed, "matmul")
    assert extra == 61 * (2 * 1000 * 512 * 128 * 256 - 2 * 512 * 128 * 256)
    assert [op.kind for op in build(spec, decode(1, 9)).ops].count("attention") == 2


def test_multi_token_prediction_adds_its_layers() -> None:
    spec = read_config(DEEPSEEK_V3)
    assert spec.mtp == 1
    with_mtp = build(spec, replace(decode(1, 100), mtp=True))
    without = build(spec, decode(1, 100))
    assert matrix(with_mtp) > matrix(without)
    modules = {op.module.partition(".")[0] for op in with_mtp.ops}
    assert "mtp" in modules


def test_llama_4_has_chunks_and_full_layers() -> None:
    spec = read_config(LLAMA4_SCOUT)
    assert {(g.name, g.count) for g in spec.layers} == {("moe_chunked", 36), ("moe_full", 12)}
    assert spec.layers[0].layer.mixer.chunk == 8192  # type: ignore[union-attr]


def test_a_recurrent_state_does_not_grow() -> None:
    spec = read_config(QWEN3_NEXT)
    # 36 layers with a state: 32 heads of 128·128, and 3 inputs of 8,192 convolved channels.
    kept = kv_cache(spec, spec.precisions(), batch_size=1, context=9)
    state = next(part for part in kept.parts if part.name == "state")
    assert state.logical_bytes == 2 * 36 * (32 * 128 * 128 + 3 * 8192)
    assert spec.kv_elements_per_token == 12 * 2 * 2 * 256
    states = [
        sum(1 for t in build(spec, decode(1, n)).tensors if t.role is Role.STATE) for n in (9, 9000)
    ]
    assert states[0] == states[1] > 0


def test_sinks_and_windows_of_gpt_oss() -> None:
    spec = read_config(GPT_OSS_20B)
    assert [(g.name, g.count) for g in spec.layers] == [
        ("sliding_attention", 12),
        ("full_attention", 12),
    ]


def test_a_context_beyond_learned_positions_is_refused() -> None:
    with pytest.raises(InputError, match=r"context 20: small has a table of 16 positions"):
        build(small(positions=16), decode(1, 20))


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ({"count": 0, "new_tokens": 1}, "count=0: a step takes at least 1"),
        ({"count": 1, "new_tokens": 0}, "new_tokens=0: a step takes at least 1"),
        ({"count": 1, "new_tokens": 1, "cached_tokens": -1}, "cached_tokens=-1"),
    ],
)
def test_absurd_steps(group: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        ForwardPass(groups=(SequenceGroup(**group),))


def test_steps_without_groups_and_chunks() -> None:
    with pytest.raises(InputError, match="at least one group"):
        ForwardPass(groups=())
    with pytest.raises(InputError, match="chunk=0"):
        chunks(10, 0)


def test_what_open_sizes_and_routing_assume_is_said() -> None:
    names = tuple(Symbol(name=n, default=12) for n in ("batch", "context"))
    opened = build(small(mixer={"chunk": 4}), replace(decode("batch", "context"), symbols=names))
    assert any(s.startswith("Sizes are open") for s in opened.assumptions)
    # As a window of 4: never more than 4 positions.
    assert matrix(opened, "attention", batch=1, context=10) == 3 * 4 * 4 * 8 * 4
    fixed = build(small(mixer={"chunk": 4}), decode(1, 10))
    assert not any(s.startswith("Sizes are open") for s in fixed.assumptions)
    spec = read_config(MIXTRAL)
    even, skewed = (build(spec, decode(8, 64), routing_skew=s) for s in (0.0, 1.0))
    assert "Mixture of experts: tokens are spread evenly over the experts." in even.assumptions
    assert any("Zipf distribution of exponent 1 " in s for s in skewed.assumptions)
    assert traffic(skewed, "grouped_matmul") < traffic(even, "grouped_matmul")
