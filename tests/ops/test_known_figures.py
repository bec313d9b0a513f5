"""Published totals of whole models, composed op by op from their architectures."""

from __future__ import annotations

import pytest

from tests.ops.builders import costed, matrix, op, tensor

GMAC = 2e9


def linear(rows: int, k: int, n: int) -> int:
    return matrix(op("matmul", {"m": rows, "n": n, "k": k}))


def attend(q: int, kv: int, heads: int, d: int, **more: object) -> int:
    sizes = {"batch": 1, "heads": heads, "q_len": q, "kv_len": kv, "head_dim": d}
    return matrix(op("attention", sizes, **more))


def conv(out: int, in_: int, kernel: int, side: int, groups: int = 1) -> int:
    sizes = {"batch": 1, "out_channels": out, "in_channels": in_, "groups": groups}
    return matrix(op("convolution", sizes | {"kernel": (kernel,) * 2, "spatial": (side,) * 2}))


def test_resnet_18():
    total = conv(64, 3, 7, 112)
    for channels, below, side in ((64, 64, 56), (128, 64, 28), (256, 128, 14), (512, 256, 7)):
        total += conv(channels, below, 3, side) + 3 * conv(channels, channels, 3, side)
        if channels != below:
            total += conv(channels, below, 1, side)
    assert total / GMAC == pytest.approx(1.8136, abs=5e-5)
    assert (total + linear(1, 512, 1000)) / 1e9 == pytest.approx(3.6281, abs=5e-5)


def test_resnet_50():
    total = conv(64, 3, 7, 112)
    below, image = 64, 56
    for width, blocks, side in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        for block in range(blocks):
            first = image if block == 0 else side  # version 1.5: the stride is on the 3x3
            total += conv(width, below, 1, first) + conv(width, width, 3, side)
            total += conv(4 * width, width, 1, side)
            if block == 0:
                total += conv(4 * width, below, 1, side)
            below = 4 * width
        image = side
    assert total / GMAC == pytest.approx(4.0871, abs=5e-5)
    assert (total + linear(1, 2048, 1000)) / 1e9 == pytest.approx(8.1784, abs=5e-5)


def test_vit_b_16():
    tokens = 197
    layer = 4 * linear(tokens, 768, 768) + 2 * linear(tokens, 768, 3072)
    linears = 12 * layer + linear(1, 768, 1000)
    attention = 12 * attend(tokens, tokens, 12, 64)
    patches = conv(768, 3, 16, 14)
    assert linears / GMAC == pytest.approx(16.7329, abs=5e-5)
    assert attention / GMAC == pytest.approx(0.7153, abs=5e-5)
    assert patches / GMAC == pytest.approx(0.1156, abs=5e-5)
    assert (linears + attention + patches) / 1e9 == pytest.approx(35.1277, abs=5e-5)


@pytest.mark.parametrize(
    ("tokens", "linears", "attention", "total"),
    [(128, 10.8722, 0.3020, 22.3484), (512, 43.488, 4.832, 96.64)],
)
def test_bert_base(tokens, linears, attention, total):
    layers = 12 * (4 * linear(tokens, 768, 768) + 2 * linear(tokens, 768, 3072))
    products = layers + linear(1, 768, 768)  # and the pooler
    pairs = 12 * attend(tokens, tokens, 12, 64)
    assert products / GMAC == pytest.approx(linears, abs=1e-3)
    assert pairs / GMAC == pytest.approx(attention, abs=1e-3)
    assert (products + pairs) / 1e9 == pytest.approx(total, abs=5e-3)


def test_gpt2_small_with_full_attention():
    layer = linear(128, 768, 2304) + linear(128, 768, 768) + 2 * linear(128, 768, 3072)
    products = 12 * layer + linear(128, 768, 50_257)
    pairs = 12 * attend(128, 128, 12, 64, causal=True, causal_pairs="full")
    assert products / GMAC == pytest.approx(15.8121, abs=5e-5)
    assert (products + pairs) / 1e9 == pytest.approx(32.2282, abs=5e-5)


def llama(tokens: int, layers: int, h: int, ffn: int, kv: int) -> int:
    layer = 2 * linear(tokens, h, h) + 2 * linear(tokens, h, kv) + 3 * linear(tokens, h, ffn)
    return layers * layer


def test_llama_3_70b_with_full_attention():
    products = llama(2048, 80, 8192, 28_672, 1024) + linear(2048, 8192, 128_256)
    pairs = 80 * attend(2048, 2048, 64, 128)
    assert products / GMAC == pytest.approx(142_339.51, abs=0.01)
    assert pairs / GMAC == pytest.approx(5_497.56, abs=0.01)
    assert (products + pairs) / 1e12 == pytest.approx(295.674, abs=1e-3)


@pytest.mark.parametrize(
    ("layers", "h", "ffn", "kv", "heads", "expected"),
    [(32, 4096, 14_336, 1024, 32, 29.69e12), (80, 8192, 28_672, 1024, 64, 285.9e12)],
)
def test_llama_3_prefill(layers, h, ffn, kv, heads, expected):
    """Causal attention; the head on the last token."""
    total = llama(2048, layers, h, ffn, kv) + linear(1, h, 128_256)
    total += layers * attend(2048, 2048, heads, 128, causal=True)
    assert total == pytest.approx(expected, rel=4e-4)


def test_mixtral_prefill():
    """Two of eight experts a token."""
    experts = {"rows": 2 * 2048, "experts": 8, "top_k": 2, "tokens": 2048}
    up = matrix(op("grouped_matmul", experts | {"n": 14_336, "k": 4096}))
    down = matrix(op("grouped_matmul", experts | {"n": 4096, "k": 14_336}))
    layer = 2 * linear(2048, 4096, 4096) + 2 * linear(2048, 4096, 1024) + linear(2048, 4096, 8)
    layer += 2 * up + down + attend(2048, 2048, 32, 128, causal=True)
    assert 32 * layer + linear(1, 4096, 32_000) == pytest.approx(52.78e12, rel=2e-4)


def test_mamba_130m():
    """24 layers of width 768, inner width 1,536, 16 states, step rank 48, 128 tokens."""
    layer = linear(128, 768, 3072) + linear(128, 1536, 80) + linear(128, 48, 1536)
    layer += linear(128, 1536, 768)
    linears = 24 * layer + linear(128, 768, 50_280)
    # causal convolution of 4 taps, depthwise, one result a token
    filters = {"batch": 1, "out_channels": 1536, "in_channels": 1536, "groups": 1536}
    filters = 24 * matrix(op("convolution", filters | {"kernel": (4,), "spatial": (128,)}))
    scan = {"batch": 1, "seq": 128, "channels": 1536, "state": 16}
    readout = 24 * matrix(op("selective_scan", scan))
    assert linears / GMAC == pytest.approx(16.4183, abs=5e-5)
    assert filters / GMAC == pytest.approx(0.0189, abs=5e-5)
    assert readout / GMAC == pytest.approx(0.0755, abs=5e-5)
    assert (linears + filters + readout) / 1e9 == pytest.approx(33.0254, abs=1e-4)


def test_a_module_used_three_times_counts_three_times():
    assert 3 * linear(8, 64, 64) == linear(24, 64, 64)


def test_a_view_costs_nothing():
    x = tensor(1024, 1024)
    found = costed(op("view", inputs=(x,), outputs=(x,)))
    assert (found.work, found.read_bytes, found.write_bytes) == ({}, 0, 0)
