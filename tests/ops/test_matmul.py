"""Matrix products: hand arithmetic, a brute-force product, laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.ops.matmul import touched_share
from tests.ops.builders import costed, counts, matrix, op, tensor, vector
from tests.ops.oracle import count_matmul

small = st.integers(1, 5)
large = st.integers(1, 10**6)


@settings(max_examples=30)
@given(small, small, small, small)
def test_as_a_product_by_hand(b, m, n, k):
    assert matrix(op("matmul", {"b": b, "m": m, "n": n, "k": k})) == 2 * count_matmul(b, m, n, k)


def test_1024_cubed():
    a, b, c = (tensor(1024, 1024) for _ in range(3))
    found = costed(op("matmul", {"m": 1024, "n": 1024, "k": 1024}, inputs=(a, b), outputs=(c,)))
    assert found.work == {("matrix", "fp32"): 2_147_483_648}  # 2 * 2 ** 30
    assert found.read_bytes + found.write_bytes == 12_582_912  # 3 * 4 MiB


def test_a_product_with_itself_reads_it_once():
    a, c = tensor(64, 64), tensor(64, 64)
    gram = op("matmul", {"m": 64, "n": 64, "k": 64}, inputs=(a, a), outputs=(c,))
    assert costed(gram).read_bytes == 64 * 64 * 4


@pytest.mark.parametrize("n", [1_000, 1_000_000])
def test_dot_product_of_bf16_vectors_has_intensity_one_half(n):
    x, y, r = tensor(n, dtype="bf16"), tensor(n, dtype="bf16"), tensor(dtype="bf16")
    found = costed(op("matmul", {"m": 1, "n": 1, "k": n}, inputs=(x, y), outputs=(r,)))
    assert found.work == {("matrix", "bf16"): 2 * n}
    assert (found.read_bytes, found.write_bytes) == (4 * n, 2)
    assert 2 * n / (found.read_bytes + found.write_bytes) == pytest.approx(0.5, rel=1 / n)


def test_matrix_times_vector():
    # 300 rows of 200 products each
    assert matrix(op("matmul", {"m": 300, "n": 1, "k": 200})) == 120_000


def test_small_batch_has_the_intensity_of_the_batch():
    x, w, y = (tensor(*s, dtype="bf16") for s in ((16, 8192), (8192, 8192), (16, 8192)))
    found = costed(op("matmul", {"m": 16, "n": 8192, "k": 8192}, inputs=(x, w), outputs=(y,)))
    # 2 * 16 * 8192 ** 2 FLOP over 2 * 8192 ** 2 bytes of weights and 2 * 2 * 16 * 8192 around
    assert matrix_intensity(found) == pytest.approx(16, rel=0.005)


def matrix_intensity(found):
    return sum(found.work.values()) / (found.read_bytes + found.write_bytes)


def test_bias_is_an_addition_per_result():
    assert counts(op("matmul", {"b": 3, "m": 5, "n": 7, "k": 11}, bias=True)) == (
        2310,  # 2 * 3 * 5 * 7 * 11
        105,
        0,
    )


def test_weight_only_int4():
    x, w = tensor(1, 4096, dtype="bf16"), tensor(4096, 4096, dtype="int4")
    scales = tensor(4096, 32, 2, dtype="bf16")
    linear = op(
        "matmul",
        {"m": 1, "n": 4096, "k": 4096},
        inputs=(x, w, scales),
        outputs=(tensor(1, 4096, dtype="bf16"),),
        compute_dtype="bf16",
        dequantize=True,
    )
    found = costed(linear)
    assert found.work == {("matrix", "bf16"): 33_554_432, ("vector", "bf16"): 33_554_432}
    assert found.read_bytes == 8192 + 8_388_608 + 524_288  # x, half a byte a weight, scales


def test_scales_do_not_widen_an_fp8_product():
    a, b = tensor(16, 32, dtype="fp8"), tensor(32, 16, dtype="fp8")
    scaled = op("matmul", {"m": 16, "n": 16, "k": 32}, inputs=(a, b, tensor(16, 1), tensor(1, 16)))
    assert costed(scaled).work == {("matrix", "fp8"): 16_384}


def test_int8_product():
    a, b = tensor(16, 32, dtype="int8"), tensor(32, 16, dtype="int8")
    out = tensor(16, 16, dtype="int32")
    found = costed(op("matmul", {"m": 16, "n": 16, "k": 32}, inputs=(a, b), outputs=(out,)))
    assert found.work == {("matrix", "int8"): 16_384}
    assert (found.read_bytes, found.write_bytes) == (1024, 1024)


def test_complex_product_is_four_real_ones():
    z = tensor(4, 4, dtype="complex64")
    found = costed(op("matmul", {"m": 4, "n": 4, "k": 4}, inputs=(z, z), outputs=(z,)))
    assert found.work == {("matrix", "fp32"): 512}  # 4 * 2 * 64


@given(large, large, large, large)
def test_symmetric_in_m_and_n_and_linear_in_each(b, m, n, k):
    found = matrix(op("matmul", {"b": b, "m": m, "n": n, "k": k}))
    assert found == matrix(op("matmul", {"b": b, "m": n, "n": m, "k": k}))
    assert 2 * found == matrix(op("matmul", {"b": 2 * b, "m": m, "n": n, "k": k}))
    assert isinstance(found, int)


@given(large, large, large, large)
def test_split_and_add(m, n, k, rest):
    """Splitting the sum over k gives two products of the same total work, and one addition."""
    parts = (op("matmul", {"m": m, "n": n, "k": part}, bias=True) for part in (k, rest))
    whole = op("matmul", {"m": m, "n": n, "k": k + rest})
    first, second = parts
    assert matrix(first) + matrix(second) == matrix(whole)
    assert vector(first) == m * n


def grouped(tokens: int, experts: int = 8, top_k: int = 2, **attrs):
    rows = tokens * top_k
    x = tensor(rows, 4096, dtype="bf16")
    weights = tensor(experts, 4096, 14336, dtype="bf16")
    sizes = {"rows": rows, "n": 14336, "k": 4096, "experts": experts, "top_k": top_k}
    return op(
        "grouped_matmul",
        sizes | {"tokens": tokens},
        inputs=(x, weights, tensor(experts, dtype="int32")),
        outputs=(tensor(rows, 14336, dtype="bf16"),),
        **attrs,
    )


@pytest.mark.parametrize(
    ("tokens", "experts_read"),
    [
        (1, 2.0),  # 8 * (1 - 3/4)
        (2, 3.5),  # 8 * (1 - 9/16)
        (3, 4.625),  # 8 * (1 - 27/64)
        (16, 7.919819),  # 8 * (1 - 0.010023)
    ],
)
def test_mixtral_decode_reads_the_touched_experts(tokens, experts_read):
    found = costed(grouped(tokens))
    expert = 4096 * 14336 * 2
    others = tokens * 2 * 4096 * 2 + 8 * 4
    assert found.read_bytes == pytest.approx(experts_read * expert + others, rel=1e-6)
    assert isinstance(found.read_bytes, int)


def test_grouped_work_is_that_of_the_rows():
    # 6 rows (3 tokens, 2 experts each), 2 * 4096 * 14336 FLOP each
    assert costed(grouped(3)).work == {("matrix", "bf16"): 704_643_072}
    assert vector(grouped(3, bias=True)) == 6 * 14336


def test_gradient_of_expert_weights_writes_them_all():
    g, x = tensor(6, 32), tensor(6, 16)
    sizes = {"rows": 6, "n": 32, "k": 16, "experts": 8, "top_k": 2, "tokens": 3}
    gradient = op(
        "grouped_matmul", sizes, inputs=(g, x), outputs=(tensor(8, 16, 32),), weight_gradient=True
    )
    found = costed(gradient)
    assert found.work == {("matrix", "fp32"): 6144}  # 2 * 6 * 32 * 16
    assert (found.read_bytes, found.write_bytes) == (6 * 48 * 4, 8 * 512 * 4)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 500))
def test_touched_share_lies_between_one_token_and_all(experts, top_k, tokens):
    top_k = min(top_k, experts)
    share = touched_share(experts, top_k, tokens)
    assert top_k / experts - 1e-12 <= share <= 1
    assert share <= touched_share(experts, top_k, tokens + 1)
    assert experts * share <= tokens * top_k + 1e-9
