"""Kernels of the gated delta rule, by hand and against published times."""

from __future__ import annotations

import pytest
from benchmarks.delta_scan import expected, rows

from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.scan_forms import between_bytes, fused, prompt, token

CHIP = Chip(units=100, clock_hz=1e9, byte_per_s=1.2e13)
HALF = {"memory": 1.0, "launch": 1000.0}  # at 120 GB/s per unit half of the bandwidth is attained


def test_what_passes_between_the_kernels():
    # 64 tokens: 5 passes of keys and 4 of values in 16 bits; 64 x 64 products of keys twice in fp32
    # and twice in 16 bits; 128 x 128 states twice in 16 bits.
    assert between_bytes(128, 128) == 64 * 9 * 256 + 64 * 64 * 12 + 128 * 128 * 4


def test_a_single_head_waits_from_chunk_to_chunk():
    # 1,000 chunks of 2,900 cycles; all else is small. Five more kernels start.
    found = prompt(
        HALF, CHIP, batch=1, tokens=64_000, heads=1, key_dim=128, value_dim=128, traffic_bytes=0
    )
    assert found == pytest.approx(5e-6 + 2.9e-3, rel=0.02)


def test_many_heads_take_what_units_and_memory_take():
    # 1,000 chunks of 1,000 heads: 23,000 cycles each over 100 units, 262,144 bytes each at 6 TB/s.
    found = prompt(
        HALF, CHIP, batch=10, tokens=6400, heads=1000, key_dim=128, value_dim=128, traffic_bytes=0
    )
    units, moved = 1e6 * 23_000 / 100 / 1e9, 1e6 * 262_144 / 6e12
    assert found == pytest.approx((units**2 + moved**2) ** 0.5, rel=0.01)


def test_one_token_reads_and_writes_the_state():
    found = token(HALF, CHIP, batch=100, heads=10, traffic_bytes=6e9)
    assert found == pytest.approx((1e-3**2 + (1000 * 5200 / 100 / 1e9) ** 2) ** 0.5)


@pytest.mark.parametrize(("device", "phase"), sorted({(r["device"], r["phase"]) for r in rows()}))
def test_published_times(device, phase):
    ratios = [
        expected(r).value / float(r["seconds"])
        for r in rows()
        if (r["device"], r["phase"]) == (device, phase)
    ]
    assert 0.85 < sorted(ratios)[len(ratios) // 2] < 1.15
    assert all(0.7 < ratio < 1.6 for ratio in ratios)


def test_one_kernel_of_flashinfer_is_that_of_vllm_on_hopper():
    """4 sequences of 4,096 tokens, 32 heads of values: 208.2 µs (ai-dynamo/aiconfigurator)."""
    row = {"batch": "4", "tokens": "4096", "key_heads": "8", "heads": "32"}
    hopper, ada = ({**row, "device": device} for device in ("h100-sxm5-80gb", "l40s"))
    assert expected(hopper, "vllm").value == pytest.approx(208.2e-6, rel=0.2)
    assert expected(hopper, "vllm").value < 0.5 * expected(hopper, "sglang").value
    assert expected(ada, "vllm").value > 0.5 * expected(ada, "sglang").value  # the usual kernels


def test_heads_beyond_the_units_wait_for_the_next_round():
    asked = {"batch": 1, "tokens": 64_000, "traffic_bytes": 0}
    one, two = (fused(HALF, CHIP, heads=heads, **asked) for heads in (100, 101))
    assert one == pytest.approx(1000 * 5200 / 1e9)
    assert two == pytest.approx(2 * one)
