"""FLOP, bytes, weights, caches and bound times of five models, derived by hand.

2,048 tokens or 2,048 cached, 16-bit; H100 SXM: 989.5 TFLOP/s dense (989.4 in the catalog), 3,350
GB/s. The derivation of each number stands beside it; m is the layers' matrix elements that one
token meets, u the bytes of one activation of hidden width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gambrel.analysis.analyze import analyze
from gambrel.analysis.result import Analysis
from gambrel.device.lookup import find
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.step import decode, prefill

from .models import DEEPSEEK_V3, LLAMA2_7B, LLAMA3_8B, LLAMA3_70B, MIXTRAL

S = 2048
PAIRS = 2_098_176  # 2048 · 2049 / 2
PEAK, BANDWIDTH = 989.5e12, 3350e9
BATCHES = (1, 16, 64)
WITHIN = 0.005


@dataclass(frozen=True)
class Case:
    config: dict[str, Any]
    layers: int
    hidden: int
    heads_by_width: int  # query heads times head size
    matrices: int  # elements of one layer's matrices that a token meets
    vocab: int
    inner: int  # width whose activation passes memory, a token
    experts: tuple[int, int, int] | None  # number, chosen, elements of one
    weights_gb: float
    kv_bytes_per_token: int
    prefill_tflop: float
    decode_gb: float
    prefill_ms: tuple[float, float, float]
    decode_ms: tuple[float, float, float]
    kv_gb: float


CASES = {
    # q, k, v, o: 4 · 4096² = 67,108,864; gate, up, down: 3 · 4096 · 11008 = 135,266,304.
    "Llama-2-7B": Case(
        LLAMA2_7B, 32, 4096, 4096, 202_375_168, 32000, 11008, None,
        13.48, 524_288, 27.63, 14.30, (30.7, 491, 1963), (4.27, 9.12, 24.65), 68.7,
    ),
    # q, o: 2 · 4096² = 33,554,432; k, v: 2 · 4096 · 1024 = 8,388,608; 3 · 4096 · 14336 =
    # 176,160,768.
    "Llama-3-8B": Case(
        LLAMA3_8B, 32, 4096, 4096, 218_103_808, 128256, 14336, None,
        16.06, 131_072, 29.69, 15.29, (33.5, 531, 2121), (4.56, 5.82, 9.82), 17.2,
    ),
    # q, o: 2 · 8192² = 134,217,728; k, v: 2 · 8192 · 1024 = 16,777,216; 3 · 8192 · 28672 =
    # 704,643,072.
    "Llama-3-70B": Case(
        LLAMA3_70B, 80, 8192, 8192, 855_638_016, 128256, 28672, None,
        141.1, 327_680, 285.9, 139.7, (305, 4874, 19492), (41.7, 45.0, 55.4), 43.0,
    ),
    # Attention as Llama-3-8B 41,943,040; router 4096 · 8 = 32,768; 2 experts of 176,160,768.
    "Mixtral 8x7B": Case(
        MIXTRAL, 32, 4096, 4096, 394_297_344, 32000, 0, (8, 2, 176_160_768),
        93.4, 131_072, 52.78, 25.8, (55.0, 879, 3517), (7.70, 28.9, 33.2), 17.2,
    ),
}  # fmt: skip


def run(config: dict[str, Any], phase: str, batch: int) -> Analysis:
    step = prefill(batch, S) if phase == "prefill" else decode(batch, S)
    return analyze(build(read_config(config), step), find("h100").device)


@pytest.mark.parametrize("name", CASES)
def test_prefill_flops(name: str) -> None:
    c = CASES[name]
    by_hand = (
        2 * S * c.layers * c.matrices  # every product
        + c.layers * 4 * c.heads_by_width * PAIRS  # QKᵀ and PV over the visible pairs
        + 2 * c.hidden * c.vocab  # the head, on the last token
    )
    found = run(c.config, "prefill", 1).total.matrix_flops
    assert found == by_hand
    assert found / 1e12 == pytest.approx(c.prefill_tflop, rel=WITHIN)
    assert run(c.config, "prefill", 16).total.matrix_flops == 16 * by_hand


@pytest.mark.parametrize("name", CASES)
def test_weights_and_caches(name: str) -> None:
    c = CASES[name]
    found = run(c.config, "decode", 64).footprint
    assert found.weights_bytes / 1e9 == pytest.approx(c.weights_gb, rel=WITHIN)
    assert found.kv_cache_bytes == 64 * S * c.kv_bytes_per_token
    assert found.kv_cache_bytes / 1e9 == pytest.approx(c.kv_gb, rel=WITHIN)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CASES)
def test_decode_bytes(name: str, batch: int) -> None:
    """Weights once, caches once; activations, up to 2.5 % at batch 64, are not derived here."""
    c = CASES[name]
    layer = c.matrices
    if c.experts:
        number, chosen, size = c.experts
        touched = number * (1 - (1 - chosen / number) ** batch)
        layer += (touched - chosen) * size  # the others that some token chose
    by_hand = 2 * (c.layers * layer + c.hidden * c.vocab) + batch * S * c.kv_bytes_per_token
    found = run(c.config, "decode", batch).total.traffic_bytes
    assert by_hand <= found <= 1.025 * by_hand
    if batch == 1:
        assert found / 1e9 == pytest.approx(c.decode_gb, rel=WITHIN)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CASES)
def test_decode_time(name: str, batch: int) -> None:
    c = CASES[name]
    found = run(c.config, "decode", batch).total.roofline_time_s or 0
    assert found * 1e3 == pytest.approx(c.decode_ms[BATCHES.index(batch)], rel=WITHIN)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CASES)
def test_prefill_time(name: str, batch: int) -> None:
    """Products and attention at the peak; norms, additions, activations at the bandwidth.

    A layer moves 9 u: the first norm 2, the addition with the second norm 4, the last addition 3;
    three activations of the inner width (none where experts activate inside their kernel); a
    router reads 1 u. Once: look-up and last norm 2 u each, the head's matrix.
    """
    c = CASES[name]
    u = batch * S * c.hidden * 2
    layer = (10 if c.experts else 9) * u + 3 * batch * S * c.inner * 2
    moved = c.layers * layer + 4 * u + 2 * c.hidden * c.vocab
    work = batch * (2 * S * c.layers * c.matrices + c.layers * 4 * c.heads_by_width * PAIRS)
    by_hand = work / PEAK + moved / BANDWIDTH
    found = run(c.config, "prefill", batch).total.roofline_time_s or 0
    assert found == pytest.approx(by_hand, rel=0.003)
    assert found * 1e3 == pytest.approx(c.prefill_ms[BATCHES.index(batch)], rel=WITHIN)


def _resource(analysis: Analysis, bound: str) -> float:
    return max(t.time_s for t in analysis.total.times if t.bound.value == bound)


#: Matrix elements of DeepSeek-V3 that a token meets. Attention: q 7168·1536 + 1536·128·192, kv
#: 7168·576 + 512·128·256, o 128·128·7168 = 187,105,280. Dense 3·7168·18432 = 396,361,728. Mixture:
#: 8 chosen and 1 shared of 3·7168·2048 = 44,040,192, router 7168·256 = 1,835,008.
_MLA = 11_010_048 + 37_748_736 + 4_128_768 + 16_777_216 + 117_440_512
_EXPERT = 44_040_192
_DENSE_LAYERS = 3 * (_MLA + 396_361_728)
_SPARSE_BASE = 58 * (_MLA + _EXPERT + 1_835_008)


def test_latent_attention_expanded_in_prefill() -> None:
    found = run(DEEPSEEK_V3, "prefill", 1)
    by_hand = (
        2 * S * (_DENSE_LAYERS + _SPARSE_BASE + 58 * 8 * _EXPERT)
        + 61 * 2 * 128 * (192 + 128) * PAIRS
        + 2 * 7168 * 129280
    )
    assert found.total.matrix_flops == by_hand
    assert found.total.matrix_flops / 1e12 == pytest.approx(156.7, rel=WITHIN)
    assert _resource(found, "compute") * 1e3 == pytest.approx(158, rel=WITHIN)


@pytest.mark.parametrize(("batch", "compute_ms"), [(16, 2534), (64, 10135)])
def test_latent_attention_prefill_time(batch: int, compute_ms: float) -> None:
    found = run(DEEPSEEK_V3, "prefill", batch)
    slowest = max(t.time_s for t in found.total.times)
    assert slowest * 1e3 == pytest.approx(compute_ms, rel=WITHIN)


@pytest.mark.parametrize(("batch", "memory_ms"), [(1, 21.9), (16, 166.0), (64, 352.0)])
def test_latent_attention_absorbed_in_decode(batch: int, memory_ms: float) -> None:
    found = run(DEEPSEEK_V3, "decode", batch)
    touched = 256 * (1 - (1 - 8 / 256) ** batch)
    weights = _DENSE_LAYERS + _SPARSE_BASE + 58 * touched * _EXPERT + 7168 * 129280
    by_hand = 2 * weights + batch * S * 70_272
    assert by_hand <= found.total.traffic_bytes <= 1.012 * by_hand
    assert _resource(found, "memory") * 1e3 == pytest.approx(memory_ms, rel=WITHIN)
    # 61 layers of 512 + 64 values of 2 bytes: 70,272 bytes a token.
    assert found.footprint.kv_cache_bytes == batch * S * 70_272


def test_weights_of_deepseek_v3() -> None:
    found = run(DEEPSEEK_V3, "decode", 1)
    assert found.footprint.weights_bytes / 1e9 == pytest.approx(1342, rel=WITHIN)
    assert found.total.traffic_bytes / 1e9 == pytest.approx(73.2, rel=WITHIN)


def test_attention_of_one_layer() -> None:
    """4 · 32 · 128 · 2048·2049/2 = 34.4 GFLOP; q and o 16.8 MB each, k and v 4.2: 41.9 MB."""
    found = run(LLAMA3_8B, "prefill", 1)
    op = next(op for op in found.ops if op.kind == "attention")
    assert op.measures.matrix_flops == 32 * 4 * 32 * 128 * PAIRS
    assert op.measures.traffic_bytes == 32 * 2 * S * 128 * (32 + 8 + 8 + 32)
    assert (op.measures.roofline_time_s or 0) / 32 * 1e6 == pytest.approx(34.8, rel=WITHIN)
