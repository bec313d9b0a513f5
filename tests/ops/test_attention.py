"""Attention: hand arithmetic, masks asked pair by pair, a head that really runs, laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.ops.attention import visible_pairs
from gambrel.ops.base import Engine
from tests.ops.builders import costed, counts, matrix, op, special, tensor, vector
from tests.ops.oracle import Number, Tally, added, exp, fma, run_attention, seen_keys, visible

lengths = st.integers(1, 12)
windows = st.none() | st.integers(1, 14)
alignments = st.sampled_from(["lower_right", "upper_left"])


def heads(q, kv, *, batch=1, heads=1, kv_heads=None, d=8, dv=None, window=None, **attrs):
    """An attention with its tensors in (batch, heads, tokens, width)."""
    kv_heads, dv = kv_heads or heads, dv or d
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": q, "kv_len": kv}
    sizes |= {"head_dim": d, "v_head_dim": dv}
    dtype = attrs.pop("dtype", "fp16")
    inputs = (
        tensor(batch, heads, q, d, dtype=dtype),
        tensor(batch, kv_heads, kv, d, dtype=dtype),
        tensor(batch, kv_heads, kv, dv, dtype=dtype),
    )
    return op(
        "attention",
        sizes if window is None else sizes | {"window": window},
        inputs=attrs.pop("inputs", inputs),
        outputs=(tensor(batch, heads, q, dv, dtype=dtype),),
        **attrs,
    )


@given(lengths, lengths, windows, alignments)
def test_causal_pairs_as_asked_one_by_one(q, kv, window, alignment):
    view = heads(q, kv, window=window, causal=True, causal_alignment=alignment)
    assert visible_pairs(view) == sum(visible(q, kv, causal=alignment, window=window))


@given(lengths, lengths, windows)
def test_pairs_without_a_causal_mask(q, kv, window):
    pairs = sum(visible(q, kv, causal=None, window=window))
    assert visible_pairs(heads(q, kv, window=window)) == pairs
    assert visible_pairs(heads(q, kv, window=window, causal=True, causal_pairs="full")) == pairs


@settings(max_examples=40, deadline=None)
@given(lengths, lengths, windows, alignments, st.integers(1, 4), st.integers(1, 4))
def test_as_a_head_that_runs(q, kv, window, alignment, d, dv):
    tally = Tally()
    run_attention(tally, visible(q, kv, causal=alignment, window=window), d, dv)
    view = heads(q, kv, d=d, dv=dv, window=window, causal=True, causal_alignment=alignment)
    assert counts(view) == (2 * tally.multiply_adds, tally.vector, tally.special)


@given(lengths, lengths, windows, alignments)
def test_keys_that_are_read(q, kv, window, alignment):
    view = heads(q, kv, d=4, dv=2, window=window, causal=True, causal_alignment=alignment)
    keys = seen_keys(q, kv, causal=alignment, window=window)
    assert costed(view).read_bytes == 2 * (q * 4 + keys * 4 + keys * 2)


def test_default_alignment_is_lower_right():
    # One new token behind 99 cached ones sees all 100
    assert visible_pairs(heads(1, 100, causal=True)) == 100
    assert visible_pairs(heads(1, 100, causal=True, causal_alignment="upper_left")) == 1


def test_causal_of_equal_lengths_is_the_triangle():
    assert visible_pairs(heads(2048, 2048, causal=True)) == 2_098_176  # 2048 * 2049 / 2
    assert visible_pairs(heads(2048, 2048, causal=True, causal_pairs="full")) == 4_194_304


def test_bert_base_512():
    # 12 layers of 12 heads, 512 * 512 pairs, 64 + 64 products: 4.832 GMAC
    view = heads(512, 512, heads=12, d=64)
    assert 12 * matrix(view) == 2 * 4_831_838_208


def test_llama_3_8b_prefill_layer():
    view = heads(2048, 2048, heads=32, kv_heads=8, d=128, causal=True, dtype="bf16")
    found = costed(view)
    # 34.4 GFLOP and 41.9 MB: Q and O 16.8 MB each, K and V 4.2 MB each
    assert matrix(view) == 4 * 32 * 2_098_176 * 128 == 34_376_515_584
    assert found.read_bytes + found.write_bytes == 2 * 16_777_216 + 2 * 4_194_304


@pytest.mark.parametrize("expanded", [False, True])
def test_decode_with_grouped_queries_reads_the_cache_once(expanded):
    q = tensor(1, 32, 1, 128, dtype="fp16")
    held = 32 if expanded else 8  # the framework repeated keys and values for the query heads
    k, v = (tensor(1, held, 2048, 128, dtype="fp16") for _ in range(2))
    view = heads(1, 2048, heads=32, kv_heads=8, d=128, causal=True, inputs=(q, k, v))
    found = costed(view)
    assert found.read_bytes == 8_388_608 + 8_192  # K and V 8.39e6; Q 32 * 128 * 2
    assert found.write_bytes == 8_192
    assert matrix(view) == 2 * 32 * 2048 * 256


def test_expanded_views_of_keys_count_their_distinct_elements():
    q = tensor(1, 32, 1, 128, dtype="fp16")
    k, v = (tensor(1, 32, 64, 128, dtype="fp16", elements=8 * 64 * 128) for _ in range(2))
    view = heads(1, 64, heads=32, d=128, inputs=(q, k, v))
    assert costed(view).read_bytes == 2 * 8 * 64 * 128 * 2 + 8_192


def test_values_within_the_keys_are_read_once():
    """Multi-head latent attention, absorbed: values are the first 512 of the 576 of a key."""
    q = tensor(1, 128, 1, 576, dtype="bf16")
    k = tensor(1, 1, 1000, 576, dtype="bf16", storage=7)
    v = tensor(1, 1, 1000, 512, dtype="bf16", storage=7)
    view = heads(1, 1000, heads=128, kv_heads=1, d=576, dv=512, inputs=(q, k, v))
    assert costed(view).read_bytes == 1000 * 576 * 2 + 128 * 576 * 2
    assert matrix(view) == 2 * 128 * 1000 * 1088


def test_mask_is_read_and_added():
    plain_view = heads(3, 5)
    mask = tensor(1, 1, 3, 5, dtype="fp32")
    masked = heads(3, 5, mask=True, inputs=(*plain_view.inputs, mask))
    assert vector(masked) - vector(plain_view) == 15
    assert costed(masked).read_bytes - costed(plain_view).read_bytes == 60
    # the format of the mask is not that of the products
    assert {dtype for _, dtype in costed(masked).work} == {"fp16"}


def test_dropout_masks_and_rescales():
    assert vector(heads(3, 5, dropout=True)) - vector(heads(3, 5)) == 30


def test_sliding_window_decode_reads_the_window():
    view = heads(1, 32_768, heads=32, kv_heads=8, d=128, window=4096, causal=True)
    assert costed(view).read_bytes == 2 * 4096 * 8 * 128 * 2 + 8_192
    assert matrix(view) == 2 * 32 * 4096 * 256


def test_cross_attention():
    # 100 queries on 1500 encoder states
    assert matrix(heads(100, 1500, heads=8, d=64)) == 2 * 8 * 150_000 * 128


def test_packed_input_is_read_as_it_is():
    packed = tensor(1, 10, 3 * 64)
    assert costed(heads(10, 10, d=64, inputs=(packed,))).read_bytes == 1920 * 4


def backward_head(tally: Tally, counts: list[int], d: int, dv: int, *, recompute: bool) -> None:
    """Gradients of one head, by loops over the visible pairs."""

    def dot(a: list[Number], b: list[Number]) -> Number:
        total = tally.number(0.0)
        for x, y in zip(a, b, strict=True):
            total = fma(total, x, y)
        return total

    def spread(into: list[Number], weight: Number, row: list[Number]) -> list[Number]:
        return [fma(t, weight, x) for t, x in zip(into, row, strict=True)]

    for seen in counts:
        if not seen:
            continue
        q, do, o = tally.numbers(d), tally.numbers(dv), tally.numbers(dv)
        mean = added([a * b for a, b in zip(do, o, strict=True)])
        dq, dk, dv_row = tally.numbers(d), tally.numbers(d), tally.numbers(dv)
        for j in range(seen):
            k, v = tally.numbers(d, j), tally.numbers(dv, j)
            score = dot(q, k) if recompute else tally.number(0.5)
            p = exp(score * 0.125 - 3.0)
            dv_row = spread(dv_row, p, do)
            ds = p * (dot(do, v) - mean) * 0.125
            dq = spread(dq, ds, k)
            dk = spread(dk, ds, q)


@settings(max_examples=40, deadline=None)
@given(lengths, lengths, windows, alignments, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_backward_as_a_head_that_runs(q, kv, window, alignment, d, dv, recompute):
    tally = Tally()
    seen = visible(q, kv, causal=alignment, window=window)
    backward_head(tally, seen, d, dv, recompute=recompute)
    forward = heads(q, kv, d=d, dv=dv, window=window, causal=True, causal_alignment=alignment)
    view = op("attention_backward", dict(forward.sizes), **forward.attrs, recompute=recompute)
    assert counts(view) == (2 * tally.multiply_adds, tally.vector, tally.special)


def test_backward_is_five_products():
    forward = heads(64, 64, heads=4, d=32)
    backward = op("attention_backward", dict(forward.sizes))
    assert 2 * matrix(backward) == 5 * matrix(forward)
    assert special(backward) == special(forward)


def test_backward_traffic_holds_no_scores():
    forward = heads(64, 64, batch=2, heads=4, kv_heads=2, d=32)
    q, k, v = forward.inputs
    do, o, dq = (tensor(2, 4, 64, 32, dtype="fp16") for _ in range(3))
    dk, dv = (tensor(2, 2, 64, 32, dtype="fp16") for _ in range(2))
    lse = tensor(2, 4, 64)
    view = op(
        "attention_backward",
        dict(forward.sizes),
        inputs=(do, q, k, v, o, lse),
        outputs=(dq, dk, dv),
    )
    found = costed(view)
    # dO, Q, O and dQ 32 KiB each, K, V, dK, dV 16 KiB each, the log-sums 2 KiB
    assert found.read_bytes == 3 * 32_768 + 2 * 16_384 + 2_048
    assert found.write_bytes == 32_768 + 2 * 16_384


def test_backward_writes_gradients_of_unseen_keys_too():
    forward = heads(1, 100, d=8, window=10, causal=True)
    q, k, v = forward.inputs
    outputs = tuple(tensor(1, 1, n, 8, dtype="fp16") for n in (1, 100, 100))
    view = op(
        "attention_backward",
        dict(forward.sizes),
        inputs=(q, q, k, v),
        outputs=outputs,
        causal=True,
    )
    assert costed(view).read_bytes == 8 * 2 + 2 * 10 * 8 * 2
    assert costed(view).write_bytes == 8 * 2 + 2 * 100 * 8 * 2


@pytest.mark.parametrize("attrs", [{"mask": True}, {"dropout": True}])
def test_backward_masks(attrs):
    extra = {"mask": 1, "dropout": 4}[next(iter(attrs))]
    sizes = dict(heads(3, 5).sizes)
    bare, more = op("attention_backward", sizes), op("attention_backward", sizes, **attrs)
    assert vector(more) - vector(bare) == 15 * extra


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 4096), st.integers(1, 4096))
def test_is_its_two_products_and_linear_in_batch(batch, count, q, kv):
    view = heads(q, kv, batch=batch, heads=count, d=64, dv=96)
    scores = op("matmul", {"b": batch * count, "m": q, "n": kv, "k": 64})
    values = op("matmul", {"b": batch * count, "m": q, "n": 96, "k": kv})
    assert matrix(view) == matrix(scores) + matrix(values)
    once = counts(heads(q, kv, heads=count, d=64, dv=96))
    assert counts(view) == tuple(batch * n for n in once)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_causal_is_never_more_than_full(q, kv):
    half = visible_pairs(heads(q, kv, causal=True))
    assert half <= visible_pairs(heads(q, kv, causal=True, causal_pairs="full")) == q * kv
    if kv >= q:
        assert half == q * kv - q * (q - 1) // 2


@pytest.mark.parametrize(("causal", "pairs"), [(False, 3 * 5), (True, 3 + 4 + 5)])
def test_scores_of_an_indexer(causal, pairs):
    """Two sequences, 4 heads of 8 over one key; products rectified, weighed and added."""
    inputs = (
        tensor(2, 3, 32, dtype="fp8"),
        tensor(2, 5, 8, dtype="fp8"),
        tensor(2, 3, 4, dtype="bf16"),
    )
    sizes = {"batch": 2, "heads": 4, "q_len": 3, "kv_len": 5, "head_dim": 8}
    scores = (tensor(2, 3, 5, dtype="fp32"),)
    view = op("attention_scores", sizes, inputs=inputs, outputs=scores, causal=causal)
    assert costed(view).work == {
        (Engine.MATRIX, "fp8"): 2 * 2 * pairs * 4 * 8,
        (Engine.VECTOR, "fp32"): 2 * pairs * (4 + 4 + 3),
    }
    assert costed(view).read_bytes == 2 * 3 * 32 + 2 * 5 * 8 + 2 * 3 * 4 * 2
    assert costed(view).write_bytes == 2 * 3 * 5 * 4
    backward = op("attention_scores_backward", sizes, inputs=(*scores, *inputs), causal=causal)
    assert matrix(backward) == 3 * matrix(view)
