"""Decode steps on an H20, whose engine computes a seventh of an H100's per byte; nothing fitted.

Source: QwenLM/Qwen3, docs, speed benchmark (2025): tokens per second of one sequence, 1,024 tokens.
"""

from __future__ import annotations

import pytest

import gambrel

#: Model → ms of a token: SGLang in bf16, with weights of 4 bits, and transformers in bf16.
ROWS = {
    "qwen3-4b": (7.51, 5.01, 21.77),
    "qwen3-8b": (12.23, 6.94, 22.07),
    "qwen3-14b": (21.23, 10.36, 24.59),
    "qwen3-32b": (48.26, 20.98, 38.11),
}


def decode(model: str, runtime: str, precision: str) -> gambrel.Analysis:
    return gambrel.analyze(
        model, "h20", runtime=runtime, precision=precision, phase="decode", context=1024
    )


@pytest.mark.parametrize("model", ROWS)
def test_few_rows_are_computed_as_few(model: str) -> None:
    """A kernel for weights of 4 bits that computed 64 rows for one would take twice as long."""
    whole, narrow, _ = ROWS[model]
    for precision, measured in (("bf16", whole), ("w4a16", narrow)):
        expected = decode(model, "sglang", precision).expected_time_s
        assert expected is not None
        assert expected.value * 1e3 == pytest.approx(measured, rel=0.12)


# The 32B takes 38 ms, of which kernels as SGLang's would take 48 alone.
@pytest.mark.parametrize("model", [m for m in ROWS if m != "qwen3-32b"])
def test_transformers_wait_for_the_host(model: str) -> None:
    found = decode(model, "pytorch", "bf16")
    assert found.expected_time_s is not None
    assert found.expected_time_s.low < ROWS[model][2] * 1e-3 < found.expected_time_s.high
