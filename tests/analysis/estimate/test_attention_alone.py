"""Attention without a cache against published times of kernels that no constant has seen.

FlashAttention-3's paper (arXiv 2407.08608, figures 5 and 6): an H100, heads of 128, 16,384 tokens
in all, 16 heads. TFLOP/s as printed there, of products counted in full where all keys are seen.
"""

import pytest

import gambrel

FLOPS = 4 * 16 * 16384 * 128  # of one key
#: Tokens of a sequence, TFLOP/s of version 3 (as vLLM calls it) and of version 2 (PyTorch).
PUBLISHED = ((1024, 565, 350), (4096, 638, 368), (16384, 648, 370))


@pytest.mark.parametrize(("tokens", "third", "second"), PUBLISHED)
def test_published_kernels_lie_inside(tokens, third, second):
    op = f"attention:batch={16384 // tokens},heads=16,q={tokens},kv={tokens},d=128,bf16"
    for runtime, rate in (("vllm", third), ("pytorch", second)):
        found = gambrel.analyze(op, "h100-sxm5-80gb", runtime=runtime)
        measured = FLOPS * tokens / (rate * 1e12)
        expected = found.expected_time_s
        assert found.sol_time_s < measured
        assert expected.low < measured < expected.high
        assert expected.value / measured < 1.4
